"""Maintenance as jobs of workers: repairs after a search, runs of the doctor, and the queue."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, vector_of
from tests.unit.test_workers import Works, submitted
from truespan.engine.jobs import DOCTOR, REPAIR, REPAIR_RETRY_SECONDS
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import IndexUnavailable, InvalidArgument, Overloaded, StoreBusy
from truespan.maintenance.doctor.plan import Finding
from truespan.types.ids import hash_text
from truespan.types.job import DoctorJob, Job, JobState, ReindexJob, RepairJob, Urgency
from truespan.types.maintenance import Verdict
from truespan.types.scope import OWNER, Scope, Verb


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    made = Works(tmp_path / "library")
    yield made
    for one in made.opened:
        one.close()


def filled(works: Works, opened: Library, name: str = "world") -> World:
    """Create a world with a document that a worker ingested."""
    world = opened.create_world(name)
    submitted(world)
    opened.work(once=True)
    return world


def scope_of(world: World) -> Scope:
    scope = world.access.scope()
    assert scope is not None
    return scope


def make_stale(works: Works, world: World) -> None:
    """Write a point of other text under a current id, as a lost deletion would leave it."""
    points = works.index._of(scope_of(world))
    old = "harbour of long ago"
    for chunk_id, point in points.items():
        points[chunk_id] = replace(point, vector=vector_of(old), text_hash=hash_text(old))
        return


def searched(works: Works, world: World) -> None:
    """Search so that a stale point is found, and wait for the background repair."""
    make_stale(works, world)
    result = world.search("harbour of long ago", floor=0.0)
    assert [(one.code, one.count) for one in result.skipped] == [("stale_vector", 1)]


def settle(opened: Library) -> None:
    opened._repairs.close()


def of_kind(world: World, kind: str) -> list[Job]:
    return [job for job in world.jobs.list() if job.kind == kind]


def test_worker_repairs_findings_of_a_search(works: Works) -> None:
    opened = works.open()
    world = filled(works, opened)
    works.index.calls.clear()

    searched(works, world)
    settle(opened)

    assert "delete_stale" not in works.index.calls
    [job] = of_kind(world, REPAIR)
    assert works.orders() == [(job.id, "todo", Urgency.MAINTENANCE, 0)]
    assert works.open().work(once=True) == 1
    assert world.jobs.get(job.id).state is JobState.DONE
    assert works.index.calls.count("delete_stale") == 1
    assert (world.status().pending, world.status().repairs) == (0, 0)
    assert opened.doctor()["world"].healthy
    assert [line.line for line in world.jobs.lines(job.id)] == [
        "1 points deleted, 0 texts restored, 0 quarantined, 1 points written."
    ]


def test_repeated_findings_queue_one_repair(works: Works) -> None:
    """Searches in several processes at once, each of which finds something."""
    opened = [works.open() for _ in range(4)]
    world = filled(works, opened[0])
    scope = scope_of(world)
    together = threading.Barrier(len(opened))

    def search(one: Library) -> None:
        for _ in range(5):
            together.wait(30)
            one._repairs.submit(scope)
        settle(one)

    threads = [threading.Thread(target=search, args=(one,)) for one in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    [job] = of_kind(world, REPAIR)
    assert [order for order, *_ in works.orders()] == [job.id]
    assert world.jobs.submit(RepairJob()).id == job.id
    # A job that has begun may have passed the damage, so the next finding gets a new job.
    scope = scope_of(world)
    assert world.access.components.store.jobs.start(scope, job.id, "elsewhere/1:1")
    assert world.jobs.submit(RepairJob()).id != job.id


def test_search_is_answered_without_a_job_queue(
    works: Works, caplog: pytest.LogCaptureFixture
) -> None:
    opened = works.open()
    world = filled(works, opened)

    def refuse(_: object) -> None:
        raise StoreBusy("The queue is away.")

    queue = opened._components.queue
    queue.submit, submit = refuse, queue.submit  # type: ignore[method-assign]
    searched(works, world)
    settle(opened)

    assert (works.orders(), world.status().repairs) == ([], 1)
    assert "ended with" not in caplog.text
    # It is written down as a job, so the next worker finds it.
    queue.submit = submit  # type: ignore[method-assign]
    opened.work(once=True)
    assert world.status().repairs == 0


def test_worker_finds_repairs_without_a_job(works: Works) -> None:
    full = works.open(waiting=1)
    world = filled(works, full)
    late = submitted(world, "late.txt")
    searched(works, world)
    settle(full)
    assert of_kind(world, REPAIR) == []

    full.work(once=True)

    assert world.jobs.get(late.id).state is JobState.DONE
    full.work(once=True)
    assert [job.state for job in of_kind(world, REPAIR)] == [JobState.DONE]
    assert world.status().repairs == 0


def test_permanently_failing_repair_is_not_repeated(works: Works) -> None:
    opened = works.open()
    world = filled(works, opened)
    searched(works, world)
    settle(opened)
    [job] = of_kind(world, REPAIR)
    with works.admin() as admin:
        admin.execute("UPDATE truespan.jobs SET state = 'failed' WHERE kind = 'repair'")
        admin.execute("DELETE FROM truespan_queue.procrastinate_jobs")

    assert opened.work(once=True) == 0
    assert [one.id for one in of_kind(world, REPAIR)] == [job.id]

    with works.admin() as admin:
        admin.execute(
            "UPDATE truespan.jobs SET created_at = created_at - %s WHERE kind = 'repair'",
            (REPAIR_RETRY_SECONDS + 1,),
        )
    assert opened.work(once=True) == 1
    assert world.status().repairs == 0


def test_search_on_sqlite_repairs_at_once_without_a_job(lib: LibraryFixture) -> None:
    world = lib.world(tale__txt="The harbour light burned all night.")
    points = lib.index._of(lib.scope(world))
    for chunk_id, point in list(points.items()):
        points[chunk_id] = replace(point, text_hash=hash_text("other"))
    world.search("harbour", floor=0.0)
    settle(lib.library)
    assert lib.index.calls.count("delete_stale") == 1
    assert [job.kind for job in world.jobs.list()] == ["ingest"]


def test_maintenance_can_be_submitted_on_sqlite(lib: LibraryFixture) -> None:
    world = lib.world(tale__txt="The harbour light burned all night.")
    jobs = [world.jobs.submit(RepairJob()), world.jobs.submit(DoctorJob(apply=True))]
    lib.library._components.queue.wait()  # type: ignore[attr-defined]
    assert [world.jobs.get(job.id).state for job in jobs] == [JobState.DONE] * 2


def test_maintenance_runs_after_documents_and_generations(works: Works) -> None:
    opened = works.open()
    world = filled(works, opened)
    jobs = [world.jobs.submit(DoctorJob()), world.jobs.submit(RepairJob())]
    jobs += [world.jobs.submit(ReindexJob()), submitted(world, "late.txt")]
    opened.work(once=True)
    ended = sorted((world.jobs.get(job.id) for job in jobs), key=lambda job: job.finished_at or 0)
    assert [job.kind for job in ended] == ["ingest", "reindex", "doctor", "repair"]
    assert {job.state for job in ended} == {JobState.DONE}


def test_doctor_findings_are_stored_with_the_job(works: Works) -> None:
    opened = works.open()
    world = filled(works, opened)
    make_stale(works, world)

    job = world.jobs.submit(DoctorJob())
    opened.work(once=True)

    done, lines = world.jobs.get(job.id), world.jobs.lines(job.id)
    assert done.state is JobState.DONE
    assert done.counts.fraction == 1.0
    told = [(line.level, line.line) for line in lines]
    assert (
        "warning",
        "generation 1: 1 x stale_point: write the point again from the stored vector",
    ) in told
    assert told[-1] == ("warning", "1 findings, 0 checks that failed.")
    # It only looked.
    assert list(opened.doctor()["world"].counts()) == [Finding.STALE_POINT]


def test_doctor_applies_repairs_in_the_background(works: Works) -> None:
    opened = works.open()
    world = filled(works, opened)
    make_stale(works, world)
    job = world.jobs.submit(DoctorJob(apply=True, embed_sample=1, self_test=True))
    opened.work(once=True)
    lines = [(line.level, line.line) for line in world.jobs.lines(job.id)]
    assert lines[-1] == ("info", "Store and index agree: nothing to do.")
    assert {level for level, _ in lines} == {"info"}
    assert ("info", "done: 1 x write_point") in lines
    assert opened.doctor()["world"].healthy


def test_logs_of_maintenance_contain_no_text(works: Works) -> None:
    opened = works.open()
    world = filled(works, opened)
    make_stale(works, world)
    jobs = [
        world.jobs.submit(DoctorJob()),
        world.jobs.submit(DoctorJob(apply=True)),
        world.jobs.submit(RepairJob()),
    ]
    opened.work(once=True)

    for job in jobs:
        said = " ".join(line.line for line in world.jobs.lines(job.id))
        assert said
        assert not {"harbour", "Sentence", "night", "tale"} & set(said.split())


Submit = Callable[[World], Job]
KINDS: list[Submit] = [
    lambda world: world.jobs.submit(RepairJob()),
    lambda world: world.jobs.submit(DoctorJob(apply=True)),
]


@pytest.mark.parametrize("submit", KINDS, ids=[REPAIR, DOCTOR])
def test_maintenance_job_is_retried_after_temporary_errors(
    works: Works, monkeypatch: pytest.MonkeyPatch, submit: Submit
) -> None:
    opened = works.open(tries=2)
    world = filled(works, opened)
    if submit is KINDS[0]:
        searched(works, world)
        settle(opened)
    make_stale(works, world)
    job = submit(world)

    def refuse(*_: object) -> None:
        raise IndexUnavailable("Not now.")

    for call in ("delete_stale", "upsert", "scan"):
        monkeypatch.setattr(works.index, call, refuse)
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.QUEUED
    assert works.orders() == [(job.id, "todo", Urgency.MAINTENANCE, 1)]
    works.hurry()
    opened.work(once=True)
    failed = world.jobs.get(job.id)
    assert (failed.state, failed.error) == (JobState.FAILED, "index_unavailable")

    monkeypatch.undo()
    assert world.jobs.submit(job).id == job.id
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.DONE
    assert opened.doctor()["world"].healthy


@pytest.mark.parametrize("submit", KINDS, ids=[REPAIR, DOCTOR])
def test_cancelled_maintenance_job_can_be_resumed(works: Works, submit: Submit) -> None:
    opened = works.open()
    world = filled(works, opened)
    works.index.calls.clear()
    job = submit(world)

    assert world.jobs.cancel(job.id).state is JobState.CANCELLED
    opened.work(once=True)

    assert world.jobs.get(job.id).state is JobState.CANCELLED
    with pytest.raises(InvalidArgument, match=r"jobs\.submit"):
        world.jobs.resume(job.id)
    world.jobs.submit(job)
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.DONE


def test_stopping_worker_leaves_the_doctor_to_the_next(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = works.open()
    world = filled(works, opened)
    job = world.jobs.submit(DoctorJob())
    stop, scan = threading.Event(), works.index.scan

    def stopped(scope: Scope) -> object:
        stop.set()
        return scan(scope)

    monkeypatch.setattr(works.index, "scan", stopped)
    opened.work(stopping=stop.is_set)

    left = world.jobs.get(job.id)
    assert (left.state, left.crashes) == (JobState.QUEUED, 0)
    monkeypatch.undo()
    works.open().work(once=True)
    assert world.jobs.get(job.id).state is JobState.DONE


def test_maintenance_needs_read_and_write_rights(works: Works) -> None:
    opened = works.open(waiting=1)
    world = filled(works, opened)
    for verbs in ((Verb.READ,), (Verb.WRITE,)):
        narrow = opened.under(OWNER.narrow(worlds=(scope_of(world).world,), verbs=verbs)).world(
            "world"
        )
        for submit in KINDS:
            with raises_code("world_not_found", "not_allowed"):
                submit(narrow)
    with pytest.raises(InvalidArgument):
        opened.create_world("empty").jobs.submit(RepairJob())
    with pytest.raises(InvalidArgument):
        world.jobs.submit(DoctorJob(embed_sample=-1))
    submitted(world, "late.txt")
    for submit in KINDS:
        with pytest.raises(Overloaded):
            submit(world)
    assert [job.kind for job in world.jobs.list()] == ["ingest", "ingest"]


def checks(opened: Library) -> dict[str, tuple[Verdict, str]]:
    plan = opened.doctor(machine=True)
    of_queue = [one for one in plan.checks if not one.name.startswith("similarity of ")]
    return {one.name: (one.verdict, one.says) for one in of_queue}


def test_doctor_checks_the_job_queue(works: Works) -> None:
    opened = works.open(waiting=4)
    world = filled(works, opened)
    works.die()
    assert checks(opened) == {
        "workers": (Verdict.WARNING, "none is running"),
        "queued jobs": (Verdict.OK, "0 of at most 4"),
        "jobs of workers that are gone": (Verdict.OK, "none"),
        "jobs missing from the queue": (Verdict.OK, "none"),
    }

    jobs = [submitted(world, f"{number}.txt") for number in range(3)]
    with works.admin() as admin:
        admin.execute(
            "UPDATE truespan_queue.procrastinate_jobs SET status = 'doing' WHERE lock = %s",
            (jobs[0].id,),
        )
        admin.execute(
            "DELETE FROM truespan_queue.procrastinate_jobs WHERE lock = %s", (jobs[1].id,)
        )
    assert checks(opened) == {
        "workers": (Verdict.PROBLEM, "none is running"),
        "queued jobs": (Verdict.OK, "1 of at most 4"),
        "jobs of workers that are gone": (Verdict.WARNING, "1"),
        "jobs missing from the queue": (Verdict.WARNING, "1"),
    }

    seen: list[dict[str, tuple[Verdict, str]]] = []
    works.embedder.before = lambda: seen.append(checks(works.open(waiting=3)))
    opened.work(once=True)
    assert seen[0]["workers"] == (Verdict.OK, "1 running")
    assert seen[0]["jobs of workers that are gone"] == (Verdict.OK, "none")


def test_unreadable_queue_is_a_problem(works: Works) -> None:
    opened = works.open()
    filled(works, opened)
    with works.admin() as admin:
        admin.execute("DELETE FROM truespan_queue.queue_steps")
    assert checks(works.open())["job queue"][0] is Verdict.PROBLEM


def test_partial_authority_sees_nothing_of_the_queue(works: Works) -> None:
    opened = works.open()
    world = filled(works, opened)
    narrow = opened.under(OWNER.narrow(worlds=(scope_of(world).world,), verbs=(Verb.READ,)))
    assert narrow.doctor(machine=True).checks == []
