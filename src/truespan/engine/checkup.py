"""The doctor's rounds through a library: looking at worlds, and carrying out what was planned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from truespan.engine.intake import OnProgress, WorldIntake
from truespan.engine.parts import Components
from truespan.engine.queue_check import queue_checks
from truespan.errors import (
    CredentialsMissing,
    IndexRefused,
    IndexSchemaMismatch,
    Interrupted,
    InvalidSettings,
    ModelDrifted,
    ModelUnavailable,
    NotAllowed,
    ProfileMismatch,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    TruespanError,
    WorldNotFound,
)
from truespan.ingest.indexing import Indexer
from truespan.ingest.job_log import Progress
from truespan.maintenance.doctor.apply import Applier
from truespan.maintenance.doctor.examine import (
    A_FEW,
    AbsentEmbedder,
    Examiner,
    examine,
    sample,
    survey,
    unclaimed,
)
from truespan.maintenance.doctor.leaks import leaks, try_index, try_store
from truespan.maintenance.doctor.plan import Action, Finding, Item, Plan, RepairResult, WorldPlan
from truespan.maintenance.repair import apply_repairs
from truespan.protocols import Embedder
from truespan.types.bundle import Notice
from truespan.types.document import RevisionRef
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import Authority, Scope, Unlimited, Verb, World

_NO_EMBEDDER = (
    CredentialsMissing,
    ModelDrifted,
    ModelUnavailable,
    ProfileMismatch,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
)
"""What keeps a chunk from being embedded, and no other from being written."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """Looks at a library on behalf of an authority, and mends it."""

    parts: Components
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
        """Return what is wrong, without changing anything; None samples as many as cost little.

        The self-test tries the boundaries between worlds; `machine` looks at what is around them.
        What no world claims is looked for when all worlds are asked about, by somebody who sees
        them all.
        """
        named = None if worlds is None else list(worlds)
        chosen = self._chosen(named)
        examiner = Examiner(self.parts.store, self.parts.index, self._step)
        plan = Plan({name: examiner.world(self.authority, one) for name, one in chosen.items()})
        scopes = [scope for one in chosen.values() for scope in self._scopes(one)]
        if named is None and isinstance(self.authority.worlds, Unlimited):
            plan.leftovers = self._leftovers()
        for name, record in chosen.items():
            self._sample(plan, plan[name], record, embed_sample)
        if self_test:
            plan.self_test += self._self_test(plan, scopes)
        if machine:
            around = self.parts.environment
            plan.checks = around.checks() if around is not None else []
            if isinstance(self.authority.worlds, Unlimited):
                plan.checks += queue_checks(self.parts, scopes)
            plan.checks += self._models(chosen.values())
        return plan

    def treat(self, plan: Plan) -> RepairResult:
        """Carry out a plan, each item only while it is as it was seen, and look again.

        Killed anywhere, it can be run again with the same plan or a new one.

        Raises:
            InvalidSettings: the plan is of another library.
            Interrupted: stopped by Ctrl-C.
        """
        treatment = RepairResult(plan)
        known = self._known(plan)
        try:
            self._rebuild(plan, known, treatment)
            for world in plan.values():
                if world.world in known:
                    self._treat_world(world, known[world.world], treatment)
            self._drop_leftovers(plan, treatment)
        except KeyboardInterrupt:
            raise Interrupted from None
        everything = bool(plan.leftovers) or len(plan) == len(self._chosen(None))
        treatment.left = self.examine(None if everything else list(plan))
        return treatment

    def _chosen(self, names: Sequence[str] | None) -> dict[str, World]:
        store = self.parts.store
        if names is None:
            found = {one.name: one for one in store.worlds(self.authority)}
        else:
            found = {}
            for name in names:
                if (one := store.find_world(self.authority, name)) is None:
                    raise WorldNotFound(name)
                found[name] = one
        for one in found.values():
            if not self.authority.may(Verb.READ, one.id):
                raise NotAllowed("read without a reader")
        return found

    def _scopes(self, record: World, *, named: bool = False) -> list[Scope]:
        """Return a scope for each generation of a world, those that are being removed included.

        With `named`, only those that the world or a domain names.
        """
        if record.generation is None:
            return []
        scope = Scope(self.authority, record.id, record.generation)
        store = self.parts.store
        kept = [one.generation for one in store.kept_generations(scope) if one.named or not named]
        retired = [] if named else store.retired_generations(scope)
        return [replace(scope, generation=generation) for generation in (*kept, *retired)]

    def _all_scopes(self) -> list[Scope]:
        return [scope for one in self._chosen(None).values() for scope in self._scopes(one)]

    def _leftovers(self) -> list[Item]:
        seen = survey(self.parts.index, self._all_scopes())
        return unclaimed(seen, self._all_scopes())

    def _sample(self, plan: Plan, world: WorldPlan, record: World, count: int | None) -> None:
        """Embed some texts again, where that costs little or was asked for."""
        for scope in self._scopes(record):
            embedder = self._embedder(scope)
            wanted = (0 if embedder.limits.joint else A_FEW) if count is None else count
            found = [one for one in world.generations if one.number == scope.generation.number]
            if not wanted or not found or isinstance(embedder, AbsentEmbedder):
                continue
            items, check = sample(self.parts.store, scope, embedder, wanted, world=world.name)
            known = {item.subject for item in found[0].items}
            found[0].items += [item for item in items if item.subject not in known]
            plan.self_test.append(check)

    def _self_test(self, plan: Plan, scopes: Sequence[Scope]) -> list[Check]:
        """Try the boundaries between worlds, in each collection that can be read."""
        unreadable = {
            item.subject for item in plan.all_items() if item.finding is Finding.UNREADABLE_INDEX
        }
        profiles = {scope.profile.id: scope for scope in scopes}
        checks = [
            check
            for profile, scope in profiles.items()
            if profile not in unreadable
            for check in try_index(self.parts.index, scope, _fresh)
        ]
        return [*checks, try_store(self.parts.store, scopes, _fresh)] if scopes else checks

    def _models(self, records: Iterable[World]) -> Iterator[Check]:
        """Give the generations in use that no configured embedder can search.

        Nobody is asked anything that looking for samples has not asked already.
        """
        for record in records:
            for scope in self._scopes(record, named=True):
                embedder = self._embedder(scope)
                if isinstance(embedder, AbsentEmbedder):
                    yield _without_model(record.name, scope, embedder.reason)

    def _known(self, plan: Plan) -> dict[str, World]:
        """Return the worlds of a plan as they are now; those deleted meanwhile are left out."""
        known: dict[str, World] = {one.id: one for one in self._chosen(None).values()}
        if len(plan) and not any(world.world in known for world in plan.values()):
            raise InvalidSettings(
                "The plan is of another library: none of its worlds is here.",
                advice="Write a plan for this library with 'truespan doctor --plan-file'.",
            )
        return known

    def _rebuild(self, plan: Plan, known: dict[str, World], treatment: RepairResult) -> None:
        """Start collections anew that cannot be read, for every world that shares them.

        First every chunk they held is marked pending: no reader may take an empty index for an
        empty world. Where it can be read by now, nothing is done.
        """
        lost = {item.subject for item in plan.all_items() if item.action is Action.REBUILD}
        scopes = self._all_scopes()
        by_profile = {scope.profile.id: scope for scope in scopes}
        for profile in sorted(lost & by_profile.keys()):
            if self._still_broken(profile, scopes):
                scope = by_profile[profile]
                self.parts.store.forget_index(scope)
                self.parts.index.reset(scope)
                treatment.count(Action.REBUILD)
                for record in known.values():
                    self._finish_world(record, treatment, only=profile)

    def _still_broken(self, profile: str, scopes: Sequence[Scope]) -> bool:
        sharing = [scope for scope in scopes if scope.profile.id == profile]
        try:
            held = survey(self.parts.index, sharing)
            for scope in sharing:
                for _ in self.parts.index.scan(scope):
                    pass
        except (IndexRefused, IndexSchemaMismatch):
            return True
        found = [item.finding for item in unclaimed(held, scopes)]
        return profile not in held.held or Finding.UNCLAIMED_POINTS in found

    def _treat_world(self, plan: WorldPlan, record: World, treatment: RepairResult) -> None:
        if record.generation is None or not plan.counts():
            return
        applier = Applier(self.parts.store, self.parts.index, treatment)
        scopes = {scope.generation.number: scope for scope in self._scopes(record)}
        applier.world(Scope(self.authority, record.id, record.generation), plan)
        for generation in plan.generations:
            if (scope := scopes.get(generation.number)) is not None:
                embedder = self._embedder(scope)
                sure = not embedder.limits.joint and not isinstance(embedder, AbsentEmbedder)
                applier.generation(scope, generation, embedder if sure else None)
        self._finish_world(record, treatment)

    def _finish_world(
        self, record: World, treatment: RepairResult, *, only: str | None = None
    ) -> None:
        """Apply queued repairs, write all points that are pending, and clear what is retired."""
        for scope in self._scopes(record):
            if only in (None, scope.profile.id):
                done = apply_repairs(self.parts.store, self.parts.index, scope)
                treatment.count(Action.REPAIR, done.deleted_points + done.restored_texts)
                self._finish(scope, treatment)
        if record.generation is not None and only is None:
            scope = Scope(self.authority, record.id, record.generation)
            cleared = len(self.parts.store.retired(scope))
            Indexer(WorldIntake(self.parts, scope).tools, scope).clear_retired()
            treatment.count(Action.CLEAR, cleared)

    def _finish(self, scope: Scope, treatment: RepairResult) -> None:
        """Write what is pending of a generation; only what has no vector needs its model."""
        tools = replace(WorldIntake(self.parts, scope).tools, embedder=self._embedder(scope))
        carrier = Indexer(tools, scope)
        refs = self.parts.store.unfinished(scope)
        for place, ref in enumerate(refs):
            try:
                carrier.fill([ref], self._counting(place, len(refs)))
            except _NO_EMBEDDER as error:
                # Others have their vectors, and are written all the same.
                line = f"generation {scope.generation.number}: {error.message}"
                if line not in treatment.failures:
                    treatment.failures.append(line)
        treatment.count(Action.EMBED_PENDING, carrier.done.written)

    def _drop_leftovers(self, plan: Plan, treatment: RepairResult) -> None:
        """Remove what no world claims, if that is still so."""
        if not plan.leftovers:
            return
        still = {(item.finding, item.subject) for item in self._leftovers()}
        scopes = {scope.profile.id: scope for scope in self._all_scopes()}
        for item in plan.leftovers:
            if item.action is Action.REBUILD:
                continue
            if (item.finding, item.subject) not in still:
                treatment.skipped.append(item)
            elif item.action is Action.DISCARD:
                self.parts.index.discard(item.subject)
                treatment.count(item.action)
            else:
                profile, _, tenant = item.subject.partition(" ")
                self.parts.index.drop_tenant(scopes[profile], tenant)
                treatment.count(item.action, item.count)

    def _embedder(self, scope: Scope) -> Embedder:
        """Return the embedder of a scope's profile, or one that says why there is none."""
        try:
            found = self.parts.embedder_for(scope.profile)
            if found.profile.id == scope.profile.id:
                return found
            reason: TruespanError = ProfileMismatch(str(scope.profile), str(found.profile))
        except TruespanError as error:
            reason = error
        return AbsentEmbedder(scope.profile, reason)

    def _step(self, what: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(done / max(total, 1), 0, 0, done, 0, what))

    def _counting(self, place: int, total: int) -> Callable[[int, RevisionRef], None]:
        def on_chunks(_count: int, ref: RevisionRef) -> None:
            self._step(f"document {ref.document}", place, total)

        return on_chunks


_HARMLESS = (Finding.RETIRED, Finding.QUEUED_REPAIR, Finding.QUARANTINED)
"""What may be found in a generation that readers are sent to."""


def unsound(parts: Components, scope: Scope) -> list[Notice]:
    """Say in what a generation is not what the store says, and where its index leaks.

    Raises:
        StorageFull, IndexUnavailable: that could not be found out.
    """
    counts = examine(parts.store, parts.index, scope).counts()
    number = scope.generation.number
    miscounted = sum(one.generation == number for one in parts.store.tally_flaws(scope))
    if miscounted:
        counts[Finding.WRONG_TALLY] = miscounted
    # There are no boundaries to try in an index that cannot be read.
    readable = Finding.UNREADABLE_INDEX not in counts
    found = leaks(parts.index, scope, _fresh) if readable else []
    return [Notice("leak", f"{check.name}: {check.says}.") for check in found] + [
        Notice(finding.value, f"{count} x {finding.value}.")
        for finding, count in counts.items()
        if finding not in _HARMLESS
    ]


def _without_model(world: str, scope: Scope, reason: TruespanError) -> Check:
    name = f"model of {world}, generation {scope.generation.number}"
    if not isinstance(reason, ProfileMismatch):
        return Check(name, Verdict.WARNING, f"could not be asked ({reason.code})", reason.advice)
    remedy = (
        "Configure its model as [embedding.NAME] in truespan.toml, or build a generation with the "
        "configured one ('truespan reindex') and promote it."
    )
    return Check(name, Verdict.PROBLEM, f"no configured embedder has {scope.profile}", remedy)


def _fresh() -> str:
    return str(uuid4())
