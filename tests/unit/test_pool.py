"""Threads of the HTTP server: each call runs once, and its caller gets the outcome."""

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from tests.promises import proves
from truespan.errors import DeadlineExceeded, Overloaded
from truespan.extensions.server.http.pool import Pool


def pool(threads: int = 1, waiting: int = 0, **options: Any) -> Pool:
    return Pool(threads, waiting=waiting, name="try", **options)


async def settled(tried: Pool) -> None:
    """Wait until all running calls have reported their end."""
    while not tried.idle:
        await asyncio.sleep(0)


def test_results_and_exceptions_reach_the_caller() -> None:
    def fail() -> None:
        raise LookupError

    async def asked() -> int:
        tried = pool()
        with pytest.raises(LookupError):
            await tried.run(fail)
        return await tried.run(lambda: 7, seconds=30)

    assert asyncio.run(asked()) == 7


def test_early_end_of_an_iterator_is_an_error() -> None:
    async def asked() -> None:
        await pool().run(lambda: next(iter(())))

    with pytest.raises(RuntimeError, match="ended early"):
        asyncio.run(asked())


def test_running_and_waiting_calls_are_limited() -> None:
    go_on, began = threading.Event(), threading.Semaphore(0)
    names: set[str] = set()

    def work() -> str:
        names.add(threading.current_thread().name)
        began.release()
        assert go_on.wait(30)
        return "done"

    async def asked() -> list[str]:
        tried = pool(2, waiting=1)
        tasks = [asyncio.ensure_future(tried.run(work)) for _ in range(3)]
        await asyncio.sleep(0)
        assert began.acquire(timeout=30)
        assert began.acquire(timeout=30)
        with pytest.raises(Overloaded):
            await tried.run(work)
        # Two threads are taken, so the third waits for one of them.
        assert not began.acquire(blocking=False)
        go_on.set()
        done = await asyncio.gather(*tasks)
        assert tried.idle
        return [*done, await tried.run(work)]

    assert asyncio.run(asked()) == ["done"] * 4
    assert len(names) == 2


def test_few_calls_run_at_once_and_the_others_follow_in_order() -> None:
    began: list[int] = []
    go_on = [threading.Semaphore(0) for _ in range(5)]
    started = threading.Semaphore(0)

    def work(number: int) -> None:
        began.append(number)
        started.release()
        assert go_on[number].acquire(timeout=30)

    async def asked() -> None:
        tried = pool(8, at_once=2, patience=3600)
        tasks = [asyncio.ensure_future(tried.run(lambda n=n: work(n))) for n in range(5)]
        await asyncio.sleep(0)
        for _ in range(2):
            assert await asyncio.to_thread(started.acquire, timeout=30)
        assert sorted(began) == [0, 1]
        for ended, following in ((1, 2), (2, 3), (0, 4)):
            go_on[ended].release()
            assert await asyncio.to_thread(started.acquire, timeout=30)
            assert began[2:] == [*range(2, following + 1)]
        for number in (3, 4):
            go_on[number].release()
        await asyncio.gather(*tasks)

    asyncio.run(asked())


def test_waiting_calls_do_not_block_the_others() -> None:
    go_on, beside = threading.Event(), threading.Event()

    async def asked() -> None:
        tried = pool(3, waiting=2, at_once=1, patience=0.01)
        blocked = [asyncio.ensure_future(tried.run(lambda: go_on.wait(30))) for _ in range(2)]
        await asyncio.sleep(0)
        # Nothing ends meanwhile, so this runs only if further threads are started.
        await tried.run(beside.set)
        last = asyncio.ensure_future(tried.run(lambda: go_on.wait(30)))
        over = asyncio.ensure_future(tried.run(lambda: not beside.clear()))
        go_on.set()
        assert await asyncio.gather(*blocked, last, over) == [True] * 4

    asyncio.run(asked())
    assert not beside.is_set()


def test_call_waits_for_a_thread_if_none_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def asked() -> list[bool | str]:
        tried = pool(4, patience=3600)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="new thread"):
                await tried.run(lambda: "never")
            assert tried.idle
        first = asyncio.ensure_future(tried.run(lambda: go_on.wait(30)))
        await asyncio.sleep(0)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            second = asyncio.ensure_future(tried.run(lambda: "second"))
            await asyncio.sleep(0)
        go_on.set()
        return [await first, await second]

    assert asyncio.run(asked()) == [True, "second"]


def test_sequential_requests_use_one_thread() -> None:
    async def asked() -> set[int]:
        tried = pool(8)
        both = threading.Barrier(2)
        await asyncio.gather(tried.run(both.wait), tried.run(both.wait))
        return {await tried.run(threading.get_ident) for _ in range(20)}

    assert len(asyncio.run(asked())) == 1


def test_caller_that_times_out_leaves_work_counted() -> None:
    go_on, done = threading.Event(), threading.Event()

    def work() -> None:
        assert go_on.wait(30)
        done.set()

    async def asked() -> None:
        tried = pool()
        with pytest.raises(DeadlineExceeded):
            await tried.run(work, seconds=0.01)
        assert not tried.idle
        with pytest.raises(Overloaded):
            await tried.run(work)
        go_on.set()
        await settled(tried)
        assert done.is_set()

    asyncio.run(asked())


def test_abandoned_call_occupies_its_thread_until_it_ends() -> None:
    began, go_on = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert go_on.wait(30)

    async def asked() -> None:
        tried = pool()
        waiting = asyncio.ensure_future(tried.run(work))
        while not began.is_set():
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not tried.idle
        go_on.set()
        await settled(tried)

    asyncio.run(asked())


def test_closed_pool_starts_nothing_and_releases_its_threads() -> None:
    go_on, began = threading.Event(), threading.Event()
    ran: list[str] = []

    def work() -> None:
        began.set()
        assert go_on.wait(30)
        ran.append("first")

    async def asked() -> None:
        before = set(threading.enumerate())
        tried = pool(1, waiting=1)
        first = asyncio.ensure_future(tried.run(work))
        second = asyncio.ensure_future(tried.run(lambda: ran.append("second")))
        await asyncio.sleep(0)
        assert began.wait(30)
        tried.close()
        with pytest.raises(asyncio.CancelledError):
            await second
        with pytest.raises(Overloaded):
            await tried.run(work)
        go_on.set()
        await first
        assert tried.idle
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()

    asyncio.run(asked())
    assert ran == ["first"]


def test_idle_threads_end_when_the_pool_is_closed() -> None:
    async def asked() -> None:
        before = set(threading.enumerate())
        tried = pool(4)
        await tried.run(lambda: None)
        tried.close()
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()

    asyncio.run(asked())


@proves("tenants.no-stall")
def test_request_over_its_time_is_cancelled_or_never_started() -> None:
    running, cancelled, started = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        running.set()
        assert cancelled.wait(30)

    async def asked() -> None:
        tried = pool(1, waiting=2)
        first = asyncio.ensure_future(tried.run(work, seconds=0.05, cancel=cancelled.set))
        await asyncio.to_thread(running.wait, 30)
        waiting = tried.run(lambda: started.append("late"), seconds=0.0)
        with pytest.raises(DeadlineExceeded):
            await waiting
        with pytest.raises(DeadlineExceeded):
            await first
        await settled(tried)
        assert await tried.run(lambda: "free") == "free"

    asyncio.run(asked())
    assert cancelled.is_set()
    assert started == []


@proves("tenants.no-stall")
def test_callers_take_turns_in_the_queue() -> None:
    order: list[str] = []
    go_on = threading.Event()

    async def asked() -> None:
        tried = pool(1, waiting=20)
        calls: list[Any] = [asyncio.ensure_future(tried.run(lambda: go_on.wait(30), caller="a"))]
        for caller in ("a", "a", "a", "a", "b", "b", None, "c"):
            work = partial(order.append, str(caller))
            calls.append(asyncio.ensure_future(tried.run(work, caller=caller)))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*calls)
        assert tried.idle

    asyncio.run(asked())
    assert order == ["a", "b", "None", "c", "a", "b", "a", "a"]


@proves("tenants.no-stall")
def test_slow_calls_leave_threads_to_other_callers() -> None:
    go_on, began = threading.Event(), threading.Semaphore(0)

    def work() -> bool:
        began.release()
        return go_on.wait(30)

    async def asked() -> None:
        tried = pool(16, waiting=40, patience=0)
        calls = [asyncio.ensure_future(tried.run(work, caller="a")) for _ in range(40)]
        await asyncio.sleep(0)
        for _ in range(12):
            assert await asyncio.to_thread(began.acquire, timeout=30)
        # Nothing of the first caller ends, and the others are served.
        assert await tried.run(lambda: "b", caller="b") == "b"
        assert await tried.run(lambda: "c", caller="c") == "c"
        assert not began.acquire(blocking=False)
        go_on.set()
        assert await asyncio.gather(*calls) == [True] * 40

    asyncio.run(asked())


@proves("tenants.no-stall")
def test_full_queue_refuses_the_caller_with_the_most_calls() -> None:
    go_on = threading.Event()

    async def asked() -> None:
        tried = pool(1, waiting=4)
        many = [
            asyncio.ensure_future(tried.run(lambda: go_on.wait(30), caller="a")) for _ in range(5)
        ]
        await asyncio.sleep(0)
        few = [asyncio.ensure_future(tried.run(lambda: "b", caller="b")) for _ in range(2)]
        await asyncio.sleep(0)
        for caller in ("a", "b"):
            with pytest.raises(Overloaded):
                await tried.run(lambda: None, caller=caller)
        go_on.set()
        found = await asyncio.gather(*many, *few, return_exceptions=True)
        assert found[:3] == [True] * 3
        assert [type(refused) for refused in found[3:5]] == [Overloaded] * 2
        assert found[5:] == ["b"] * 2
        assert tried.idle

    asyncio.run(asked())
