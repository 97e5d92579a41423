"""The limit of concurrent requests: one for all clients of an address in a process."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

from tests.promises import proves
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.errors import Interrupted
from truespan.providers.limits import RequestSlots, sending_query, slots_for

WAIT = 30.0


def await_waiting(slots: RequestSlots, count: int) -> None:
    """Return once `count` requests wait for a slot."""
    for _ in range(10**8):
        with slots._lock:
            if len(slots._queries) + len(slots._documents) == count:
                return
    raise AssertionError("they never came to wait")


def start(
    slots: RequestSlots, run: Callable[[], object], *, query: bool, waiting: int
) -> threading.Thread:
    """Start a request on a thread; return once `waiting` requests wait for a slot."""

    def hold() -> None:
        with sending_query() if query else nullcontext(), slots.hold():
            run()

    thread = threading.Thread(target=hold)
    thread.start()
    await_waiting(slots, waiting)
    return thread


@proves("embedding.concurrency")
def test_all_clients_of_an_address_share_the_lowest_limit() -> None:
    slots = slots_for("provider:1", 5)
    assert slots_for("provider:1", 2) is slots is slots_for("provider:1", 3)
    assert slots.limit == 2
    assert slots_for("provider:2", 3) is not slots
    del slots
    gc.collect()
    assert slots_for("provider:1", 4).limit == 4


@proves("embedding.concurrency")
def test_concurrent_requests_never_exceed_the_slots() -> None:
    slots, lock, running, most = slots_for("provider:3", 3), threading.Lock(), 0, 0
    gate = threading.Barrier(3)

    def ask(number: int) -> None:
        nonlocal running, most
        with sending_query() if number % 4 == 0 else nullcontext(), slots.hold():
            with lock:
                running += 1
                most = max(most, running)
            gate.wait(WAIT)
            with lock:
                running -= 1

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(ask, range(96)))

    assert (most, running, slots._running) == (3, 0, 0)


@proves("embedding.concurrency", "tenants.no-stall")
def test_query_precedes_documents_without_starving_them() -> None:
    slots, order, threads = RequestSlots(1), list[str](), list[threading.Thread]()
    names = ["document 1", "document 2", *(f"query {number}" for number in range(10))]
    with slots.hold():
        for place, name in enumerate(names, 1):
            query = name.startswith("query")
            threads.append(start(slots, partial(order.append, name), query=query, waiting=place))
    for thread in threads:
        thread.join(WAIT)
    queries = names[2:]
    assert order == [*queries[:8], "document 1", *queries[8:], "document 2"]


@proves("tenants.no-stall")
def test_cancelled_request_leaves_the_queue() -> None:
    slots, token, ended = RequestSlots(1), CancelToken(), list[str]()

    def wait_in_line() -> None:
        with use_cancel_token(token):
            try:
                with slots.hold():
                    ended.append("ran")
            except Interrupted:
                ended.append("gave up")

    with slots.hold():
        waiting = threading.Thread(target=wait_in_line)
        waiting.start()
        await_waiting(slots, 1)
        token.cancel()
        waiting.join(WAIT)
        assert (ended, len(slots._documents)) == (["gave up"], 0)
        wait_in_line()
        assert (ended, len(slots._documents)) == (["gave up", "gave up"], 0)
    assert slots._running == 0
