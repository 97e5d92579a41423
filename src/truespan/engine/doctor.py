"""The doctor of a library: examine worlds, check the queue, apply a plan, repair a world."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from truespan import errors
from truespan.engine.access import WorldAccess
from truespan.engine.components import Components
from truespan.engine.ingestion import Ingestion, OnProgress
from truespan.ingest.indexing import (
    Indexer,
    clear_retired,
    cut_again,
    embed_pending,
    fill_word_states,
    prepare_index,
)
from truespan.ingest.report import Progress
from truespan.maintenance.doctor.apply import Applier
from truespan.maintenance.doctor.examine import (
    A_FEW,
    NO_INDEX,
    AbsentEmbedder,
    Examiner,
    check_index,
    sample,
    survey,
    unclaimed,
)
from truespan.maintenance.doctor.leaks import try_index, try_store
from truespan.maintenance.doctor.plan import Action, Finding, Item, Plan, RepairResult, WorldPlan
from truespan.maintenance.repair import RepairReport, apply_observed_repairs, apply_repairs
from truespan.observer import RequestTrace
from truespan.protocols import Embedder
from truespan.retrieval.query import calibration_of, embedder_for
from truespan.tables import require, tables
from truespan.types.document import RevisionRef
from truespan.types.maintenance import MAX_SAMPLE, Check, Verdict
from truespan.types.request import check_whole
from truespan.types.scope import Authority, Scope, Unlimited, Verb, World
from truespan.types.telemetry import CounterName, RepairAction

_EMBEDDER_ERRORS = (
    *(
        errors.InvalidConfiguration,
        errors.ModelDrifted,
        errors.ModelUnavailable,
        errors.ProfileMismatch,
    ),
    *(errors.ProviderBadReply, errors.ProviderRefused, errors.ProviderUnavailable),
)
"""Errors that prevent embedding, but not writing points whose vectors are stored."""


class Doctor(Struct, frozen=True):
    """Examines a library on behalf of an authority, and repairs it."""

    components: Components
    authority: Authority
    on_progress: OnProgress | None = None

    def examine(
        self,
        worlds: Iterable[str] | None = None,
        *,
        embed_sample: int | None = 0,
        self_test: bool = False,
        machine: bool = False,
    ) -> Plan:
        """Return the findings, without changing anything.

        `embed_sample` texts of each generation are embedded again; None for a few where the model
        is local. `self_test` tries the boundaries between worlds; `machine` checks settings,
        files, the queue and models. Points and collections that no world claims are looked for if
        all worlds are examined by an authority that sees all of them.
        """
        check_whole("embed_sample", embed_sample or 0, 0, MAX_SAMPLE)
        names = None if worlds is None else list(worlds)
        records = self._find_worlds(names)
        sees_everything = isinstance(self.authority.worlds, Unlimited)
        examiner = Examiner(self.components.store, self.components.index, self._report)
        plan = Plan(
            {name: examiner.world(self.authority, record) for name, record in records.items()}
        )
        scopes = [scope for record in records.values() for scope in self._scopes(record)]
        unread = {item.subject for item in plan.all_items() if item.finding in NO_INDEX}
        away = any(item.finding is Finding.UNREACHABLE_INDEX for item in plan.all_items())
        if names is None and sees_everything and not away:
            plan.leftovers = self._leftovers()
        for name, record in records.items():
            self._embed_sample(plan, plan[name], record, embed_sample)
        if self_test:
            for profile, scope in {scope.profile.id: scope for scope in scopes}.items():
                if profile not in unread:
                    plan.self_test += try_index(self.components.index, scope)
            if scopes:
                plan.self_test.append(try_store(self.components.store, scopes))
        if away and not machine:
            plan.checks = [check_index("index server", self.components.index)]
        if machine:
            plan.checks = self.components.check_environment()
            if sees_everything:
                if self.components.queue.queue_id is not None:
                    check = require(tables().components.get("queue_check"), "queue", "cluster")
                    plan.checks += check(self.components.queue, self.components.store, scopes)
                plan.checks += check_similarity(self.components, scopes)
            # The models of named generations, which readers are sent to.
            for record in records.values():
                for scope in self._scopes(record, only_named=True):
                    embedder = self._embedder(scope)
                    if isinstance(embedder, AbsentEmbedder):
                        plan.checks.append(_missing_model(record.name, scope, embedder.reason))
        return plan

    def apply(self, plan: Plan) -> RepairResult:
        """Carry out a plan, each item only if it is unchanged, and examine again.

        If it is killed, it can be run again with the same plan or a new one.
        """
        result = RepairResult(plan)
        records = {str(record.id): record for record in self._find_worlds(None).values()}
        if len(plan) and not any(world.world in records for world in plan.values()):
            raise errors.InvalidArgument(
                "The plan belongs to another library: none of its worlds exists here.",
                advice="Examine this library anew with its own doctor.",
            )
        try:
            self._rebuild(plan, records, result)
            for world in plan.values():
                if world.world in records:
                    self._apply_to_world(world, records[world.world], result)
            self._delete_leftovers(plan, result)
            everything = bool(plan.leftovers) or len(plan) == len(self._find_worlds(None))
        except KeyboardInterrupt:
            raise errors.Interrupted from None
        result.left = self.examine(None if everything else list(plan))
        self.components.remover().finish_erasures()
        return result

    def _find_worlds(self, names: Sequence[str] | None) -> dict[str, World]:
        store = self.components.store
        if names is None:
            found = {record.name: record for record in store.worlds.all(self.authority)}
        else:
            found = {}
            for name in names:
                if (record := store.worlds.find(self.authority, name)) is None:
                    raise errors.NotFound("world", name)
                found[name] = record
        for record in found.values():
            if not self.authority.may(Verb.READ, record.id):
                raise errors.NotAllowed("read without a reader")
        if not isinstance(self.authority.audience, Unlimited):
            raise errors.NotAllowed("examine all documents")
        return found

    def _scopes(self, record: World, *, only_named: bool = False) -> list[Scope]:
        """Return a scope for each generation of a world, including those being deleted. With
        `only_named`, only for those that the world or a domain names."""
        if record.generation is None:
            return []
        scope, store = Scope(self.authority, record.id, record.generation), self.components.store
        generations = [
            kept.generation
            for kept in store.worlds.kept_generations(scope)
            if kept.named or not only_named
        ]
        if not only_named:
            generations += store.worlds.retired_generations(scope)
        return [replace(scope, generation=generation) for generation in generations]

    def _all_scopes(self) -> list[Scope]:
        records = self._find_worlds(None).values()
        return [scope for record in records for scope in self._scopes(record)]

    def _leftovers(self) -> list[Item]:
        # The index first: a world created in between must not look like a leftover.
        index = self.components.index
        held, collections = survey(index, self._all_scopes()), index.collections()
        owners = {name: index.ownership(name) for name in collections}
        return list(unclaimed(collections, held, self._all_scopes(), owners))

    def claim_index(self) -> list[str]:
        """Make this library the owner of the collections of its models; return their profiles."""
        if not isinstance(self.authority.worlds, Unlimited):
            raise errors.NotAllowed("claim the index for every world")
        index = self.components.index
        profiles = sorted({scope.profile.id for scope in self._all_scopes()})
        for profile in profiles:
            index.claim(profile)
        return profiles

    def _embed_sample(self, plan: Plan, world: WorldPlan, record: World, count: int | None) -> None:
        for scope in self._scopes(record):
            embedder = self._embedder(scope)
            wanted = (0 if embedder.limits.joint else A_FEW) if count is None else count
            number = scope.generation.number
            found = [entry for entry in world.generations if entry.number == number]
            if not wanted or not found or isinstance(embedder, AbsentEmbedder):
                continue
            items, check = sample(self.components.store, scope, embedder, wanted, world=world.name)
            known = {item.subject for item in found[0].items}
            found[0].items += [item for item in items if item.subject not in known]
            plan.self_test.append(check)

    def _rebuild(self, plan: Plan, records: dict[str, World], result: RepairResult) -> None:
        """Recreate collections that cannot be read, for every world that shares them. First every
        chunk they held is marked pending: an empty index must not look like an empty world. A
        collection that can be read again is left alone."""
        lost = {item.subject for item in plan.all_items() if item.action is Action.REBUILD}
        scopes = self._all_scopes()
        by_profile = {scope.profile.id: scope for scope in scopes}
        for profile in sorted(lost & by_profile.keys()):
            if self._is_broken(profile, scopes):
                scope = by_profile[profile]
                self.components.store.chunks.mark_all_pending(scope)
                self.components.index.reset(scope)
                result.count(Action.REBUILD)
                for record in records.values():
                    self._finish_world(record, result, only=profile)

    def _is_broken(self, profile: str, scopes: Sequence[Scope]) -> bool:
        sharing = [scope for scope in scopes if scope.profile.id == profile]
        try:
            held = survey(self.components.index, sharing)
            for scope in sharing:
                for _ in self.components.index.scan(scope):
                    pass
        except (errors.IndexRefused, errors.IndexSchemaMismatch):
            return True
        findings = [item.finding for item in unclaimed((), held, scopes)]
        return profile not in held or Finding.UNCLAIMED_POINTS in findings

    def _apply_to_world(self, plan: WorldPlan, record: World, result: RepairResult) -> None:
        if record.generation is None or not plan.counts():
            return
        scopes = {scope.generation.number: scope for scope in self._scopes(record)}

        def rebuild_chunks(ref: RevisionRef, number: int) -> bool:
            scope = scopes.get(number)
            if scope is None:
                return False
            try:
                recut = cut_again(Ingestion(self.components, scope).deps, scope, ref)
            except errors.StoreDamaged:
                return False
            store = self.components.store
            return recut is not None and store.scrub.rewrite_chunks(scope, ref, recut.chunks)

        applier = Applier(self.components.store, self.components.index, result, rebuild_chunks)
        applier.world(Scope(self.authority, record.id, record.generation), plan)
        for generation in plan.generations:
            if (scope := scopes.get(generation.number)) is not None:
                embedder = self._embedder(scope)
                is_exact = not embedder.limits.probed and not isinstance(embedder, AbsentEmbedder)
                applier.generation(scope, generation, embedder if is_exact else None)
        self._finish_world(record, result)

    def _finish_world(
        self, record: World, result: RepairResult, *, only: str | None = None
    ) -> None:
        """Apply queued repairs, write all pending points, and delete retired revisions."""
        components = self.components
        for scope in self._scopes(record):
            if only in (None, scope.profile.id):
                done = apply_repairs(components.store, components.index, scope)
                result.count(Action.REPAIR, done.deleted_points + done.restored_texts)
                self._write_pending(scope, result)
        if record.generation is not None and only is None:
            scope = Scope(self.authority, record.id, record.generation)
            retired = len(components.store.documents.retired(scope))
            clear_retired(Ingestion(components, scope).deps, scope)
            result.count(Action.CLEAR, retired)

    def _write_pending(self, scope: Scope, result: RepairResult) -> None:
        """Write the pending points of a generation; only those without a vector need its model."""
        deps = replace(Ingestion(self.components, scope).deps, embedder=self._embedder(scope))
        indexer = Indexer(deps, scope)
        refs = self.components.store.chunks.unfinished(scope)
        for place, ref in enumerate(refs):

            def report(_count: int, ref: RevisionRef, place: int = place) -> None:
                self._report(f"document {ref.document}", place, len(refs))

            try:
                indexer.fill([ref], report)
            except _EMBEDDER_ERRORS as error:
                # Other documents have their vectors, and are still written.
                line = f"generation {scope.generation.number}: {error.message}"
                if line not in result.failures:
                    result.failures.append(line)
        result.count(Action.EMBED_PENDING, indexer.counts.written)
        fill_word_states(deps, scope)

    def _delete_leftovers(self, plan: Plan, result: RepairResult) -> None:
        """Delete unclaimed points and collections, if they are still unclaimed."""
        if not plan.leftovers:
            return
        current = {(item.action, item.subject) for item in self._leftovers()}
        scopes = {scope.profile.id: scope for scope in self._all_scopes()}
        for item in plan.leftovers:
            if item.action in (Action.REBUILD, Action.CHECK_OWNER):
                continue
            if (item.action, item.subject) not in current:
                result.skipped.append(item)
            elif item.action is Action.DISCARD:
                self.components.index.discard(item.subject)
                result.count(item.action)
            else:
                profile, _, tenant = item.subject.partition(" ")
                self.components.index.drop_tenant(scopes[profile], tenant)
                result.count(item.action, item.count)

    def _embedder(self, scope: Scope) -> Embedder:
        """Return the embedder of a scope's profile, or one that says why there is none."""
        try:
            found = embedder_for(self.components, scope.profile)
            if found.profile.id == scope.profile.id:
                return found
            reason: errors.TruespanError = errors.ProfileMismatch(
                str(scope.profile), str(found.profile)
            )
        except errors.TruespanError as error:
            reason = error
        return AbsentEmbedder(scope.profile, reason)

    def _report(self, step: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(
                Progress(
                    fraction=done / max(total, 1),
                    documents=0,
                    documents_total=0,
                    chunks=done,
                    embedded=0,
                    current=step,
                )
            )


def repair_world(
    access: WorldAccess, on_progress: OnProgress | None, trace: RequestTrace
) -> RepairReport:
    """Apply the queued repairs of every generation, and finish erasures of earlier deletions. In a
    generation other than the default, chunks whose model is not configured stay pending. The index
    of a world that is now to be searched approximately is converted."""
    report, scope, components = (
        RepairReport(),
        access.whole_scope("repair the world"),
        access.components,
    )
    if scope is None:
        return report
    for kept in components.store.worlds.kept_generations(scope):
        generation = replace(scope, generation=kept.generation)
        prepare_index(components.store, components.index, generation)
        repaired = apply_observed_repairs(components.store, components.index, generation, trace)
        deps = replace(Ingestion(components, generation).deps, trace=trace)
        try:
            embedded = embed_pending(deps, generation, on_progress)
            repaired.reembedded += embedded
            repaired.word_states = fill_word_states(deps, generation)
            trace.count(CounterName.REPAIRS, embedded, RepairAction.REEMBEDDED)
        except errors.ProfileMismatch:
            if access.record().generation == kept.generation:
                raise
        except KeyboardInterrupt:
            raise errors.Interrupted from None
        report.add(repaired)
    erased = components.remover().finish_erasures()
    report.erasures, report.erasures_waiting = erased.done, erased.waiting
    return report


def check_similarity(components: Components, scopes: Sequence[Scope]) -> Iterator[Check]:
    """Return for each model how similar unrelated texts are, so that a floor can be judged."""
    by_model = {scope.profile.model: scope for scope in reversed(scopes)}
    for model, scope in sorted(by_model.items()):
        try:
            measured = calibration_of(components.store, scope)
        except errors.TruespanError as error:
            yield Check(f"similarity of {model}", Verdict.PROBLEM, error.message, error.advice)
            continue
        says = "not measured; 'truespan calibrate' does it"
        if measured is not None:
            says = (
                f"19 of 20 unrelated texts stay below {measured.unrelated_high:g}; "
                "a lower floor excludes little"
            )
        yield Check(f"similarity of {model}", Verdict.OK, says)


def _missing_model(world: str, scope: Scope, reason: errors.TruespanError) -> Check:
    name = f"model of {world}, generation {scope.generation.number}"
    if not isinstance(reason, errors.ProfileMismatch):
        says = f"could not be reached ({reason.code})"
        return Check(name, Verdict.WARNING, says, reason.advice)
    advice = (
        "Configure its model as [embedding.NAME] in truespan.toml, or build a generation with the "
        "configured one ('truespan reindex') and promote it."
    )
    return Check(name, Verdict.PROBLEM, f"no configured embedder has {scope.profile}", advice)
