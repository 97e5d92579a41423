"""Jobs and generations: list, follow, cancel and resume jobs; build, promote and remove."""

from __future__ import annotations

from truespan import errors
from truespan.engine.world import World
from truespan.extensions.quality.generations import Promotion
from truespan.extensions.server.http import requests, schemas
from truespan.extensions.server.http.operation import CallContext, Event, JobStream, Reply, Routes
from truespan.types.job import DoctorJob, Job, ReindexJob, RepairJob
from truespan.wire.serialize import record_data

_JOBS = "/v1/worlds/{world}/jobs"
_GENERATIONS = "/v1/worlds/{world}/generations"
_ALIAS_ERRORS = (
    "generation_not_found",
    "generation_incomplete",
    errors.PromotionRefused,
    "domain_not_found",
    errors.ProfileMismatch,
)
_JOB = {"world": "$request.path.world", "job": "$response.body#/job/id"}
JOB_LINKS = {"showJob": _JOB, "cancelJob": _JOB}

# Shared by threads: filled while modules are imported, then only read.
jobs = Routes(
    "Jobs",
    "Ingesting, building generations and maintenance run as background jobs.",
    "not_allowed",
)
# Shared by threads: as above.
generations = Routes(
    "Generations",
    "Build a world anew next to the one in use, then switch to it atomically.",
    "not_allowed",
)


def accept_job(world: World, job: Job) -> Reply[schemas.AcceptedJob]:
    """Return a submitted job and its location.

    The location has the world's id because a name may contain characters that headers cannot.
    """
    location = f"/v1/worlds/{world.id}/jobs/{job.id}"
    summary = schemas.job_summary(job, world.jobs)
    return Reply(schemas.AcceptedJob(job=summary), 202, (("location", location),))


@jobs.get(_JOBS)
def list_jobs(context: CallContext) -> schemas.JobList:
    """List the jobs of a world.

    Returns the jobs of a world, newest first.
    """
    jobs = context.world().jobs
    return schemas.JobList(jobs=[schemas.job_summary(job, jobs) for job in jobs.list()])


@jobs.get(_JOBS + "/{job}", events={"job": schemas.JobSummary})
def show_job(context: CallContext) -> Reply[schemas.JobDetail] | JobStream:
    """Get a job with its documents and its log, or follow it until it is finished.

    Returns a job, the outcome of each of its sources, and the last lines of its log. With
    `Accept: text/event-stream` it sends the job as an event whenever it changes, and ends when the
    job is finished. While nothing changes, a comment line is sent from time to time.
    """
    found, job = context.world().jobs, context.path["job"]

    def poll() -> tuple[Event, bool]:
        present = found.get(job)
        return Event("job", schemas.job_summary(present, found)), present.state.is_over

    if context.accepts_events:
        return JobStream(poll, poll())
    detail = schemas.JobDetail(
        job=schemas.job_summary(found.get(job), found),
        documents=found.documents(job),
        lines=[schemas.LogLine(**record_data(line)) for line in found.lines(job)],
    )
    return Reply(detail)


@jobs.post(_JOBS + "/{job}/cancel", status=202, writes=True)
def cancel_job(context: CallContext) -> Reply[schemas.AcceptedJob]:
    """Cancel a job.

    The job stops before its next step. Completed steps are kept and the job can be resumed, unless
    it is an upload, whose files are then removed.
    """
    world = context.world()
    return accept_job(world, world.jobs.cancel(context.path["job"]))


@jobs.post(
    _JOBS + "/{job}/resume",
    status=202,
    writes=True,
    errors=("job_not_resumable",),
    links={"showJob": _JOB},
)
def resume_job(context: CallContext) -> Reply[schemas.AcceptedJob]:
    """Resume a job that did not complete.

    Continues a job that was interrupted or cancelled, or that failed. Completed steps are not
    repeated.
    """
    world = context.world()
    return accept_job(world, world.jobs.submit(world.jobs.get(context.path["job"])))


@jobs.post(
    "/v1/worlds/{world}/doctor", status=202, writes=True, example={"apply": False}, links=JOB_LINKS
)
def examine_world(context: CallContext, body: requests.DoctorRequest) -> Reply[schemas.AcceptedJob]:
    """Start a job that compares store and index, or repairs them.

    The job compares store and index of a world in both directions, and repairs the differences if
    `apply` is true. The findings are in the log of the job. With `repair` it compares nothing, but
    carries out the queued repairs and writes pending vectors; if such a job is already queued, that
    job is returned.
    """
    world = context.world()
    if body.repair:
        if body.apply:
            raise errors.InvalidArgument("Give either apply or repair.")
        return accept_job(world, world.jobs.submit(RepairJob()))
    return accept_job(world, world.jobs.submit(DoctorJob(body.apply)))


@generations.get(_GENERATIONS)
def list_generations(context: CallContext) -> schemas.GenerationList:
    """List the generations of a world.

    Returns the generations of a world, how complete each is, and the aliases that point to it.
    """
    found = context.world().generations.list()
    return schemas.GenerationList(
        generations=[schemas.GenerationEntry(**record_data(record)) for record in found]
    )


@generations.post(_GENERATIONS, status=202, writes=True, example={}, links=JOB_LINKS)
def reindex(context: CallContext, body: requests.NewGeneration) -> Reply[schemas.AcceptedJob]:
    """Start a job that builds a new generation.

    The job builds a generation of all documents, with another model or chunking if the body names
    one. The generation is not used before it is promoted.
    """
    world = context.world()
    return accept_job(world, world.jobs.submit(ReindexJob(body.model, body.chunking)))


@generations.post(
    _GENERATIONS + "/{generation}/promote", writes=True, errors=_ALIAS_ERRORS, example={}
)
def promote(context: CallContext, body: requests.AliasMove) -> Promotion:
    """Promote a generation.

    Moves the world's alias, or that of a domain, to a generation if that generation is complete
    and verified. `previous` instead of a number moves it back to the generation that it pointed to
    before.
    """
    if context.path["generation"] == "previous":
        return context.world().generations.rollback(domain=body.domain)
    number = _generation_number(context)
    return context.world().generations.promote(number, domain=body.domain)


@generations.delete(_GENERATIONS + "/{generation}", errors=("generation_in_use",))
def remove_generation(context: CallContext) -> schemas.RemovedGeneration:
    """Remove an unused generation.

    Removes a generation with its vectors. A generation that an alias points to is refused.
    """
    number = _generation_number(context)
    context.world().generations.remove(number)
    return schemas.RemovedGeneration(removed=number)


def _generation_number(context: CallContext) -> int:
    text = context.path["generation"]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise errors.InvalidArgument("A generation is named by its number.")
    return int(text)
