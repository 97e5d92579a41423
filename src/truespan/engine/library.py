"""The engine: a library and its worlds. What can be asked of one world is in `world`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from pathlib import PurePath
from types import TracebackType
from uuid import UUID

from truespan.engine.checkup import Checkup
from truespan.engine.once import IdempotencyStore
from truespan.engine.parts import Components
from truespan.engine.removal import delete_world, remover
from truespan.engine.tokens import Tokens, authenticated
from truespan.engine.upkeep_orders import order_what_is_due, repairing
from truespan.engine.worker import LibraryWorker, resume_waiting
from truespan.engine.world import OnProgress, World
from truespan.errors import DomainNotFound, InvalidSettings, NotAllowed, WorldNotFound
from truespan.maintenance.delete import ErasureReport, Receipt
from truespan.maintenance.doctor.plan import Plan, RepairResult
from truespan.maintenance.repair import BackgroundRepairs, refill
from truespan.types.document import DomainRecord
from truespan.types.job import Job
from truespan.types.maintenance import BackupReport
from truespan.types.scope import OWNER, Authority, Scope
from truespan.types.scope import World as WorldRecord
from truespan.types.telemetry import CounterName, Request
from truespan.types.token import Principal, ReplayKey

__all__ = ["Library", "OnProgress", "World"]


class Library:
    """All that one installation holds. Close it, or use it in a `with` statement."""

    def __init__(self, parts: Components, authority: Authority = OWNER) -> None:
        self._parts = parts
        self._authority = authority
        self._keys = IdempotencyStore(parts)
        self._repairs = BackgroundRepairs(repairing(parts))
        parts.queue.work_with(LibraryWorker(parts, self._repairs))

    def under(self, authority: Authority) -> Library:
        """Return this library as somebody with at most this authority has it.

        It shares everything with this one, and needs no closing of its own.
        """
        if authority is self._authority:
            return self
        view = copy(self)
        view._authority = self._authority.within(authority)
        return view

    def create_world(self, name: str) -> World:
        """Make an empty world.

        Raises:
            WorldExists: the name is taken.
            InvalidSettings: the name is blank or too long.
        """
        plain = isinstance(name, str) and name.strip() and name.strip().isprintable()
        if not plain or len(name) > 200 or _is_id(name.strip()):
            raise InvalidSettings(
                "A world needs a name of 1 to 200 characters that can be printed, and is no id."
            )
        record = self._parts.store.create_world(self._authority, name.strip())
        return World(self._parts, self._authority, self._repairs, record.id)

    def world(self, reference: str, *, create: bool = False) -> World:
        """Return the world with this id or name; with `create`, make it if it is not there.

        Raises:
            WorldNotFound: it is absent, or not for this authority.
        """
        try:
            return World(self._parts, self._authority, self._repairs, self._record(reference).id)
        except WorldNotFound:
            if not create:
                raise
            return self.create_world(reference)

    def domain(self, key: str, *, world: str | None = None) -> World:
        """Return the world of a domain; what is asked of it is asked of the domain's generation.

        Raises:
            DomainNotFound: it is absent, or of a world that is not for this authority.
            InvalidSettings: another world was named with it.
        """
        record = self._parts.store.find_domain(self._authority, key)
        if record is None:
            raise DomainNotFound(key)
        if world is not None and self._record(world).id != record.id:
            raise InvalidSettings(
                f"The domain {key!r} names no generation of world {world!r}.",
                advice="Leave the world out: the domain chooses its own.",
            )
        return World(self._parts, self._authority, self._repairs, record.id, key)

    def domains(self) -> list[DomainRecord]:
        """Return the domains of the worlds that this authority sees, by key."""
        return self._parts.store.domains(self._authority)

    def worlds(self) -> list[WorldRecord]:
        """Return what is known of every world, by name."""
        return self._parts.store.worlds(self._authority)

    def delete_world(self, reference: str, *, erase: bool = True) -> Receipt:
        """Remove a world with all that is in it; see `World.delete` for `erase`.

        Raises:
            WorldNotFound: it is absent, or not for this authority to remove.
            WorldBusy: a job of the world runs.
        """
        return delete_world(self._parts, self._authority, self._record(reference), erase=erase)

    @property
    def tokens(self) -> Tokens:
        """Return the access tokens of the library, for its owner to make, list and revoke."""
        return Tokens(self._parts, self._authority)

    def authenticate(self, secret: str) -> Authority:
        """Return what whoever holds this token may do, within what this library may do.

        Raises:
            Unauthorized: it is no token, or unknown, expired or revoked; which is not said.
        """
        return self.admit(secret).authority

    def admit(self, secret: str) -> Principal:
        """Return whoever holds this token: its id, and what it allows within this library.

        Raises:
            Unauthorized: as `authenticate` says.
        """
        return authenticated(self._parts, self._authority, secret)

    def once(self, key: ReplayKey, fingerprint: bytes, work: Callable[[], bytes]) -> bytes:
        """Do the work and return its reply; for a key that was used before, the reply it had then.

        Raises:
            KeyReused, KeyBusy: the key is another request's, or that is still at work.
        """
        return self._keys.run(key, fingerprint, work)

    def backup(
        self,
        path: str | PurePath,
        *,
        vectors: bool = True,
        settings: bool = False,
        keys: bool = False,
        replace: bool = False,
    ) -> BackupReport:
        """Write all that the library holds into one file, and read it back.

        Others may read and write meanwhile; the backup has one state of the library. Without
        `vectors` it is smaller, and what is restored from it has to be embedded again. `settings`
        adds truespan.toml, `keys` the library's own keys, which whoever has the file then has.

        Raises:
            NotAllowed: this authority does not have the whole library.
            InvalidSettings: there is a file already, and it was not to be replaced.
            StorageFull: there is no room.
        """
        if self._authority != OWNER or self._parts.backups is None:
            raise NotAllowed("back up the library")
        return self._parts.backups.write(
            str(path), vectors=vectors, settings=settings, keys=keys, replace=replace
        )

    def metrics(self) -> bytes:
        """Return what was counted so far, as Prometheus reads it; nothing where metrics are off.

        Raises:
            NotAllowed: this authority does not have the whole library, and the counts are of all.
        """
        if self._authority != OWNER:
            raise NotAllowed("read the metrics")
        return self._parts.metrics()

    def refill(self) -> int:
        """Write to the index what the store keeps vectors of; return how many points that were."""
        parts = self._parts
        return sum(refill(parts.store, parts.index, scope) for scope in self._scopes())

    def pending(self) -> int:
        """Return how many chunks wait to be embedded, in all worlds and generations."""
        store = self._parts.store
        return sum(one.pending for scope in self._scopes() for one in store.generations(scope))

    def _scopes(self) -> list[Scope]:
        return [
            Scope(self._authority, world.id, world.generation)
            for world in self.worlds()
            if world.generation is not None
        ]

    def resume_waiting(self) -> list[Job]:
        """Go on, in the background, with jobs that were submitted there and left by their process.

        For a server that starts. Of several processes only one takes each job. One that was stopped
        on purpose is left alone, and so is one under which the process went away again and again.

        Raises:
            NotAllowed: this authority does not have the whole library.
        """
        if self._authority != OWNER:
            raise NotAllowed("take up jobs")
        return resume_waiting(self._parts, self._scopes())

    @property
    def has_workers(self) -> bool:
        """Say whether jobs that are submitted are done by workers, whichever process asks."""
        return self._parts.queue.holder is not None

    def work(
        self,
        *,
        concurrency: int = 1,
        once: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> int:
        """Do the jobs that are submitted to the library, in this process, until told to stop.

        So many are done at a time. Told to stop, a job ends its step, and any worker goes on with
        it. With `once`, return when nothing is left to begin with. Returns how many orders were
        carried out.

        Raises:
            NotAllowed: this authority does not have the whole library.
            InvalidConfiguration: jobs are done by the process that they are submitted to.
            InvalidSettings: fewer than one job at a time.
        """
        if self._authority != OWNER:
            raise NotAllowed("do jobs")
        if concurrency < 1:
            raise InvalidSettings("At least one job must be done at a time.")

        def look() -> None:
            scopes = self._scopes()
            resume_waiting(self._parts, scopes)
            order_what_is_due(self._parts, scopes)

        return self._parts.queue.serve(
            concurrency=concurrency, once=once, stopping=stopping, now_and_then=look
        )

    def erase(self) -> ErasureReport:
        """Do what deletions left queued, such as files that could not be written anew then."""
        return remover(self._parts).catch_up()

    def doctor(
        self,
        worlds: str | Iterable[str] | None = None,
        *,
        apply: bool = False,
        embed_sample: int | None = 0,
        self_test: bool = False,
        machine: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Plan:
        """Compare store and index of each world, in every generation, and return what is wrong.

        With `apply`, the index is made what the store says; vectors are kept in the store, so this
        needs no provider. `embed_sample` texts a generation are embedded again and compared (None:
        a few, where the model is on this machine); `self_test` tries the boundaries between worlds;
        `machine` looks at settings, files and models.
        """
        chosen = [worlds] if isinstance(worlds, str) else worlds
        checkup = Checkup(self._parts, self._authority, on_progress)
        plan = checkup.examine(
            chosen, embed_sample=embed_sample, self_test=self_test, machine=machine
        )
        if apply:
            checkup.treat(plan)
            self.erase()
        return plan

    def treat(self, plan: Plan, *, on_progress: OnProgress | None = None) -> RepairResult:
        """Carry out a plan that `doctor` made, and say what was done and what is left.

        Each item is looked at again first, and left alone if it has changed meanwhile.

        Raises:
            InvalidSettings: the plan is of another library.
        """
        treatment = Checkup(self._parts, self._authority, on_progress).treat(plan)
        self.erase()
        return treatment

    def count_bug(self) -> None:
        """Count an exception that reached a door and that nobody foresaw."""
        with self._parts.watch.request(Request.DOOR) as course:
            course.count(CounterName.BUGS)

    def ready(self) -> None:
        """Return once store and index have answered; nothing of either is told.

        Raises:
            IndexUnavailable, StoreBusy, StoreDamaged: one of them does not.
        """
        self._parts.store.worlds(OWNER.narrow(worlds=(), verbs=()))
        self._parts.index.collections()

    def close(self) -> None:
        """Let go of everything; what was committed stays.

        A job that runs in the background stops before its next step, and is interrupted.
        """
        # Repairs first: where there are workers, they are orders to the queue.
        self._repairs.close()
        self._parts.queue.close()
        self._parts.parser.close()
        self._parts.index.close()
        self._parts.store.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _record(self, reference: str) -> WorldRecord:
        record = self._parts.store.find_world(self._authority, reference)
        if record is None:
            raise WorldNotFound(reference)
        return record


def _is_id(name: str) -> bool:
    """Say whether a name could be taken for the id of a world."""
    try:
        return bool(UUID(name))
    except ValueError:
        return False
