"""The contract of every store, part 3: jobs with shares."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contract.store_contract import built
from tests.support.worlds import LibraryFixture, make_library
from truespan.errors import Interrupted
from truespan.types.job import (
    DocumentState,
    Job,
    JobCounts,
    JobDocument,
    JobLine,
    JobShare,
    JobState,
    JobUpdate,
    Phase,
)
from truespan.types.scope import Scope

OWNER_ID = "queue"


def spread(lib: LibraryFixture, scope: Scope, count: int = 3) -> tuple[str, list[Job]]:
    """Return a job with shares of one document each, in ascending size."""
    job = lib.store.queue_job(scope, "ingest", '{"a": 1}', OWNER_ID).id
    assert lib.store.start_job(scope, job, "p1")
    wanted = [JobShare(f'{{"n": {number}}}', 1, number) for number in range(1, count + 1)]
    return job, lib.store.spread_job(scope, job, "p1", owner=OWNER_ID, shares=wanted)


def as_it_is(lib: LibraryFixture, scope: Scope, job: str) -> Job:
    found = lib.store.job(scope, job)
    assert found is not None
    return found


def told(
    lib: LibraryFixture,
    scope: Scope,
    share: Job,
    state: JobState,
    counts: JobCounts | None = None,
    news: JobUpdate | None = None,
    error: str | None = None,
) -> bool:
    return lib.store.record_job(
        scope,
        share.id,
        state=state,
        phase=Phase.EMBEDDING,
        counts=counts or JobCounts(documents=1, documents_total=1, fraction=1.0),
        news=news or JobUpdate(),
        error=error,
        process="p2",
    )


def done(lib: LibraryFixture, scope: Scope, share: Job, state: JobState = JobState.DONE) -> None:
    assert lib.store.start_job(scope, share.id, "p2")
    told(lib, scope, share, state, error="why" if state is JobState.FAILED else None)


class SharesContract:
    """The counts of a job include its shares, which are merged when the job is over."""

    kind = "sqlite"

    @pytest.fixture
    def lib(self, tmp_path: Path) -> LibraryFixture:
        return make_library(tmp_path, store=self.kind)

    def test_job_waits_for_its_shares_which_no_list_shows(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        job, shares = spread(lib, scope)

        found = as_it_is(lib, scope, job)
        assert (found.state, found.process, found.shares) == (JobState.RUNNING, OWNER_ID, 3)
        assert (found.counts.documents_total, found.counts.fraction) == (3, 0.0)
        assert [one.request for one in shares] == ['{"n": 1}', '{"n": 2}', '{"n": 3}']
        assert {(one.parent, one.state, one.process) for one in shares} == {
            (job, JobState.QUEUED, OWNER_ID)
        }
        assert lib.store.shares(scope, job) == shares
        assert lib.store.shares(built(lib, "other"), job) == []
        assert [one.id for one in lib.store.jobs(scope)] == [job]
        with pytest.raises(Interrupted):
            lib.store.spread_job(scope, job, "p1", owner=OWNER_ID, shares=[])

    def test_counts_of_shares_are_added_and_kept_after_the_job(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        job, (one, two, three) = spread(lib, scope)
        counts = JobCounts(
            documents=1, documents_total=1, unchanged=1, failed=0, chunks=5, embedded=3, reused=2,
            fraction=0.5, seconds=9.0, current="a.txt",
        )  # fmt: skip
        first = JobDocument("a", "a.txt", DocumentState.EMBEDDED, chunks=5)
        failed = JobDocument("b", "b.txt", DocumentState.FAILED, "x", "y")
        news = JobUpdate({"a": first}, [JobLine(1.0, "info", "one"), JobLine(3.0, "info", "three")])
        assert lib.store.start_job(scope, one.id, "p2")
        assert not told(lib, scope, one, JobState.RUNNING, counts, news)
        assert lib.store.start_job(scope, two.id, "p2")
        other = JobUpdate({"b": failed}, [JobLine(2.0, "info", "two")])
        told(lib, scope, two, JobState.DONE, replace(counts, failed=1, fraction=1.0), other)

        found = as_it_is(lib, scope, job)
        summed = (found.counts.documents, found.counts.documents_total, found.counts.failed)
        assert summed == (2, 3, 1)
        assert (found.counts.chunks, found.counts.embedded, found.counts.reused) == (10, 6, 4)
        assert found.counts.fraction == pytest.approx((0.5 * 1 + 1.0 * 2) / 6)
        assert (found.counts.current, found.phase) == ("a.txt", Phase.EMBEDDING)
        assert lib.store.job_documents(scope, job) == [first, failed]
        lines = [line.line for line in lib.store.job_lines(scope, job)]
        assert lines == ["one", "two", "three"]

        told(lib, scope, one, JobState.DONE, replace(counts, fraction=1.0))
        done(lib, scope, three)
        assert lib.store.settle_job(scope, job, owner=OWNER_ID)
        assert lib.store.gather_job(scope, job, "p3", owner=OWNER_ID)
        lib.store.record_job(
            scope, job, state=JobState.DONE, phase=Phase.FINISHED, counts=JobCounts(),
            news=JobUpdate(), process="p3",
        )  # fmt: skip
        over = as_it_is(lib, scope, job)
        assert (over.state, over.shares, over.phase) == (JobState.DONE, 0, Phase.FINISHED)
        assert (over.counts.documents, over.counts.chunks, over.counts.fraction) == (3, 10, 1.0)
        assert (lib.store.shares(scope, job), lib.store.job(scope, one.id)) == ([], None)
        assert lib.store.job_documents(scope, job) == [first, failed]
        assert [line.line for line in lib.store.job_lines(scope, job)] == lines

    def test_job_is_gathered_once_after_all_shares_are_done(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        job, (one, two) = spread(lib, scope, 2)
        done(lib, scope, one)

        assert not lib.store.settle_job(scope, job, owner=OWNER_ID)
        assert not lib.store.gather_job(scope, job, "p3", owner=OWNER_ID)
        done(lib, scope, two)
        assert lib.store.settle_job(scope, job, owner=OWNER_ID)
        gathered: list[bool] = []
        threads = [
            threading.Thread(
                target=lambda n=number: gathered.append(
                    lib.store.gather_job(scope, job, f"p{n}", owner=OWNER_ID)
                )
            )
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(gathered) == [False, False, False, True]

    @pytest.mark.parametrize("state", [JobState.FAILED, JobState.INTERRUPTED])
    def test_failed_share_ends_the_job_once_no_share_runs(
        self, lib: LibraryFixture, state: JobState
    ) -> None:
        scope = built(lib)
        job, (one, two, three) = spread(lib, scope)
        assert lib.store.start_job(scope, one.id, "p2")
        done(lib, scope, two, state)

        assert not lib.store.start_job(scope, three.id, "p2")
        assert not lib.store.settle_job(scope, job, owner=OWNER_ID)
        assert as_it_is(lib, scope, job).state is JobState.RUNNING
        told(lib, scope, one, JobState.DONE)
        assert not lib.store.settle_job(scope, job, owner=OWNER_ID)
        over = as_it_is(lib, scope, job)
        assert (over.state, over.shares, over.counts.documents_total) == (state, 0, 3)
        assert over.error == ("why" if state is JobState.FAILED else None)
        assert over.finished_at == lib.clock.now()

    def test_stopping_job_stops_its_shares_first(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        job, (one, two) = spread(lib, scope, 2)
        assert lib.store.start_job(scope, one.id, "p2")

        lib.store.cancel_job(scope, job)
        assert not lib.store.start_job(scope, two.id, "p2")
        assert not lib.store.settle_job(scope, job, owner=OWNER_ID)
        assert as_it_is(lib, scope, job).state is JobState.RUNNING
        assert told(lib, scope, one, JobState.RUNNING)
        assert told(lib, scope, one, JobState.CANCELLED)
        assert not lib.store.settle_job(scope, job, owner=OWNER_ID)
        assert as_it_is(lib, scope, job).state is JobState.CANCELLED
        assert lib.store.shares(scope, job) == []

    def test_crashes_under_a_share_are_crashes_of_the_job(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        job, (one, _) = spread(lib, scope, 2)
        for number in range(1, 3):
            assert lib.store.start_job(scope, one.id, "p2")
            assert lib.store.take_over_job(scope, one.id, "p2", owner=OWNER_ID, max_crashes=2)
            assert as_it_is(lib, scope, job).crashes == number

        assert not lib.store.settle_job(scope, job, owner=OWNER_ID)
        over = as_it_is(lib, scope, job)
        assert (over.state, over.crashes, over.shares) == (JobState.INTERRUPTED, 2, 0)

    def test_a_job_is_not_forgotten_for_the_number_of_its_shares(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        before = lib.store.begin_job(scope, "ingest", "{}", "p").id
        lib.store.record_job(
            scope, before, state=JobState.DONE, phase=Phase.FINISHED, counts=JobCounts(),
            news=JobUpdate({"a": JobDocument("a", "a.txt", DocumentState.EMBEDDED)}),
        )  # fmt: skip
        job, shares = spread(lib, scope, 250)
        done(lib, scope, shares[0])

        lib.store.begin_job(scope, "ingest", "{}", "p")

        assert len(lib.store.shares(scope, job)) == 250
        assert len(lib.store.job_documents(scope, before)) == 1

    def test_documents_are_one_jobs_alone_while_it_runs(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        claim = lib.store.claim_documents
        one, two = (lib.store.queue_job(scope, "ingest", "{}", OWNER_ID).id for _ in range(2))
        with pytest.raises(Interrupted):
            claim(scope, one, "p1", ["a"])
        assert lib.store.start_job(scope, one, "p1")
        assert lib.store.start_job(scope, two, "p2")

        assert claim(scope, one, "p1", ["a", "b"])
        assert not claim(scope, two, "p2", ["b", "c"])
        assert claim(scope, two, "p2", ["c"])
        assert not claim(scope, one, "p1", ["a", "c"])
        with pytest.raises(Interrupted):
            claim(scope, two, "p1", ["d"])
        lib.store.record_job(
            scope, one, state=JobState.QUEUED, phase=Phase.READING, counts=JobCounts(),
            news=JobUpdate(), process="p1",
        )  # fmt: skip
        assert claim(scope, two, "p2", ["b", "c"])
        assert lib.store.start_job(scope, one, "p1")
        assert not claim(scope, one, "p1", ["b"], lambda process: process == "p2")
        assert claim(scope, one, "p1", ["b"], lambda process: process != "p2")
        elsewhere = built(lib, "other")
        third = lib.store.queue_job(elsewhere, "ingest", "{}", OWNER_ID).id
        assert lib.store.start_job(elsewhere, third, "p3")
        assert claim(elsewhere, third, "p3", ["b", "c"])
