"""How a Qdrant server is reached and what its collections are like."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

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
