"""A job of many documents is spread over workers: cut, added up, closed, stopped, resumed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.support.share_fixtures import (
    DOCUMENTS,
    PER_SHARE,
    SHARES,
    embedded_once,
    is_whole,
    scope_of,
    shares_of,
    spread,
    uploads_kept,
    written,
)
from tests.unit.test_workers import Elsewhere, Works
from truespan.engine import jobs as world_jobs
from truespan.engine.doctor import check_queue
from truespan.engine.world import World
from truespan.errors import InvalidArgument, JobNotFound, ProviderRefused, ProviderUnavailable
from truespan.ingest import requests
from truespan.ingest.embed import PROBES
from truespan.types.job import DocumentState, Job, JobCounts, JobState, JobUpdate, Phase
from truespan.types.profile import EmbeddingLimits
from truespan.types.source import Upload


@pytest.fixture
def works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Works]:
    monkeypatch.setattr(requests, "MIN_SHARES", SHARES)
    made = Works(tmp_path / "library")
    yield made
    for one in made.opened:
        one.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "books"
    found.mkdir()
    for number in range(DOCUMENTS):
        written(found, number)
    return found


def test_a_folder_is_cut_into_shares_and_the_job_is_what_they_add_up_to(
    works: Works, folder: Path
) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)

    # The job, each of its shares, and what is left to do in the end.
    assert opened.work(once=True) == 1 + SHARES + 1

    done = world.jobs.get(job.id)
    assert (done.state, done.phase, done.shares) == (JobState.DONE, Phase.FINISHED, 0)
    counts = done.counts
    assert (counts.documents, counts.documents_total, counts.fraction) == (
        DOCUMENTS, DOCUMENTS, 1.0,
    )  # fmt: skip
    assert (counts.embedded, counts.failed, counts.unchanged) == (counts.chunks, 0, 0)
    assert counts.tokens >= counts.chunks
    told = world.jobs.documents(job.id)
    assert [one.state for one in told] == [DocumentState.EMBEDDED] * DOCUMENTS
    assert [one.id for one in world.jobs.list()] == [job.id]
    assert (shares_of(world, job), works.orders()) == ([], [])
    assert is_whole(world)
    assert embedded_once(works)


def test_a_worker_looks_at_a_providers_model_once_for_all_shares_of_a_job(
    works: Works, folder: Path
) -> None:
    works.embedder.limits = EmbeddingLimits(items=16, in_flight=1, joint=True)
    opened = works.open()
    world = opened.create_world("world")
    world.ingest(folder, background=True)

    opened.work(once=True)

    assert {works.embedder.documents.count(text) for text in PROBES.values()} == {1}
    assert is_whole(world)


def test_one_source_is_not_spread(works: Works, folder: Path) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder / "00.txt", background=True)

    assert opened.work(once=True) == 1
    assert world.jobs.get(job.id).state is JobState.DONE


def test_a_job_that_is_half_done_says_so_and_goes_on_where_it_was(
    works: Works, folder: Path
) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    stop = threading.Event()
    asked: list[int] = []

    def stop_in_the_third() -> None:
        asked.append(1)
        if len(asked) == 3:
            stop.set()

    works.embedder.before = stop_in_the_third
    opened.work(stopping=stop.is_set)

    works.embedder.before = None
    half = world.jobs.get(job.id)
    assert (half.state, half.crashes, half.shares) == (JobState.RUNNING, 0, SHARES)
    assert half.phase is Phase.WAITING
    assert half.counts.documents_total == DOCUMENTS
    assert 2 * PER_SHARE <= half.counts.documents <= 3 * PER_SHARE
    assert 2 / SHARES <= half.counts.fraction <= 3 / SHARES + 0.01
    assert len(world.jobs.documents(job.id)) == half.counts.documents
    assert {attempts for *_, attempts in works.orders()} == {0}
    # What was put back, and all that had not begun.
    assert len(works.orders()) == SHARES - 2
    works.open().work(once=True)
    assert world.jobs.get(job.id).state is JobState.DONE
    assert world.jobs.get(job.id).counts.documents == DOCUMENTS
    assert is_whole(world)
    assert embedded_once(works)


def test_a_share_is_nobodys_business_but_the_workers(works: Works, folder: Path) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    shares = spread(works, opened, world, job)

    assert len(shares) == SHARES
    assert [one.id for one in world.jobs.list()] == [job.id]
    jobs = world.jobs
    resume = partial(jobs.resume, background=True)
    for ask in (jobs.get, jobs.cancel, jobs.lines, resume):
        with pytest.raises(JobNotFound):
            ask(shares[0].id)


def test_one_bad_document_is_one_failure_of_the_job(works: Works, folder: Path) -> None:
    (folder / "07.txt").write_bytes(b"")
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)

    opened.work(once=True)

    done = world.jobs.get(job.id)
    assert (done.state, done.counts.failed) == (JobState.DONE, 1)
    assert done.counts.documents == DOCUMENTS
    [failed] = [one for one in world.jobs.documents(job.id) if one.state is DocumentState.FAILED]
    assert failed.name == "07.txt"
    assert any("07.txt" in line.line for line in world.jobs.lines(job.id))
    assert len(world.documents.list()) == DOCUMENTS - 1


def test_a_job_that_is_cancelled_while_its_shares_wait_is_over_at_once(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest_uploads(
        [Upload(f"{number}.txt", f"Tale {number}.".encode()) for number in range(DOCUMENTS)],
        background=True,
    )
    spread(works, opened, world, job)
    assert uploads_kept(works) == DOCUMENTS

    assert world.jobs.cancel(job.id).state is JobState.CANCELLED

    assert uploads_kept(works) == 0
    opened.work(once=True)
    assert (works.orders(), works.embedder.documents, world.documents.list()) == ([], [], [])
    assert world.jobs.get(job.id).state is JobState.CANCELLED


def test_a_job_that_is_cancelled_while_a_share_runs_stops_with_it(
    works: Works, folder: Path
) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)

    def cancel_and_fail() -> None:
        assert world.jobs.cancel(job.id).state is JobState.RUNNING
        raise ProviderUnavailable("Not now.", retry_after=1000.0)

    works.embedder.before = cancel_and_fail
    opened.work(once=True)

    assert (world.jobs.get(job.id).state, works.orders()) == (JobState.CANCELLED, [])
    assert works.embedder.documents == []
    works.embedder.before = None
    world.jobs.resume(job.id, background=True)
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.DONE
    assert is_whole(world)


def test_uploads_are_let_go_when_all_shares_are_done_and_not_before(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest_uploads(
        [Upload(f"{number}.txt", f"Tale {number}.".encode()) for number in range(DOCUMENTS)],
        background=True,
    )
    kept: list[int] = []
    works.embedder.before = lambda: kept.append(uploads_kept(works))

    opened.work(once=True)

    assert set(kept) == {DOCUMENTS}
    assert uploads_kept(works) == 0
    assert world.jobs.get(job.id).state is JobState.DONE
    assert is_whole(world)


def test_failing_share_fails_the_job_and_stops_others(works: Works, folder: Path) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    asked: list[int] = []

    def refuse_the_third() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise ProviderRefused("No.")

    works.embedder.before = refuse_the_third
    opened.work(once=True)

    failed = world.jobs.get(job.id)
    assert (failed.state, failed.error) == (JobState.FAILED, "provider_refused")
    assert failed.counts.documents == 2 * PER_SHARE
    assert (len(asked), works.orders(), shares_of(world, job)) == (3, [], [])
    works.embedder.before = None
    world.jobs.resume(job.id, background=True)
    opened.work(once=True)
    done = world.jobs.get(job.id)
    assert (done.state, done.error, done.counts.unchanged) == (JobState.DONE, None, 2 * PER_SHARE)
    assert (is_whole(world), embedded_once(works)) == (True, True)
    assert len(world.jobs.documents(job.id)) == DOCUMENTS


def test_a_share_is_tried_again_by_itself_and_then_the_job_fails(
    works: Works, folder: Path
) -> None:
    opened = works.open(tries=2)
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)

    def refuse() -> None:
        with works.admin() as admin:
            # What failed before is not to have its turn again yet, however slow the machine is.
            admin.execute(
                """UPDATE truespan_queue.procrastinate_jobs
                   SET scheduled_at = now() + interval '1 hour' WHERE attempts > 0"""
            )
        raise ProviderUnavailable("Not now.", retry_after=1000.0)

    works.embedder.before = refuse
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.RUNNING
    assert [attempts for *_, attempts in works.orders()] == [1] * SHARES

    works.hurry()
    opened.work(once=True)

    failed = world.jobs.get(job.id)
    assert (failed.state, failed.error) == (JobState.FAILED, "provider_unavailable")
    works.embedder.before = None
    works.hurry()
    opened.work(once=True)
    assert (works.orders(), works.embedder.documents) == ([], [])


def test_a_share_that_takes_its_workers_with_it_interrupts_the_job(
    works: Works, folder: Path
) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    first, *_ = spread(works, opened, world, job)
    with works.admin() as admin:
        admin.execute("UPDATE truespan.jobs SET crashes = 2 WHERE id = %s", (first.id,))
    assert world.access.components.store.start_job(scope_of(world), first.id, "elsewhere/1:1")

    opened.work(once=True)

    left = world.jobs.get(job.id)
    assert (left.state, left.crashes, works.orders()) == (JobState.INTERRUPTED, 3, [])
    assert len(world.documents.list()) <= DOCUMENTS - PER_SHARE
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.INTERRUPTED
    world.jobs.resume(job.id, background=True)
    opened.work(once=True)
    assert (world.jobs.get(job.id).state, is_whole(world)) == (JobState.DONE, True)


def test_a_share_of_a_dead_worker_is_taken_up_and_counted(works: Works, folder: Path) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    *_, last = spread(works, opened, world, job)
    assert world.access.components.store.start_job(scope_of(world), last.id, "elsewhere/1:1")

    opened.work(once=True)

    done = world.jobs.get(job.id)
    assert (done.state, done.crashes, works.orders()) == (JobState.DONE, 1, [])
    assert is_whole(world)


def test_orders_of_shares_that_were_lost_are_given_anew(works: Works, folder: Path) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    spread(works, opened, world, job)
    with works.admin() as admin:
        admin.execute("DELETE FROM truespan_queue.procrastinate_jobs")

    opened.work(once=True)

    assert (world.jobs.get(job.id).state, is_whole(world)) == (JobState.DONE, True)


def test_the_shares_of_a_large_job_do_not_fill_the_queue(
    works: Works, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world_jobs, "MAX_SUBMITTED", 2)
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    waiting: list[int] = []
    settle = opened._components.store.settle_job

    def settle_and_count(*args: object, **named: object) -> bool:
        waiting.append(len(works.orders()))
        return settle(*args, **named)  # type: ignore[arg-type]

    opened._components.store.settle_job = settle_and_count  # type: ignore[method-assign]
    opened.work(once=True)

    assert (world.jobs.get(job.id).state, is_whole(world)) == (JobState.DONE, True)
    assert len(waiting) >= SHARES
    # The share that just ended still has its order.
    assert max(waiting) == 2 + 1


def test_a_job_that_waits_for_its_shares_is_not_told_to_lack_an_order(
    works: Works, folder: Path
) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    spread(works, opened, world, job)

    def lost() -> str:
        checks = check_queue(opened._components, [scope_of(world)])
        return {one.name: one.says for one in checks}["jobs missing from the queue"]

    assert lost() == "none"
    with works.admin() as admin:
        admin.execute("DELETE FROM truespan_queue.procrastinate_jobs WHERE id % 2 = 0")
    assert lost() == str(SHARES // 2)
    opened.work(once=True)
    assert lost() == "none"


def ended(world: World, share: Job, state: JobState) -> None:
    """Let somebody end a share who is gone before anything could follow from it."""
    store, scope = world.access.components.store, scope_of(world)
    assert store.start_job(scope, share.id, "elsewhere/1:1")
    store.record_job(
        scope, share.id, state=state, phase=Phase.FINISHED, counts=JobCounts(), news=JobUpdate(),
        error="x",
    )  # fmt: skip


@pytest.mark.parametrize("state", [JobState.DONE, JobState.FAILED])
def test_what_follows_from_the_last_share_is_caught_up(
    works: Works, folder: Path, state: JobState
) -> None:
    """Who did it died, so that neither was the job closed nor is there an order to do so."""
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    *most, last = spread(works, opened, world, job)
    for share in most:
        ended(world, share, JobState.DONE)
    ended(world, last, state)
    with works.admin() as admin:
        admin.execute("DELETE FROM truespan_queue.procrastinate_jobs")

    opened.work(once=True)

    assert (world.jobs.get(job.id).state, works.orders()) == (state, [])


def test_a_job_whose_worker_died_while_closing_it_is_closed_by_another(
    works: Works, folder: Path
) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.ingest(folder, background=True)
    for share in spread(works, opened, world, job):
        ended(world, share, JobState.DONE)
    store = world.access.components.store
    assert store.gather_job(scope_of(world), job.id, "elsewhere/1:1", owner="queue")
    assert not store.gather_job(scope_of(world), job.id, "elsewhere/2:2", owner="queue")

    opened.work(once=True)

    done = world.jobs.get(job.id)
    assert (done.state, done.crashes, works.orders()) == (JobState.DONE, 1, [])
    # Its shares were done and not repeated.
    assert works.embedder.documents == []


def test_what_is_gone_is_removed_once_all_the_rest_is_in(works: Works, folder: Path) -> None:
    opened = works.open()
    world = opened.create_world("world")
    world.ingest(folder, background=True)
    opened.work(once=True)
    (folder / "03.txt").unlink()
    written(folder, DOCUMENTS)
    during: list[int] = []
    works.embedder.before = lambda: during.append(len(world.documents.list()))

    job = world.ingest(folder, prune=True, background=True)
    opened.work(once=True)

    done = world.jobs.get(job.id)
    assert (done.state, during) == (JobState.DONE, [DOCUMENTS + 1])
    told = {one.name: one.state for one in world.jobs.documents(job.id)}
    assert told["03.txt"] is DocumentState.REMOVED
    assert told[f"{DOCUMENTS:02}.txt"] is DocumentState.EMBEDDED
    assert done.counts.unchanged == DOCUMENTS - 1
    assert "03.txt" not in [one.name for one in world.documents.list()]
    assert is_whole(world)


def test_a_folder_that_looks_empty_is_refused_before_anything_is_spread(
    works: Works, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "others"
    other.mkdir()
    for number in range(DOCUMENTS):
        written(other, number)
    opened = works.open()
    world = opened.create_world("world")
    world.ingest(folder, background=True)
    opened.work(once=True)
    for path in folder.iterdir():
        path.unlink()

    job = world.ingest([folder, other], prune=True, background=True)
    opened.work(once=True)

    failed = world.jobs.get(job.id)
    assert (failed.state, failed.error) == (JobState.FAILED, InvalidArgument.code)
    assert is_whole(world)


def test_two_jobs_that_name_the_same_files_do_not_carry_them_in_at_once(
    works: Works, folder: Path
) -> None:
    """While one is at a share, another worker comes to the same share of the other job."""
    one, two = works.open(), works.open()
    world = one.create_world("world")
    first = world.ingest(folder, background=True)
    spread(works, one, world, first)
    second = world.ingest(folder, background=True)
    msgspec.structs.force_setattr(two._components, "processes", Elsewhere())
    seen: list[JobState] = []

    def meanwhile() -> None:
        if not seen:
            seen.append(JobState.RUNNING)
            two.work(once=True)
            seen.append(world.jobs.get(second.id).state)

    works.embedder.before = meanwhile
    one.work(once=True)
    assert seen == [JobState.RUNNING, JobState.RUNNING]
    works.hurry()
    one.work(once=True)

    states = {world.jobs.get(job.id).state for job in (first, second)}
    assert states == {JobState.DONE}
    counts = [world.jobs.get(job.id).counts for job in (first, second)]
    assert sum(one.embedded for one in counts) == counts[0].chunks
    assert counts[0].unchanged + counts[1].unchanged == DOCUMENTS
    assert is_whole(world)
    assert embedded_once(works)
    assert works.orders() == []
