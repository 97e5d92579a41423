"""A library: its worlds, tokens, backups, workers and doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING
from unicodedata import normalize
from uuid import UUID

from msgspec import structs

from truespan import errors
from truespan.engine.access import WorldAccess
from truespan.engine.components import Components
from truespan.engine.world import World
from truespan.jobs.thread import BackgroundRepairs
from truespan.protocols import JobWorker
from truespan.retrieval.pipeline import require_world
from truespan.tables import Extended, member_of
from truespan.types.audience import EVERYONE, check_labels, choose_default_audience
from truespan.types.document import DomainRecord
from truespan.types.job import JobState
from truespan.types.maintenance import BackupReport
from truespan.types.request import Defaults, check_defaults, check_whole
from truespan.types.scope import (
    MAX_GENERATION,
    OWNER,
    Authority,
    GenerationSelector,
    Scope,
    Unlimited,
    Verb,
)
from truespan.types.scope import World as WorldRecord

if TYPE_CHECKING:
    from truespan.engine.ingestion import OnProgress
    from truespan.engine.library_parts import LibraryMaintenance, LibraryModels
    from truespan.engine.tokens import AccessTokens
    from truespan.extensions.proof.signing import LibraryKeys
    from truespan.extensions.server.library import LibraryServer
    from truespan.maintenance.delete import Receipt
    from truespan.maintenance.doctor.plan import Plan

__all__ = ["Library", "World"]

DEFAULT_WORLD = "main"
"""Name of the world that a library without worlds gets on first use."""


class Library(Extended):
    """All worlds of one installation. Close it, or use it in a `with` statement.

    Only the owner may back up and run jobs; only the owner and tokens with `observe` may read the
    metrics. Others get NotAllowed.
    """

    def __init__(self, components: Components, authority: Authority = OWNER) -> None:
        self._authority = authority

        def repair(scope: Scope) -> None:
            from truespan.engine.jobs import background_repair

            background_repair(components)(scope)

        self._repairs = BackgroundRepairs(repair)
        self._components = structs.replace(components, start_repair=self._repairs.submit)

        @cache
        def worker() -> JobWorker:
            # Imported with the first job.
            from truespan.engine.worker import LibraryWorker

            return LibraryWorker(self._components)

        components.queue.work_with(worker)

    def under(self, authority: Authority) -> Library:
        """Return this library restricted to an authority. It shares everything with this one.

        Args:
            authority: Permissions; only those that this library has remain.

        Returns:
            A library that need not be closed separately.
        """
        if authority is self._authority:
            return self
        view = copy(self)
        view._authority = self._authority.within(authority)
        return view

    def create_world(
        self,
        name: str,
        *,
        defaults: Defaults | str | None = None,
        model: str | None = None,
        audience: Sequence[str] | None = None,
        audience_required: bool | None = None,
    ) -> World:
        """Create an empty world.

        Args:
            name: Name of the world, 1 to 200 printable characters.
            defaults: 'recommended' or 'contract'; None for the setting `world_defaults`.
            model: Embedding model: 'local', 'local-gpu', 'multilingual' or the name of a configured
                one; None for the library's default when the first document is ingested.
            audience: Labels of new documents that declare no audience; None for everyone.
            audience_required: Whether new documents must declare an audience.

        Raises:
            Conflict: The name is taken.
            InvalidArgument: The name is blank or too long, or there are no such defaults or model.
            ModelUnavailable: The model is not installed.
        """
        chosen = self._components.world_defaults if defaults is None else check_defaults(defaults)
        # One form of accented letters, so that equal names are one name on every system.
        plain = normalize("NFC", name.strip()) if isinstance(name, str) else ""
        is_id = False
        with suppress(ValueError):
            is_id = bool(UUID(plain))
        if not plain or not plain.isprintable() or len(name) > 200 or is_id:
            raise errors.InvalidArgument(
                "A world needs a name of 1 to 200 printable characters that is not an id."
            )
        profile = None if model is None else self._components.profile_named(model)
        labels = choose_default_audience(audience, audience_required, (EVERYONE,))
        made = self._components.store.worlds.create(self._authority, plain, chosen, labels)
        if profile is not None:
            self._components.store.worlds.begin_generation(self._authority, made.id, profile)
        return self._open(made.id)

    def world(
        self,
        reference: str | None = None,
        *,
        generation: int | None = None,
        create: bool | None = None,
        defaults: Defaults | str | None = None,
        model: str | None = None,
        audience: Sequence[str] | None = None,
    ) -> World:
        """Return a world.

        Args:
            reference: Id or name of the world. None for the only world that this authority may see,
                or for a new world "main" in a library without worlds.
            generation: Number of the generation that requests use; None for the default.
            create: Whether to create the world if it is absent; None for the world "main" only.
            defaults: Defaults of a world that is created: 'recommended' or 'contract'.
            model: Embedding model of a world that is created or has no document yet.
            audience: Labels of the caller, such as 'group:legal': the world has only the documents
                for everyone or for one of these labels, and can only be read. None for all
                documents that this authority may see.

        Raises:
            InvalidArgument: There is no such model, or the world has another one.
            WorldNotNamed: No reference is given, and there are several worlds, or none and the
                caller may not create one.
            NotAllowed: A generation is given, and the caller may read only as a reader.
        """
        if audience is not None:
            narrowed = self.under(self._authority.for_audience(audience))
            return narrowed.world(reference, generation=generation, create=False)
        if reference is None:
            worlds = self.worlds()
            if not worlds and create is not False and self._authority == OWNER:
                return self.create_world(DEFAULT_WORLD, defaults=defaults, model=model)
            if len(worlds) != 1:
                raise errors.WorldNotNamed([world.name for world in worlds])
            reference = worlds[0].id
        # A caller without a type checker may pass anything.
        if not isinstance(reference, str):
            raise errors.InvalidArgument("A world is named by a string: its id or its name.")
        # Names are stored without spaces around them.
        reference = reference.strip()
        if generation is not None:
            return self._open_generation(reference, generation)
        if create and self._components.store.worlds.find(self._authority, reference) is None:
            return self.create_world(reference, defaults=defaults, model=model)
        record = self._record(reference)
        if model is not None:
            self._require_model(record, model)
        return self._open(record.id)

    def _require_model(self, record: WorldRecord, model: str) -> None:
        """Give a world its first generation with a model; it must have no other already."""
        components, profile = self._components, self._components.profile_named(model)
        if record.generation is None:
            record = components.store.worlds.begin_generation(self._authority, record.id, profile)
        if record.generation is not None and record.generation.profile.id != profile.id:
            raise errors.InvalidArgument(
                f"The world {record.name!r} has the model {record.generation.profile.model}.",
                advice=f"Build a generation with the other: 'truespan reindex --model {model}'.",
            )

    def domain(self, key: str, *, world: str | None = None) -> World:
        """Return the world of a domain; its requests use the domain's generation.

        Args:
            key: Key of the domain.
            world: Id or name of the world that the domain must belong to; None for any.

        Raises:
            NotFound: The domain is absent, or in a world that this authority may not see.
            InvalidArgument: `world` is another world.
        """
        record = self._components.store.worlds.find_domain(self._authority, key)
        if record is None:
            raise errors.NotFound("domain", key)
        if world is not None and self._record(world).id != record.id:
            raise errors.InvalidArgument(
                f"The domain {key!r} names no generation of world {world!r}.",
                advice="Leave the world out: the domain chooses its own.",
            )
        return self._open(record.id, key)

    def domains(self) -> list[DomainRecord]:
        """Return the domains of the worlds that this authority may see, by key."""
        return self._components.store.worlds.domains(self._authority)

    def worlds(self) -> list[WorldRecord]:
        """Return the record of every world that this authority may see, by name."""
        worlds = self._components.store.worlds.all(self._authority)
        if isinstance(self._authority.audience, Unlimited):
            return worlds
        # The counts include changes of documents that the caller does not see.
        return [structs.replace(world, changes=0) for world in worlds]

    def delete_world(self, reference: str, *, erase: bool = True) -> Receipt:
        """Delete a world with everything in it.

        Args:
            reference: Id or name of the world.
            erase: Whether to rewrite the files that contained it; see `Documents.delete`.

        Raises:
            Conflict: A job of the world is running.
        """
        from truespan.engine.jobs import with_real_state

        world = self._record(reference)
        if not self._authority.may(Verb.ADMINISTER, world.id):
            raise errors.NotFound("world", world.name)
        scope = Scope(self._authority, world.id, world.generation) if world.generation else None
        for job in self._components.store.jobs.all(scope) if scope else ():
            if with_real_state(self._components, job).state is JobState.RUNNING:
                raise errors.Conflict(code="world_busy", world=world.name, job=job.id)
        return self._components.remover().world(self._authority, world, erase=erase)

    @property
    def server(self) -> LibraryServer:
        """Operations for the processes that serve the library."""
        return member_of(self, "server", "server")()

    @property
    def tokens(self) -> AccessTokens:
        """The access tokens of the library; only its owner may use them."""
        from truespan.engine.tokens import AccessTokens

        return AccessTokens(self._components, self._authority)

    @property
    def keys(self) -> LibraryKeys:
        """The keys that sign receipts."""
        return member_of(self, "keys", "proof")()

    def authenticate(
        self, secret: str, *, audience: str | Iterable[str] | None = None
    ) -> Authority:
        """Return the authority of a token, within the authority of this library.

        Args:
            secret: The token, of the library or of its identity provider.
            audience: Labels to narrow the authority to; a token that may impersonate gets them all.

        Raises:
            NotAllowed: It is not a token, or unknown, expired or revoked; always the same error.
            NotAllowed: No rule gives a user of the identity provider any right.
        """
        from truespan.engine.tokens import authenticate

        labels = None if audience is None else check_labels(audience)
        principal = authenticate(self._components, self._authority, secret)
        return (principal if labels is None else principal.for_audience(labels)).authority

    def backup(
        self,
        path: str | PurePath,
        *,
        vectors: bool = True,
        settings: bool = False,
        keys: bool = False,
        replace: bool = False,
    ) -> BackupReport:
        """Write everything in the library into one file, and read it back.

        Other processes may read and write meanwhile; the backup contains one state.

        Args:
            path: The file to write, outside the folder of the library.
            vectors: Whether to include vectors. Without them the file is smaller, but a restored
                library must embed everything again.
            settings: Whether to include truespan.toml.
            keys: Whether to include the library's own keys; protect such a file.
            replace: Whether to replace an existing file.

        Raises:
            InvalidArgument: The file exists, and `replace` is not given; or it would be in the
                folder of the library.
        """
        self._require_owner("back up the library")
        if self._components.backups is None:
            raise errors.NotAllowed("back up the library")
        return self._components.backups.write(
            str(path), vectors=vectors, settings=settings, keys=keys, replace=replace
        )

    @property
    def models(self) -> LibraryModels:
        """The models beside those of worlds: the reranker, the chat model and its servers."""
        from truespan.engine.library_parts import LibraryModels

        return LibraryModels(self._components, self._authority)

    @property
    def maintenance(self) -> LibraryMaintenance:
        """Repairs that follow a plan of `doctor`, a deletion, or the move of an index."""
        from truespan.engine.library_parts import LibraryMaintenance

        return LibraryMaintenance(self._components, self._authority)

    @property
    def has_workers(self) -> bool:
        """Whether submitted jobs are run by worker processes."""
        return self._components.queue.queue_id is not None

    def work(
        self,
        *,
        concurrency: int = 1,
        once: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> int:
        """Run the library's queued jobs in this process until `stopping` returns True.

        A job that is stopped finishes its step, and any worker continues it.

        Args:
            concurrency: Number of jobs that run at a time.
            once: Whether to return when no queued job is left.
            stopping: Called again and again; True ends the work.

        Raises:
            InvalidConfiguration: The submitting process runs its jobs itself.
        """
        from truespan.engine.jobs import submit_due_maintenance
        from truespan.engine.worker import resume_waiting

        self._require_owner("run jobs")
        if concurrency < 1:
            raise errors.InvalidArgument("At least one job must run at a time.")

        def on_tick() -> None:
            scopes = self._scopes()
            resume_waiting(self._components, scopes)
            submit_due_maintenance(self._components, scopes)

        return self._components.queue.serve(
            concurrency=concurrency, once=once, stopping=stopping, on_tick=on_tick
        )

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

        Args:
            worlds: Names of the worlds to examine; None for all.
            apply: Whether to make the index equal to the store. Vectors are stored, so this needs
                no provider.
            embed_sample: Number of texts of each generation to embed again and compare; None for a
                few, where the model is local.
            self_test: Whether to try the boundaries between worlds.
            machine: Whether to check settings, files and models.
            on_progress: Called with the progress after each step.
        """
        from truespan.engine.doctor import Doctor

        names = [worlds] if isinstance(worlds, str) else worlds
        doctor = Doctor(self._components, self._authority, on_progress)
        plan = doctor.examine(
            names, embed_sample=embed_sample, self_test=self_test, machine=machine
        )
        if apply:
            doctor.apply(plan)
        return plan

    def close(self) -> None:
        """Close all connections and files.

        A job that runs in the background stops before its next step, and is interrupted.
        """
        # Repairs first: where there are workers, a repair is submitted to the queue.
        self._repairs.close()
        self._components.queue.close()
        self._components.parser.close()
        if self._components.workers is not None:
            self._components.workers.close()
        self._components.index.close()
        self._components.store.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _open(self, world: str, target: GenerationSelector = None) -> World:
        return World(WorldAccess(self._components, self._authority, world, target))

    def _open_generation(self, reference: str, number: int) -> World:
        world = self._record(reference)
        # Before the number is looked at: who may not choose learns nothing about which there are.
        if not self._authority.may(Verb.READ, world.id):
            raise errors.NotAllowed("choose a generation")
        check_whole("generation", number, 0, MAX_GENERATION)
        require_world(self._components.store, self._authority, world.id, number)
        return self._open(world.id, number)

    def _record(self, reference: str) -> WorldRecord:
        return require_world(self._components.store, self._authority, reference)

    def _scopes(self) -> list[Scope]:
        """Return the scope of every world that has a generation."""
        worlds = self._components.store.worlds.all(self._authority)
        found = ((world.id, world.generation) for world in worlds)
        return [Scope(self._authority, id, generation) for id, generation in found if generation]

    def _refill(self) -> int:
        """Write a point for every stored vector that has none; return the number of points."""
        from truespan.maintenance.repair import refill

        store, index = self._components.store, self._components.index
        return sum(refill(store, index, scope) for scope in self._scopes())

    def _require_owner(self, action: str) -> None:
        if self._authority != OWNER:
            raise errors.NotAllowed(action)
