"""Damaged records of jobs: the job reports the damage, and other jobs are unaffected."""

import pytest

from tests.promises import proves
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture
from truespan.errors import StoreDamaged
from truespan.types.job import DocumentState, JobState

CELLS = {
    "state": ("", "x", "DONE"),
    "phase": ("", "x"),
    "counts": ("", "{", "[]", '{"chunks": "many"}', "[" * 100_000),
}


@proves("errors.stable-codes")
def test_damaged_job_is_listed_as_failed(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=story(20))
    world.ingest([lib.write("b.txt", story(20, "garden"))])
    job, other = world.jobs.list()
    lib.sql("PRAGMA ignore_check_constraints = ON")
    for column, values in CELLS.items():
        ((before,),) = lib.sql(f"SELECT {column} FROM jobs WHERE id = ?", job.id)
        for value in values:
            lib.sql(f"UPDATE jobs SET {column} = ? WHERE id = ?", value, job.id)
            found, same = world.jobs.list()
            assert (found.id, found.state, same) == (job.id, JobState.FAILED, other)
            assert "damaged" in (found.error or ""), (column, value)
            assert world.jobs.get(job.id) == found
        lib.sql(f"UPDATE jobs SET {column} = ? WHERE id = ?", before, job.id)
    lib.sql("UPDATE job_documents SET state = 'x'")

    assert world.jobs.list() == [job, other]
    assert {entry.state for entry in world.jobs.documents(job.id)} == {DocumentState.FAILED}


@proves("errors.stable-codes")
def test_damaged_request_of_a_job_is_refused(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=story(20))
    job = world.jobs.list()[0].id
    lib.sql("UPDATE jobs SET state = 'failed'")
    for request in ("", "{", "[]", "{}", "null", '{"paths": 1}', "[" * 100_000):
        lib.sql("UPDATE jobs SET request = ?", request)
        with pytest.raises(StoreDamaged, match=f"job {job} is damaged"):
            world.jobs.resume(job)
        lib.sql("UPDATE jobs SET kind = 'reindex'")
        with pytest.raises(StoreDamaged, match=f"job {job} is damaged"):
            world.generations.resume(job)
        lib.sql("UPDATE jobs SET kind = 'ingest'")
