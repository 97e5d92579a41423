"""Groups that are indexed on threads: the order of their reports, errors, and the end."""

import threading

import pytest

from truespan.ingest.queues import MAX_RUNNING, IndexQueue


def test_index_queue_finishes_groups_in_order_on_the_calling_thread() -> None:
    finished: list[tuple[int, int]] = []
    threads: set[threading.Thread] = set()
    second = threading.Event()

    def index(group: int) -> int:
        if group == 0:
            assert second.wait(10)
        second.set()
        threads.add(threading.current_thread())
        return group * group

    def finish(group: int, result: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        finished.append((group, result))

    with IndexQueue(index, finish, lambda: None) as queue:
        for group in range(6):
            queue.add(group)
    assert finished == [(group, group * group) for group in range(6)]
    assert threading.main_thread() not in threads


def test_index_queue_runs_a_limited_number_of_groups() -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def index(_group: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1

    with IndexQueue(index, lambda _group, _result: None, lambda: None) as queue:
        for group in range(50):
            queue.add(group)
    assert 1 <= most <= MAX_RUNNING


def test_index_queue_raises_the_error_of_a_group_and_stops_the_others() -> None:
    stopped = threading.Event()

    def index(group: int) -> None:
        if group == 0:
            raise OSError("disk")
        assert stopped.wait(10)

    def run() -> None:
        with IndexQueue(index, lambda _group, _result: None, stopped.set) as queue:
            queue.add(0)
            queue.add(1)

    with pytest.raises(OSError, match="disk"):
        run()
    assert stopped.is_set()


def test_index_queue_waits_for_running_groups_after_an_error() -> None:
    stopped, ended = threading.Event(), threading.Event()

    def index(_group: int) -> None:
        assert stopped.wait(10)
        ended.set()

    def run() -> None:
        with IndexQueue(index, lambda _group, _result: None, stopped.set) as queue:
            queue.add(0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert ended.is_set()
