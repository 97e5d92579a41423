"""The client library of Qdrant, with a transport of ours in place of its own.

Redirects are never followed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial

from qdrant_client import QdrantClient

from truespan.errors import InvalidConfiguration, resource_error
from truespan.index.server import ServerOptions, server_targets
from truespan.index.server.failures import server_errors
from truespan.index.server.transport import GuardedTransport, resolve_within
from truespan.protocols import Clock
from truespan.providers.outbound import Target

_RECONNECT_MS = 1000
"""After an outage gRPC would wait up to two minutes before it connects again."""


def open_client(
    options: ServerOptions, clock: Clock
) -> tuple[QdrantClient, Callable[[], Target | None]]:
    """Return a client that has sent nothing yet, and a function that returns the last node asked.

    Raises:
        InvalidConfiguration: the key, the certificates or the address cannot be used.
    """
    key = options.key.reveal()
    if not (key.isascii() and key.isprintable()):
        # The error that this leads to further down would quote the key.
        raise InvalidConfiguration(
            "The key of the index server contains characters that cannot be sent.",
            advice="Check it for line breaks and spaces that were copied along.",
        )
    targets = server_targets(options.url)
    target = targets[0]
    if options.grpc and len(targets) > 1:
        raise InvalidConfiguration(
            "Several nodes in index_url need REST.",
            advice="Set qdrant_grpc = false, or name one node or a load balancer.",
        )
    certificates, tls = _read_certificates(options) if target.scheme == "https" else (None, None)
    transport = GuardedTransport(targets, tls, clock, seconds=options.timeout_seconds)
    node: Callable[[], Target | None] = transport.last_node
    if options.grpc:
        channel = target._replace(port=options.grpc_port)
        node = partial(Target, *channel)
        # The gRPC library resolves the host by itself.
        with server_errors("be reached", node):
            resolve_within(channel.host, channel.port, options.timeout_seconds)
    client = QdrantClient(
        url=target.url,
        prefer_grpc=options.grpc,
        grpc_port=options.grpc_port,
        timeout=options.timeout_seconds,
        # Not as `api_key`: that warns about a server on the same machine without TLS.
        headers={"api-key": key} if key else None,
        # The check would be another request, through a client and proxies of its own.
        check_compatibility=False,
        grpc_options={
            "grpc.enable_http_proxy": 0,
            "grpc.initial_reconnect_backoff_ms": _RECONNECT_MS,
            "grpc.max_reconnect_backoff_ms": _RECONNECT_MS,
        }
        | ({"root_certificates": certificates} if certificates else {}),
        transport=transport,
        trust_env=False,
        follow_redirects=False,
    )
    return client, node


def _read_certificates(options: ServerOptions) -> tuple[bytes | None, ssl.SSLContext]:
    """Return the certificates of the settings, and a context that trusts them or the machine's."""
    try:
        certificates = options.ca_file.read_bytes() if options.ca_file else None
        cadata = certificates.decode() if certificates else None
        return certificates, ssl.create_default_context(cadata=cadata)
    except (OSError, ValueError) as error:
        if known := resource_error(error):
            raise known from None
        raise InvalidConfiguration("The certificates of qdrant_ca_file cannot be used.") from None
