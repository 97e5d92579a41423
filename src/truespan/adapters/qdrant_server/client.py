"""The client of a Qdrant server, made when it is first needed: its library takes long to import."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient

from truespan.adapters.qdrant_server.options import ServerOptions, server_target
from truespan.adapters.qdrant_server.outbound import (
    AddressRefused,
    GuardedTransport,
    allowed_addresses,
)
from truespan.errors import InvalidConfiguration
from truespan.model.keys import Secret
from truespan.ports import Clock


def open_client(options: ServerOptions, clock: Clock) -> QdrantClient:
    """Return a client that has sent nothing yet.

    Raises:
        InvalidConfiguration: the address or the certificates cannot be used.
    """
    target = server_target(options.url)
    secure = target.scheme == "https"
    certificates = _certificates(options.ca_file) if secure else None
    tls = _context(certificates) if secure else None
    return QdrantClient(
        url=target.url,
        prefer_grpc=options.grpc,
        grpc_port=options.grpc_port,
        timeout=options.timeout_seconds,
        # Not as `api_key`: that warns whoever runs the server beside Truespan, without TLS.
        headers=_headers(options.key),
        # The check would be one more request, through a client and proxies of its own.
        check_compatibility=False,
        grpc_options=_channel(certificates),
        transport=GuardedTransport(tls, clock, seconds=options.timeout_seconds),
        trust_env=False,
        follow_redirects=False,
    )


def _headers(key: Secret) -> dict[str, str] | None:
    if not key:
        return None
    value = key.reveal()
    if not (value.isascii() and value.isprintable()):
        # Further down, the error that this leads to would quote the key.
        raise InvalidConfiguration(
            "The key of the index server holds characters that cannot be sent.",
            advice="Look for line breaks and spaces that were copied along with it.",
        )
    return {"api-key": value}


def check_channel(options: ServerOptions) -> None:
    """Look at the address that a gRPC channel will lead to; it resolves the name by itself.

    Raises:
        AddressRefused: no index lives there.
        OSError: the name has no address.
    """
    target = server_target(options.url)
    if options.grpc and not allowed_addresses(target.host, options.grpc_port):
        raise AddressRefused


def _channel(certificates: bytes | None) -> dict[str, Any]:
    chosen: dict[str, Any] = {"grpc.enable_http_proxy": 0}
    return chosen | ({"root_certificates": certificates} if certificates else {})


def _certificates(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path else None
    except OSError:
        raise _unusable() from None


def _context(certificates: bytes | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=certificates.decode() if certificates else None)
    except (ssl.SSLError, ValueError):
        raise _unusable() from None


def _unusable() -> InvalidConfiguration:
    return InvalidConfiguration("The certificates of qdrant_ca_file cannot be used.")
