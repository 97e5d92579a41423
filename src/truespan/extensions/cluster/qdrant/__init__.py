"""The index on a Qdrant server or cluster.

Owns: collections, one for each embedding profile; their payload indexes, strict mode and replicas;
requests to the server and the errors for its failures.
Does not own: text, which no payload has; the active generation, which the store decides; files and
memory of the server.
Must hold: no request without world and generation touches a point; a search is exact unless the
operator named its world, and always exact for a reader; no message contains the key.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import field

from truespan.errors import InvalidConfiguration
from truespan.providers.outbound import Target, read_target
from truespan.settings.catalogue import QdrantSettings
from truespan.types.ids import WorldId
from truespan.types.token import Secret

STANDARD_PORT = 6333
OLDEST, NEWEST = (1, 19), (1, 20)
"""Supported versions of the server: the version of the client library and the previous one."""
SUPPORTED = " to ".join(f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))


class ServerOptions(QdrantSettings, frozen=True, kw_only=True):
    """The settings of a Qdrant server, its URL and its key."""

    url: str
    key: Secret = field(default_factory=lambda: Secret(""))
    timeout_seconds: int = 30
    """Maximum time of a request."""
    approximate: frozenset[WorldId] = frozenset()
    """Worlds that are searched approximately (graph, quantized vectors), except for readers."""


def server_target(url: str) -> Target:
    """Return the parts of the server's URL; the default port is Qdrant's."""
    try:
        target = read_target(url)
    except InvalidConfiguration:
        raise InvalidConfiguration(
            "The setting index_url must be http:// or https:// with a host.",
            advice="No user, password, query or fragment is allowed; e.g. http://127.0.0.1:6333.",
        ) from None
    return target if urlsplit(url).port else target._replace(port=STANDARD_PORT)
