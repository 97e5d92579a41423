"""Several nodes of a Qdrant cluster: failing nodes are skipped, and no write is sent twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from tests.contract.index_contract import leaning, new_scope, point
from tests.support.providers.loopback import Answer, Asked, Raw, Reaction, drops
from tests.support.qdrant_loopback import QdrantLoopback
from tests.support.rows import each_row
from truespan.core.clock import SystemClock
from truespan.errors import IndexUnavailable, InvalidConfiguration
from truespan.extensions.cluster.qdrant import ServerOptions, server_targets
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.protocols import Clock
from truespan.types.scope import Scope

GONE = "http://127.0.0.1:9"
UNKNOWN = "http://node.invalid:6333"
SLOW_NAME = "http://slow.invalid:6333"


class SteeredClock(SystemClock):
    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def filled(*servers: QdrantLoopback) -> Scope:
    """Write the same points to all nodes, like a cluster."""
    scope = new_scope()
    for server in servers:
        index = QdrantServerIndex(ServerOptions(url=server.url), SystemClock())
        index.prepare(scope)
        index.upsert(scope, [point(scope, 1, leaning(0.5))])
        index.close()
    return scope


@contextmanager
def index_at(
    *urls: str, clock: Clock | None = None, seconds: int = 30
) -> Iterator[QdrantServerIndex]:
    options = ServerOptions(url=", ".join(urls), timeout_seconds=seconds)
    index = QdrantServerIndex(options, clock or SystemClock())
    yield index
    index.close()


def found(index: QdrantServerIndex, scope: Scope) -> int:
    return len(index.search(scope, leaning(0.5), limit=5, floor=None))


@contextmanager
def hanging() -> Iterator[str]:
    """Yield the URL of a node that accepts requests and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@contextmanager
def not_accepting() -> Iterator[str]:
    """Yield the URL of a node with a full backlog, which accepts no further connection."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield f"http://127.0.0.1:{full.getsockname()[1]}"


@contextmanager
def named(url: str) -> Iterator[str]:
    yield url


@contextmanager
def answering(reaction: Reaction) -> Iterator[str]:
    with QdrantLoopback() as server:
        server.fault = lambda _: reaction
        yield server.url


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Never finish the resolution of one name."""
    real, released = socket.getaddrinfo, threading.Event()

    def look_up(host: str, *rest: Any, **more: Any):
        if host == "slow.invalid":
            released.wait()
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield
    released.set()


SICK: list[tuple[Callable[[], AbstractContextManager[str]], str]] = [
    (hanging, "did not answer in time"),
    (not_accepting, "did not answer in time"),
    (partial(named, UNKNOWN), "cannot be reached: its name does not resolve"),
    (partial(named, SLOW_NAME), "did not answer in time"),
    (partial(named, GONE), "cannot be reached"),
    (partial(answering, Raw()), "closed the connection"),
    (partial(answering, Answer(content={"result": True}, cut=5)), "closed the connection"),
    (partial(answering, Answer(pieces=drops(b'{"result": '))), "did not answer in time"),
    (partial(answering, Answer(503, {})), "could not list its collections (status 503)"),
]


@pytest.mark.usefixtures("resolver")
@each_row("sick, reason", SICK)
def test_requests_leave_a_sick_node(sick, reason: str) -> None:
    with QdrantLoopback() as alive, sick() as url:
        scope = filled(alive)
        # The healthy node is listed often, so that the failing one gets a short share of the time.
        with index_at(url, *[alive.url] * 19, seconds=20) as index:
            assert found(index, scope) == 1
            # The failing node is avoided now, so a write succeeds.
            index.upsert(scope, [point(scope, 2, leaning(0.4))])
            assert found(index, scope) == 2


@pytest.mark.usefixtures("resolver")
@each_row("sick, reason", SICK)
def test_errors_name_each_node_and_its_failure(sick, reason: str) -> None:
    with (
        sick() as url,
        index_at(url, GONE, seconds=2) as index,
        pytest.raises(IndexUnavailable) as caught,
    ):
        index.collections()
    assert f"The index server {url.removeprefix('http://')} {reason}" in str(caught.value)
    # A reply says more than an unreachable node, so only the reply is reported.
    both = "The index server 127.0.0.1:9 cannot be reached." in str(caught.value)
    assert both is ("status" not in reason)


def test_sick_node_is_avoided_then_asked_again() -> None:
    clock = SteeredClock()
    with QdrantLoopback() as first, QdrantLoopback() as second:
        scope = filled(second)
        first.fault = lambda _: Raw()
        with index_at(first.url, second.url, clock=clock) as index:
            assert found(index, scope) == 1
            before = len(first.asked)
            assert found(index, scope) == 1
            assert len(first.asked) == before
            # The node has recovered. While it is avoided, it is tried last.
            first.fault = None
            second.fault = lambda _: Raw()
            index.collections()
            assert len(first.asked) == before + 1
            # Later it is tried before a node that has just failed.
            clock.ahead = 60.0
            asked = len(second.asked)
            index.collections()
            assert (len(first.asked), len(second.asked)) == (before + 2, asked)


def test_writes_are_not_sent_to_a_second_node() -> None:
    with QdrantLoopback() as first, QdrantLoopback() as second:
        scope = filled(second)
        with index_at(second.url, first.url) as index:
            assert found(index, scope) == 1
            second.fault = lambda asked: Raw() if asked.method == "PUT" else None
            with pytest.raises(IndexUnavailable, match=f"{second.port} closed the connection"):
                index.upsert(scope, [point(scope, 3, leaning(0.3))])
            assert first.asked == []
            # The next request avoids the failed node.
            before = len(second.asked)
            index.collections()
            assert (len(first.asked), len(second.asked)) == (1, before)


def test_write_moves_on_if_nothing_of_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    real, known = socket.getaddrinfo, ["localhost"]

    def look_up(host: str, *rest: Any, **more: Any) -> Any:
        if host == "localhost" and not known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real("127.0.0.1" if host == "localhost" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    for leave in (known.clear, None):
        with QdrantLoopback() as first, QdrantLoopback() as second:
            scope = filled(first, second)
            named = first.url.replace("127.0.0.1", "localhost") if leave else first.url
            with index_at(named, second.url) as index:
                assert found(index, scope) == 1
                (leave or first.stop)()
                first.hang_up()
                index.upsert(scope, [point(scope, 2, leaning(0.4))])
                assert found(index, scope) == 2


def test_write_that_was_sent_has_the_whole_time_limit() -> None:
    clock = SteeredClock()

    def take_long(_: Asked) -> None:
        clock.ahead += 20.0

    with QdrantLoopback() as server:
        scope = filled(server)
        with index_at(*[server.url] * 20, clock=clock) as index:
            assert found(index, scope) == 1
            server.fault = take_long
            # A read would get 1.5 seconds.
            index.upsert(scope, [point(scope, 2, leaning(0.4))])
            server.fault = None
            assert found(index, scope) == 2


def test_hanging_node_does_not_use_up_connections() -> None:
    with QdrantLoopback() as alive, hanging() as url:
        scope = filled(alive)
        with index_at(url, *[alive.url] * 19, seconds=20) as index:
            results: list[int] = []
            threads = [
                threading.Thread(target=lambda: results.append(found(index, scope)))
                for _ in range(70)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert results == [1] * 70


def test_nodes_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="all https"):
        server_targets("http://one:6333, https://two:6333")
    with pytest.raises(InvalidConfiguration, match="index_url must be"):
        server_targets("http://one:6333,")
