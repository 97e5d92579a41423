"""Filling a world: ingestion, planned, run and resumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from truespan.engine.generations import KIND as REINDEX
from truespan.engine.generations import check_key
from truespan.engine.held import HeldWorld
from truespan.engine.intake import WorldIntake, declared_as
from truespan.engine.jobs import Jobs
from truespan.engine.kept import KeptWorld
from truespan.engine.removal import remover
from truespan.engine.upkeep_orders import UPKEEP
from truespan.errors import InvalidSettings
from truespan.ingest.job_log import IngestReport, Progress
from truespan.ingest.plan import DryRun
from truespan.types.document import Document
from truespan.types.scope import Scope, Verb

OnProgress = Callable[[Progress], None]


class FilledWorld(KeptWorld):
    """Ingestion into a world."""

    def ingest(
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
        domain_key: str | None = None,
        update_alias: bool = False,
        golden: str | None = None,
        on_progress: OnProgress | None = None,
        on_prune: Callable[[Sequence[Document]], None] | None = None,
    ) -> IngestReport:
        """Carry files and folders, or what a manifest names, into the world.

        What is there and unchanged costs nothing. With `prune`, documents below the given folders
        that are no longer there are removed; `on_prune` is told which, before. The run is a job:
        `report.job` names it.

        With `update_alias`, a new generation is built of all documents afterwards, and the domain,
        or the world's default, is moved to it: only if no document failed and the `golden` queries,
        if any are given, find as much in it as before.

        Raises:
            SourceMissing: a path names nothing; then nothing was ingested.
            DomainNotFound: the domain is absent, and not to be made by moving it here.
            PromotionRefused: the documents are in, and the alias is where it was.
            ManifestInvalid: with every bad line; then nothing was ingested.
            ProfileMismatch: the configured embedder is not the one the world was built with.
            Interrupted: stopped by Ctrl-C; the same call goes on.
        """
        declared = declared_as(kind, title, language, version, chunking, tags)
        check_key(domain_key)
        target = self._aimed_at(domain_key, update_alias=update_alias)
        if golden is not None and not update_alias:
            raise InvalidSettings("Golden queries are for moving an alias: say update_alias too.")
        if golden is not None:
            # Whatever is wrong with them is told before anything is ingested or built.
            self.golden_queries(golden)
        intake = self._intake(target._writing_scope())
        request = intake.request(paths, manifest, declared, prune=prune, allow_empty=allow_empty)
        report = intake.run(request, on_progress=on_progress, on_prune=on_prune)
        # What a deletion could not erase at once is caught up by whoever writes next.
        remover(self._parts).catch_up(urgent=True)
        if update_alias and report.failures:
            report.warnings.append("The alias was not moved, because documents failed.")
        elif update_alias:
            domain = domain_key or (self.aim if isinstance(self.aim, str) else None)
            report.generation = self.generations.rotate(
                domain=domain, golden=golden, on_progress=on_progress
            ).generation
        return report

    def _aimed_at(self, domain: str | None, *, update_alias: bool) -> HeldWorld:
        """Return the world as a domain means it; one that moving it will make is not there yet."""
        if domain is None:
            return self
        aimed = HeldWorld(self._parts, self._authority, self._repairs, self.id, domain)
        known = self._parts.store.find_domain(self._authority, domain)
        if known is not None and known.id != self.id:
            raise InvalidSettings(f"The domain {domain!r} names no generation of this world.")
        if known is None and update_alias:
            return self
        aimed._record()
        return aimed

    def plan_ingest(
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
    ) -> DryRun:
        """Return what `ingest` would do, and what it would cost; nothing is spent or written.

        In a world that holds nothing yet the provider is asked what its model is.
        """
        declared = declared_as(kind, title, language, version, chunking, tags)
        intake = self._intake(self._planning_scope())
        request = intake.request(paths, manifest, declared, prune=prune, allow_empty=allow_empty)
        return intake.plan(request)

    def resume(
        self,
        job: str,
        *,
        on_progress: OnProgress | None = None,
        on_prune: Callable[[Sequence[Document]], None] | None = None,
    ) -> IngestReport:
        """Go on with a job that did not end well.

        Raises:
            JobNotFound, JobNotResumable: there is none, or nothing to go on with.
        """
        kind = self.jobs.get(job).kind
        if kind == REINDEX:
            raise InvalidSettings(
                "This job builds a generation.", advice="'generations.resume' goes on with it."
            )
        if kind in UPKEEP:
            raise InvalidSettings(
                f"This job is one of {kind}.", advice="'submit_resume' goes on with it."
            )
        intake = self._intake(self._writing_scope())
        return intake.resume(job, on_progress=on_progress, on_prune=on_prune)

    @property
    def jobs(self) -> Jobs:
        """Return the world's jobs, for whoever may read all of it or write to it."""
        scope = self._scope()
        if scope is not None and self._authority.may(Verb.WRITE, scope.world):
            return Jobs(self._parts, scope)
        return Jobs(self._parts, self._readable())

    def _intake(self, scope: Scope) -> WorldIntake:
        return WorldIntake(self._parts, scope)
