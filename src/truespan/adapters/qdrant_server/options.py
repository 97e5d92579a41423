"""How a Qdrant server is reached and what its collections are like."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from truespan.adapters.providers.http_connection import Target, read_target
from truespan.errors import InvalidConfiguration
from truespan.model.ids import WorldId
from truespan.model.keys import Secret

STANDARD_PORT = 6333


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """All that an operator may choose about a Qdrant server.

    Shards, replicas and the write factor count when a collection is made; the server keeps them.
    """

    url: str
    key: Secret = field(default_factory=lambda: Secret(""))
    ca_file: Path | None = None
    """Certificates to trust in place of those of this machine."""
    grpc: bool = False
    grpc_port: int = 6334
    timeout_seconds: int = 30
    prefix: str = "truespan_"
    """What the names of this library's collections begin with; no two libraries share one."""
    shards: int = 1
    replicas: int = 1
    write_factor: int = 1
    """How many replicas must have taken a write before it counts as done."""
    read_consistency: str = ""
    """How many replicas must agree on what is read; blank for any one of them."""
    write_ordering: str = "medium"
    approximate: frozenset[WorldId] = frozenset()
    """Worlds that are searched through a graph and small numbers, except for readers."""


def server_target(url: str) -> Target:
    """Return the parts of the server's address.

    Raises:
        InvalidConfiguration: it is not a plain http or https address, or it carries a password.
    """
    try:
        target = read_target(url)
    except InvalidConfiguration:
        raise InvalidConfiguration(
            "The setting index_url must be http:// or https:// with a host.",
            advice="It takes no user, password, query or fragment, as in http://127.0.0.1:6333.",
        ) from None
    return target if urlsplit(url).port else target._replace(port=STANDARD_PORT)
