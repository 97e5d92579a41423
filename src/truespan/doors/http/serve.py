"""Serving: what the operator said is checked, and then one process or several serve."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import truespan
from truespan.doors.http.admission import LOOPBACK, Doorkeeping, is_loopback
from truespan.doors.http.app import Serving
from truespan.doors.http.doorway import Limits
from truespan.doors.http.process import BACKLOG, Service, work
from truespan.engine.library import Library
from truespan.errors import InvalidConfiguration, InvalidSettings
from truespan.model.token import TokenState
from truespan.settings import Settings, read_settings, share_metrics
from truespan.settings.catalogue import MEBIBYTE

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[?[0-9a-f:.]+\]?", re.ASCII)
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 -- told apart here, and bound only if somebody asks.


def serve(service: Service, on_ready: Callable[[str], None]) -> int:
    """Serve until a signal comes, and return the exit code; `on_ready` is told the address.

    Raises:
        LibraryNotFound, InvalidConfiguration, InvalidSettings, WorldNotFound: it cannot be.
    """
    settings = read_settings(service.folder)
    with truespan.open(service.folder, metrics=True, logs=True) as library:
        prepared = replace(service, serving=_prepared(service, settings, library))
        if service.workers == 1:
            with _listening(service) as listener:
                address = _address(service.host, listener)
                return work(prepared, listener, library, lambda: on_ready(address))
    from truespan.doors.http.workers import supervise

    with _listening(service) as listener, TemporaryDirectory(prefix="truespan-") as shared:
        share_metrics(Path(shared))
        address = _address(service.host, listener)
        return supervise(prepared, listener, lambda: on_ready(address))


def _prepared(service: Service, settings: Settings, library: Library) -> Serving:
    """Return how to serve, with what the settings say; refuse what would be open to everybody."""
    _check(service)
    _check_names(settings)
    local = is_loopback(service.host)
    needs_token = service.require_token or not local
    if not local and not _has_tokens(library):
        raise InvalidSettings(
            f"At {service.host} others could reach the library, and no token has been made.",
            advice="Make one with 'truespan token create', or serve at 127.0.0.1.",
        )
    serving = service.serving
    if serving.world is not None:
        # Names may change hands; from here on the world is meant by its id.
        serving = replace(serving, world=library.world(serving.world).id)
    everywhere = service.host.strip("[]") in _EVERYWHERE
    named = {*settings.http_hosts_listed, *(() if everywhere else (service.host,))}
    return replace(
        serving,
        sessions=service.workers == 1,
        keeping=Doorkeeping(
            hosts=LOOPBACK | frozenset(map(_as_host, named)),
            addresses=everywhere,
            origins=frozenset(settings.http_origins_listed),
            needs_token=needs_token,
            per_minute=-(-settings.http_requests_per_minute // service.workers),
        ),
        limits=Limits(
            body=settings.http_body_max_kib * 1024,
            upload=settings.source_max_mib * MEBIBYTE,
            seconds=float(settings.http_timeout_seconds),
        ),
    )


def _check(service: Service) -> None:
    serving = service.serving
    if not 0 <= service.port <= 65535:
        raise InvalidSettings("A port lies between 0 and 65535.")
    if not 1 <= service.workers <= 64:
        raise InvalidSettings("There can be 1 to 64 workers.")
    if serving.mcp_owner and serving.mcp_reader is not None:
        raise InvalidSettings(
            "MCP is for a reader or for the owner, not for both.",
            advice="Give --mcp-reader or --mcp-owner, one of the two.",
        )
    if serving.world is None and (serving.mcp_owner or serving.mcp_reader is not None):
        raise InvalidSettings("Say which world MCP is for.", advice="Give --world NAME.")


def _check_names(settings: Settings) -> None:
    """Refuse names that no request would ever match, however they were meant.

    Raises:
        InvalidConfiguration: one of them is no host, or no origin.
    """
    for host in settings.http_hosts_listed:
        if not _HOST.fullmatch(host):
            raise InvalidConfiguration(
                f"http_hosts has {host!r}, which is no name of a host.",
                advice="Give names or addresses alone, without scheme, port or '*'.",
            )
    for origin in settings.http_origins_listed:
        scheme, _, rest = origin.partition("://")
        host, colon, port = rest.rpartition(":") if rest[-1:].isdigit() else (rest, "", "")
        plain = _HOST.fullmatch(host if colon else rest) is not None
        if scheme not in ("http", "https") or not plain or (colon and not port.isdecimal()):
            raise InvalidConfiguration(
                f"http_origins has {origin!r}, which is no origin.",
                advice="Give scheme, host and port alone, such as https://reader.example.org.",
            )


def _has_tokens(library: Library) -> bool:
    tokens = library.tokens
    return any(tokens.state(record) is TokenState.ACTIVE for record in tokens.list())


def _as_host(name: str) -> str:
    """Return a name as it stands in a Host header."""
    return f"[{name.strip('[]')}]" if ":" in name else name


@contextlib.contextmanager
def _listening(service: Service) -> Iterator[socket.socket]:
    """Give a socket that listens, so that whoever is told of the address is not turned away.

    Raises:
        InvalidConfiguration: the address is taken, or not of this machine.
    """
    host = service.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol in so many words: without it asyncio leaves Nagle's delay on, and a reply
    # on a connection that is kept takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, service.port))
        except OSError as error:
            raise InvalidConfiguration(
                f"Nothing can be served at {service.host}, port {service.port}: {error.strerror}.",
                advice="Choose another with --host or --port; port 0 takes one that is free.",
            ) from None
        listener.listen(BACKLOG)
        yield listener
    finally:
        listener.close()


def _address(host: str, listener: socket.socket) -> str:
    return f"http://{_as_host(host.strip('[]'))}:{listener.getsockname()[1]}/"
