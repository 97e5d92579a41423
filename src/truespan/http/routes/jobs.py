"""Jobs: listed, followed, cancelled, taken up again; and those of upkeep, begun."""

from __future__ import annotations

from truespan.errors import InvalidSettings, JobNotFound, JobNotResumable, NotAllowed, WorldNotFound
from truespan.http import schemas as shapes
from truespan.http.call import EVENTS, Call, CallContext, Event, JobStream, Reply
from truespan.types.job import Job
from truespan.world import World

_ERRORS = (WorldNotFound, JobNotFound, NotAllowed)
_UPKEEP = (WorldNotFound, NotAllowed, InvalidSettings)


def _list(asked: CallContext) -> Reply:
    found = asked.world().jobs.list()
    return Reply(shapes.JobList(jobs=[*map(shapes.job_summary, found)]))


def _show(asked: CallContext) -> Reply:
    jobs, job = asked.world().jobs, asked.path["job"]
    return Reply(
        shapes.JobDetail(
            job=shapes.job_summary(jobs.get(job)),
            documents=jobs.documents(job),
            lines=jobs.lines(job),
        )
    )


def _follow(asked: CallContext) -> JobStream:
    world, job = asked.world(), asked.path["job"]

    def look() -> tuple[Event, bool]:
        found = world.jobs.get(job)
        return Event("job", shapes.job_summary(found)), found.state.is_over

    return JobStream(look, look())


def _cancel(asked: CallContext) -> Reply:
    world = asked.world()
    return accepted(world, world.jobs.cancel(asked.path["job"]))


def _resume(asked: CallContext) -> Reply:
    world = asked.world()
    return accepted(world, world.submit_resume(asked.path["job"]))


def _repair(asked: CallContext) -> Reply:
    world = asked.world()
    return accepted(world, world.submit_repair())


def _examine(asked: CallContext) -> Reply:
    world = asked.world()
    return accepted(world, world.submit_doctor(apply=asked.body.apply))


def accepted(world: World, job: Job) -> Reply:
    """Return a job that goes on by itself, and where it can be looked at.

    The world is named by its id there: a name may hold what no header can.
    """
    place = f"/v1/worlds/{world.id}/jobs/{job.id}"
    return Reply(shapes.OneJob(job=shapes.job_summary(job)), 202, (("location", place),))


_JOBS = "/v1/worlds/{world}/jobs"

CALLS = (
    Call(
        "GET",
        _JOBS,
        "listJobs",
        "The jobs of a world",
        _list,
        shapes.JobList,
        errors=(WorldNotFound, NotAllowed),
        description="Gives the jobs of a world, the latest first.",
    ),
    Call(
        "GET",
        _JOBS + "/{job}",
        "showJob",
        "A job, its documents and its log",
        _show,
        shapes.JobDetail,
        errors=_ERRORS,
        description="Gives a job, what became of each of its sources, and the last lines of its "
        "log.",
    ),
    Call(
        "GET",
        _JOBS + "/{job}/events",
        "followJob",
        "A job as it goes on, until it is over",
        _follow,
        shapes.JobSummary,
        errors=_ERRORS,
        media_type=EVENTS,
        description="Sends the job whenever something about it has changed, and ends after it is "
        "over. A comment line comes now and then while nothing changes.",
    ),
    Call(
        "POST",
        _JOBS + "/{job}/cancel",
        "cancelJob",
        "Ask a job to stop",
        _cancel,
        shapes.OneJob,
        status=202,
        errors=_ERRORS,
        writes=True,
        description="Asks a job to stop before its next step. What it did stays, and it can be "
        "resumed, unless it was an upload: its files are removed then.",
    ),
    Call(
        "POST",
        _JOBS + "/{job}/resume",
        "resumeJob",
        "Go on with a job that did not end well",
        _resume,
        shapes.OneJob,
        status=202,
        errors=(*_ERRORS, JobNotResumable),
        writes=True,
        description="Goes on with a job that was interrupted, was cancelled or failed; what was "
        "done is not done again.",
    ),
    Call(
        "POST",
        "/v1/worlds/{world}/repair",
        "repairWorld",
        "Mend what searches have found; a job does",
        _repair,
        shapes.OneJob,
        status=202,
        errors=_UPKEEP,
        writes=True,
        description="Starts a job that does the repairs of a world that are queued and writes "
        "what is pending. One that waits already is given instead.",
    ),
    Call(
        "POST",
        "/v1/worlds/{world}/doctor",
        "examineWorld",
        "Compare store and index of a world; a job does",
        _examine,
        shapes.OneJob,
        takes=shapes.DoctorRequest,
        status=202,
        errors=_UPKEEP,
        writes=True,
        example={"apply": False},
        description="Starts a job that compares store and index of a world both ways, and mends "
        "what it finds if asked to. What it found is in the lines of the job.",
    ),
)
