"""The REST client library of Qdrant, with our own transport. Redirects are never followed."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from qdrant_client import QdrantClient

from truespan.errors import InvalidConfiguration, resource_error
from truespan.index.server import ServerOptions, server_targets
from truespan.index.server.transport import GuardedTransport
from truespan.protocols import Clock
from truespan.providers.outbound import Target


def open_client(
    options: ServerOptions, clock: Clock
) -> tuple[QdrantClient, Callable[[], Target | None]]:
    """Return a client that has sent nothing yet, and a function that returns the last node asked.

    Raises:
        InvalidConfiguration: the key, the certificates or the address cannot be used.
    """
    key = options.key.reveal()
    if not (key.isascii() and key.isprintable()):
        # The error of the client library would quote the key.
        raise InvalidConfiguration(
            "The key of the index server contains characters that cannot be sent.",
            advice="Check it for line breaks and spaces.",
        )
    targets = server_targets(options.url)
    tls = _tls_context(options) if targets[0].scheme == "https" else None
    transport = GuardedTransport(targets, tls, clock, seconds=options.timeout_seconds)
    client = QdrantClient(
        url=targets[0].url,
        timeout=options.timeout_seconds,
        # `api_key` would warn about a server on the same machine without TLS.
        headers={"api-key": key} if key else None,
        # The check would be another request, with its own client and proxies.
        check_compatibility=False,
        transport=transport,
        trust_env=False,
        follow_redirects=False,
    )
    return client, transport.last_node


def _tls_context(options: ServerOptions) -> ssl.SSLContext:
    """Return a context that trusts the certificates of the settings, or those of the machine."""
    try:
        certificates = options.ca_file.read_text() if options.ca_file else None
        return ssl.create_default_context(cadata=certificates)
    except (OSError, ValueError) as error:
        if known := resource_error(error):
            raise known from None
        raise InvalidConfiguration("The certificates of qdrant_ca_file cannot be used.") from None
