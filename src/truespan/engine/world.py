"""One world of a library: its documents, readers, conversations and maintenance.

`WorldQueries` and `WorldIngestion` have the methods that query a world and add documents to it.
Collaborators are imported where they are used, so that a search imports only what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from truespan.engine.access import WorldAccess
from truespan.engine.components import Components
from truespan.engine.world_ingestion import WorldIngestion
from truespan.engine.world_queries import WorldQueries
from truespan.errors import OperatorError, ServiceError
from truespan.observer import Observer, combine_observers
from truespan.tables import Extended, member_of
from truespan.types.audience import choose_default_audience
from truespan.types.conversation import CONVERSATION_LIMIT, ConversationInfo
from truespan.types.document import WorldStatus
from truespan.types.request import Defaults, check_defaults, check_reader_name
from truespan.types.scope import Scope
from truespan.types.telemetry import Request

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation
    from truespan.engine.documents import Documents
    from truespan.engine.ingestion import OnProgress
    from truespan.engine.reader import Reader
    from truespan.engine.world_jobs import WorldJobs
    from truespan.extensions.quality.world import WorldEvaluation
    from truespan.maintenance.delete import Receipt
    from truespan.maintenance.doctor.plan import Plan
    from truespan.maintenance.repair import RepairReport


class World(WorldQueries, WorldIngestion, Extended):
    """One world of a library, with the permissions of an authority.

    Of every method, and those of its documents, readers, generations and jobs: a wrong argument
    raises InvalidArgument or QueryTooLong before anything is read; an absent object, or one that
    the caller may not see or change, raises NotFound or NotAllowed; a failed provider or index
    raises ServiceError, a damaged row DamageError. Methods document only their own arguments.
    """

    def __init__(self, access: WorldAccess) -> None:
        self.access = access

    def __repr__(self) -> str:
        return f"<World {self.access.shown_name()!r}>"

    @property
    def id(self) -> str:
        """The id, or the name by which the world was opened."""
        return self.access.world

    @property
    def name(self) -> str:
        """The name of the world."""
        return self.access.record().name

    @property
    def defaults(self) -> Defaults:
        """The defaults of requests: `recommended` or `contract`."""
        return self.access.record().defaults

    def set_defaults(
        self,
        defaults: Defaults | str | None = None,
        *,
        audience: Sequence[str] | None = None,
        audience_required: bool | None = None,
    ) -> None:
        """Choose the defaults of requests and new documents, from the next request on.

        Args:
            defaults: 'recommended' or 'contract'; None for the present ones.
            audience: Labels of new documents that declare no audience; without any label, the owner
                alone sees them. None for the present ones.
            audience_required: Whether a new document that declares no audience, and has none by a
                rule of the settings, is refused.
        """
        store, record = self._components.store, self.access.record()
        chosen = record.defaults if defaults is None else check_defaults(defaults)
        labels = choose_default_audience(audience, audience_required, record.audience)
        store.worlds.set_defaults(self.access.authority, record.id, chosen, labels)

    @property
    def documents(self) -> Documents:
        """The documents of the world: list, count, read, inspect, label and delete them."""
        from truespan.engine.documents import Documents

        return Documents(self.access)

    @property
    def evaluation(self) -> WorldEvaluation:
        """The evaluation of the world: golden queries, comparisons, calibration."""
        return member_of(self, "evaluation", "quality")()

    @property
    def jobs(self) -> WorldJobs:
        """The jobs of the world."""
        from truespan.engine.world_jobs import WorldJobs

        return WorldJobs(self.access)

    def reader(self, name: str) -> Reader:
        """Return the reader of this name; a reader without a position can read nothing.

        Args:
            name: Name of the reader, 1 to 200 characters.
        """
        from truespan.engine.reader import Reader

        return Reader(self.access, check_reader_name(name))

    def readers(self) -> list[str]:
        """Return the names of the readers who have a position in a book, in order."""
        scope = self.access.readable_scope()
        return self._components.store.readers.all(scope) if scope else []

    def observed_by(self, observer: Observer) -> World:
        """Return this world with a further observer of its requests.

        Args:
            observer: Called at each stage of a request. Results do not depend on it, and its
                exceptions are dropped.
        """
        both = combine_observers(self._components.observer, observer)
        components = replace(self._components, observer=both)
        return World(replace(self.access, components=components))

    def for_audience(self, labels: Sequence[str]) -> World:
        """Return this world as a caller with these labels sees it; it can only be read.

        Args:
            labels: Labels of the caller, such as 'group:legal'. Documents for everyone are visible
                without any.

        Returns:
            The world with the documents for everyone or for one of the labels. For a caller who has
            labels already, only common ones count.
        """
        return World(replace(self.access, authority=self.access.authority.for_audience(labels)))

    def status(self) -> WorldStatus:
        """Return the counts of documents, chunks, vectors and repairs.

        Returns:
            The counts. `missing` is the number of points that the index lacks, None if it cannot
            be counted.
        """
        scope = self.access.readable_scope()
        if scope is None:
            return WorldStatus(
                documents=0, chunks=0, embedded=0, pending=0, quarantined=0, repairs=0, vectors=0
            )
        if scope.is_limited:
            return self._limited_status(scope)
        numbers = self._components.store.worlds.status(scope)
        if not numbers.embedded:
            return numbers
        try:
            missing = max(numbers.embedded - self._components.index.count(scope), 0)
        except (ServiceError, OperatorError):
            missing = None
        return replace(numbers, missing=missing)

    def _limited_status(self, scope: Scope) -> WorldStatus:
        """Return the counts of the documents in scope, and the repairs of all documents."""
        documents = self._components.store.documents.all(scope)
        chunks, embedded = (
            sum(getattr(document, name) for document in documents)
            for name in ("chunks", "embedded")
        )
        quarantined = sum(document.quarantined + document.skipped for document in documents)
        return WorldStatus(
            documents=len(documents),
            chunks=chunks,
            embedded=embedded,
            pending=chunks - embedded - quarantined,
            quarantined=quarantined,
            repairs=0,
            vectors=embedded,
        )

    def conversation(self, id: str | None = None) -> Conversation:
        """Return a conversation about the whole world, or begin one.

        Questions of a conversation may follow up on earlier ones. Earlier turns are never
        evidence: only passages found for a question can be cited.

        Args:
            id: Id of a stored conversation; None for a new one, which is stored with its first
                turn.
        """
        from truespan.engine.conversations import Conversation

        return Conversation(self.access, self._prepare, id)

    def conversations(
        self, *, limit: int = CONVERSATION_LIMIT, offset: int = 0
    ) -> list[ConversationInfo]:
        """Return the caller's conversations about the whole world, the latest first.

        Args:
            limit: Maximum number of conversations.
            offset: Number of conversations to skip.
        """
        from truespan.engine.conversations import list_conversations

        return list_conversations(self.access, None, None, limit=limit, offset=offset)

    def delete_conversations(self, *, erase: bool = True) -> Receipt:
        """Delete every conversation of this caller in the world, also those of readers.

        Conversations can be deleted while the operator has turned them off.

        Args:
            erase: Whether to rewrite the files that contained them; see `Documents.delete`.
        """
        from truespan.engine.conversations import delete_conversations

        return delete_conversations(self.access, erase=erase)

    def repair(self, on_progress: OnProgress | None = None) -> RepairReport:
        """Apply queued repairs and embed pending chunks.

        Args:
            on_progress: Called with the progress after each step.
        """
        from truespan.engine.doctor import repair_world

        with self._components.observer.request(Request.REPAIR) as trace:
            return repair_world(self.access, on_progress, trace)

    def doctor(
        self, *, apply: bool = False, embed_sample: int = 0, self_test: bool = False
    ) -> Plan:
        """Compare store and index of the world; see `Library.doctor`.

        Args:
            apply: Whether to make the index equal to the store.
            embed_sample: Number of texts of each generation to embed again and compare.
            self_test: Whether to try the boundaries between worlds.
        """
        from truespan.engine.doctor import Doctor

        doctor = Doctor(self._components, self.access.authority)
        plan = doctor.examine([self.id], embed_sample=embed_sample, self_test=self_test)
        if apply:
            doctor.apply(plan)
        return plan

    @property
    def _components(self) -> Components:
        return self.access.components
