"""Filling a world in the background: what is asked for is checked now, and done soon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from truespan.engine.filled import FilledWorld
from truespan.engine.generations import KIND as REINDEX
from truespan.engine.intake import declared_as
from truespan.engine.upkeep_orders import (
    DOCTOR,
    REPAIR,
    UPKEEP,
    doctor_request,
    order_upkeep,
    urgency_of,
)
from truespan.errors import InvalidSettings, JobNotResumable, NotAllowed
from truespan.ingest.command import IngestRequest
from truespan.types.job import Job, JobOrder
from truespan.types.scope import Scope
from truespan.types.source import Declared, Upload, checked_uploads


class SubmittedWorld(FilledWorld):
    """Ingestion into a world, behind the back of whoever asks for it."""

    def submit_ingest(
        self,
        paths: str | PurePath | Sequence[str | PurePath] = (),
        *,
        manifest: str | PurePath | None = None,
        kind: str | None = None,
        title: str | None = None,
        language: str | None = None,
        version: str | None = None,
        chunking: str | None = None,
        tags: Sequence[str] | None = None,
        prune: bool = False,
        allow_empty: bool = False,
    ) -> Job:
        """Have files and folders carried into the world in the background, as `ingest` does.

        Raises:
            SourceMissing, InvalidSettings, ProfileMismatch: as `ingest`, before there is a job.
            Overloaded: too many jobs wait already.
        """
        declared = declared_as(kind, title, language, version, chunking, tags)
        intake = self._intake(self._writing_scope())
        request = intake.request(paths, manifest, declared, prune=prune, allow_empty=allow_empty)
        return self._submitted(intake.queue(request))

    def submit_uploads(
        self,
        uploads: Sequence[Upload],
        *,
        kind: str | None = None,
        title: str | None = None,
        language: str | None = None,
        version: str | None = None,
        chunking: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Job:
        """Keep files that are handed over, and have them carried into the world.

        An upload of a name that was uploaded before is a new revision of that document. The files
        are removed once the job is done or cancelled; one that did not end well keeps them, so that
        it can go on.

        Raises:
            InvalidSettings: a name cannot be used, or what is declared is wrong.
            SourceTooLarge: a file is larger than a document may be.
            StorageFull: there is no room.
            ProfileMismatch: the configured embedder is not the one the world was built with.
            Overloaded: too many jobs wait already.
        """
        # Nobody brings a file to where there is no room for its job.
        self._parts.queue.require_room()
        declared = declared_as(kind, title, language, version, chunking, tags)
        checked = checked_uploads(uploads)
        return self._submitted(self._received(checked, declared))

    def submit_repair(self) -> Job:
        """Have done in the background what `repair` does; if that waits already, that is the job.

        Raises:
            WorldNotFound: as for a world that is not there, to whoever may not write here.
            InvalidSettings: the world holds nothing yet.
            Overloaded: too many jobs wait already.
        """
        return order_upkeep(self._parts, self._upkeep_scope(), REPAIR)

    def submit_doctor(
        self, *, apply: bool = False, embed_sample: int = 0, self_test: bool = False
    ) -> Job:
        """Have the doctor look at the world in the background, as `Library.doctor` does.

        What it finds, and with `apply` what it does about that, is in the lines of the job. If the
        same was asked for and waits already, that is the job.

        Raises:
            WorldNotFound, InvalidSettings, Overloaded: as `submit_repair`.
        """
        if isinstance(embed_sample, bool) or embed_sample < 0:
            raise InvalidSettings("The number of texts to embed again must be 0 or more.")
        request = doctor_request(apply=apply, embed_sample=embed_sample, self_test=self_test)
        return order_upkeep(self._parts, self._upkeep_scope(), DOCTOR, request)

    def _upkeep_scope(self) -> Scope:
        """Return the scope of whoever may read and write all of the world; no model is asked."""
        self.require_writable()
        scope = self._readable()
        if scope is None:
            raise InvalidSettings("The world holds nothing yet.", advice="Ingest something first.")
        return scope

    def submit_resume(self, job: str) -> Job:
        """Have a job gone on with in the background that did not end well, of whatever kind.

        Raises:
            JobNotFound, JobNotResumable: there is none, or nothing to go on with.
        """
        kind = self.jobs.get(job).kind
        if kind == REINDEX:
            # Only who may change generations goes on with building one.
            self.generations.list()
        scope = self._upkeep_scope() if kind in UPKEEP else self._writing_scope()
        earlier = self.jobs.resumable(job)
        self._parts.queue.require_room()
        again, keeper = self._parts.store.requeue_job, self._parts.keeper
        if not again(scope, job, keeper, seen=earlier.state, crashes=0):
            raise JobNotResumable(job, self.jobs.get(job).state)
        return self._submitted(self.jobs.get(job))

    def _received(self, uploads: Sequence[Upload], declared: Declared) -> Job:
        intake = self._intake(self._writing_scope())
        # Names that are wrong are told before anything is kept.
        self._parts.preparation.chunking_for(declared)
        if self._parts.uploads is None:
            raise NotAllowed("upload")
        with self._parts.uploads.receive(intake.scope.world, uploads) as batch:
            return intake.queue(IngestRequest(declared=declared, uploads=batch))

    def _submitted(self, job: Job) -> Job:
        order = JobOrder(self._record().id, job.id, urgency_of(job.kind))
        self._parts.queue.submit(order)
        return job
