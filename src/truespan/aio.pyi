"""Types of `truespan.aio`; written by `make reference`."""

import builtins
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePath
from typing import Any, Unpack

from truespan.engine.ingestion import OnProgress, OnPrune
from truespan.engine.world_jobs import JobRequest
from truespan.extensions.crawl.freshness import DocumentFreshness
from truespan.extensions.crawl.watching import OnError, Watch
from truespan.extensions.proof.types import PublicKeys, SignedReceipt
from truespan.extensions.quality.build import ReindexReport
from truespan.extensions.quality.calibrate import CalibrationReport
from truespan.extensions.quality.evaluate import Evaluation
from truespan.extensions.quality.generations import Promotion
from truespan.extensions.quality.golden import GoldenQuery
from truespan.extensions.quality.report import EvaluationReport
from truespan.extensions.quality.world import EvaluationProgress, Golden
from truespan.extensions.server.chat_servers import LocalChatServers
from truespan.ingest.plan import DryRun
from truespan.ingest.report import IngestReport
from truespan.maintenance.delete import ErasureReport, Receipt
from truespan.maintenance.doctor.plan import Plan, RepairResult
from truespan.maintenance.repair import RepairReport
from truespan.observer import Observer
from truespan.protocols import ChatModels, Embedder, Reranker, TokenCounter
from truespan.types.answer import Answer, AnswerEvent, UsageRecord
from truespan.types.audience import Audience, DocumentAccess
from truespan.types.bundle import ContextBundle, Reason, SearchResult
from truespan.types.chunk import ChunkRecord
from truespan.types.conversation import ConversationInfo, Turn
from truespan.types.document import (
    AuditEntry,
    Document,
    DocumentPage,
    DocumentSort,
    DocumentStatus,
    DomainRecord,
    Facets,
    GenerationRecord,
    OutlineEntry,
    WorldStatus,
)
from truespan.types.job import Job, JobDocument, JobLine, Paths, Sources
from truespan.types.maintenance import BackupReport
from truespan.types.note import FoundNote, Note
from truespan.types.picture import PagePicture
from truespan.types.profile import Calibration
from truespan.types.reading import ChunkPage, ReadingPosition, SentencePage, StoredImage
from truespan.types.request import (
    Defaults,
    FilterArguments,
    Mode,
    QueryArguments,
    RankPart,
    ReaderArguments,
)
from truespan.types.scope import Authority, Unlimited
from truespan.types.scope import World as WorldRecord
from truespan.types.source import IngestArguments, LabelArguments, TextArguments
from truespan.types.token import TokenRecord, TokenSecret, TokenState

class AsyncLibrary:
    async def under(self, authority: Authority) -> AsyncLibrary: ...
    async def create_world(
        self,
        name: str,
        *,
        defaults: Defaults | str | None = ...,
        model: str | None = ...,
        audience: Sequence[str] | None = ...,
        audience_required: bool | None = ...,
    ) -> AsyncWorld: ...
    async def world(
        self,
        reference: str | None = ...,
        *,
        generation: int | None = ...,
        create: bool | None = ...,
        defaults: Defaults | str | None = ...,
        model: str | None = ...,
        audience: Sequence[str] | None = ...,
    ) -> AsyncWorld: ...
    async def domain(self, key: str, *, world: str | None = ...) -> AsyncWorld: ...
    async def domains(self) -> list[DomainRecord]: ...
    async def worlds(self) -> list[WorldRecord]: ...
    async def delete_world(self, reference: str, *, erase: bool = ...) -> Receipt: ...
    @property
    def tokens(self) -> AsyncAccessTokens: ...
    @property
    def keys(self) -> AsyncLibraryKeys: ...
    async def authenticate(
        self, secret: str, *, audience: str | Iterable[str] | None = ...
    ) -> Authority: ...
    async def backup(
        self,
        path: str | PurePath,
        *,
        vectors: bool = ...,
        settings: bool = ...,
        keys: bool = ...,
        replace: bool = ...,
    ) -> BackupReport: ...
    @property
    def models(self) -> AsyncLibraryModels: ...
    @property
    def maintenance(self) -> AsyncLibraryMaintenance: ...
    @property
    def has_workers(self) -> bool: ...
    async def work(
        self, *, concurrency: int = ..., once: bool = ..., stopping: Callable[[], bool] = ...
    ) -> int: ...
    async def doctor(
        self,
        worlds: str | Iterable[str] | None = ...,
        *,
        apply: bool = ...,
        embed_sample: int | None = ...,
        self_test: bool = ...,
        machine: bool = ...,
        on_progress: OnProgress | None = ...,
    ) -> Plan: ...
    async def close(self) -> None: ...

class AsyncWorld:
    @property
    def generations(self) -> AsyncGenerations: ...
    async def ingest(
        self,
        paths: Sources = ...,
        *,
        manifest: str | PurePath | None = ...,
        sitemap: str | None = ...,
        domain_key: str | None = ...,
        update_alias: bool = ...,
        golden: str | None = ...,
        jobs: int | None = ...,
        on_progress: OnProgress | None = ...,
        on_prune: OnPrune | None = ...,
        **options: Unpack[IngestArguments],
    ) -> IngestReport: ...
    async def add_texts(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = ...,
        metadata: Sequence[Mapping[str, Any]] | None = ...,
        **options: Unpack[TextArguments],
    ) -> IngestReport: ...
    async def add_text(
        self,
        text: str,
        *,
        id: str | None = ...,
        metadata: Mapping[str, Any] | None = ...,
        title: str | None = ...,
        source_url: str | None = ...,
        **options: Unpack[TextArguments],
    ) -> IngestReport: ...
    async def search(
        self,
        query: str,
        *,
        top_k: int = ...,
        floor: float | None = ...,
        highlight: bool = ...,
        **arguments: Unpack[QueryArguments],
    ) -> SearchResult: ...
    async def retrieve(
        self,
        query: str | None = ...,
        *,
        selected_text: str | None = ...,
        top_k: int = ...,
        near_misses: bool = ...,
        highlight: bool = ...,
        **arguments: Unpack[QueryArguments],
    ) -> ContextBundle: ...
    async def sign(self, result: SearchResult | ContextBundle | Answer) -> SignedReceipt: ...
    async def why_not(
        self,
        chunk_id: str,
        query: str | None = ...,
        *,
        selected_text: str | None = ...,
        top_k: int = ...,
        audience: Sequence[str] | None = ...,
        **arguments: Unpack[QueryArguments],
    ) -> Reason: ...
    async def answer(self, query: str, **arguments: Unpack[QueryArguments]) -> Answer: ...
    def answer_stream(
        self,
        query: str,
        *,
        history: Sequence[tuple[str, str]] = ...,
        **arguments: Unpack[QueryArguments],
    ) -> AsyncIterator[AnswerEvent]: ...
    async def usage(self, *, limit: int = ...) -> list[UsageRecord]: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def defaults(self) -> Defaults: ...
    async def set_defaults(
        self,
        defaults: Defaults | str | None = ...,
        *,
        audience: Sequence[str] | None = ...,
        audience_required: bool | None = ...,
    ) -> None: ...
    @property
    def documents(self) -> AsyncDocuments: ...
    @property
    def evaluation(self) -> AsyncWorldEvaluation: ...
    @property
    def jobs(self) -> AsyncWorldJobs: ...
    async def reader(self, name: str) -> AsyncReader: ...
    async def readers(self) -> list[str]: ...
    async def observed_by(self, observer: Observer) -> AsyncWorld: ...
    async def for_audience(self, labels: Sequence[str]) -> AsyncWorld: ...
    async def status(self) -> WorldStatus: ...
    async def conversation(self, id: str | None = ...) -> AsyncConversation: ...
    async def conversations(
        self, *, limit: int = ..., offset: int = ...
    ) -> list[ConversationInfo]: ...
    async def delete_conversations(self, *, erase: bool = ...) -> Receipt: ...
    async def repair(self, on_progress: OnProgress | None = ...) -> RepairReport: ...
    async def doctor(
        self, *, apply: bool = ..., embed_sample: int = ..., self_test: bool = ...
    ) -> Plan: ...

class AsyncReader:
    @property
    def name(self) -> str: ...
    async def set_position(
        self,
        book: str,
        *,
        sentence: int | None = ...,
        through_chapter: str | None = ...,
        passage: str | None = ...,
        current: bool = ...,
    ) -> ReadingPosition: ...
    async def at_position(self, book: str | None, sentence: int) -> AsyncReader: ...
    async def position(self, book: str | None = ...) -> ReadingPosition: ...
    async def books(self) -> list[ReadingPosition]: ...
    async def sentences(
        self, book: str | None = ..., *, offset: int = ..., limit: int = ...
    ) -> SentencePage: ...
    async def image(self, image_ref: str) -> StoredImage: ...
    async def picture(self, page: int = ..., *, book: str | None = ...) -> PagePicture: ...
    async def retrieve(
        self,
        query: str,
        *,
        book: str | None = ...,
        top_k: int = ...,
        highlight: bool = ...,
        notes: bool = ...,
        closeness: bool = ...,
        **options: Unpack[ReaderArguments],
    ) -> ContextBundle: ...
    async def sign(self, result: ContextBundle | Answer) -> SignedReceipt: ...
    async def answer(
        self, query: str, book: str | None = ..., **options: Unpack[ReaderArguments]
    ) -> Answer: ...
    def answer_stream(
        self,
        query: str,
        book: str | None = ...,
        *,
        history: Sequence[tuple[str, str]] = ...,
        **options: Unpack[ReaderArguments],
    ) -> AsyncIterator[AnswerEvent]: ...
    async def conversation(
        self, id: str | None = ..., *, book: str | None = ...
    ) -> AsyncConversation: ...
    async def conversations(
        self, *, book: str | None = ..., limit: int = ..., offset: int = ...
    ) -> list[ConversationInfo]: ...
    async def delete_conversations(self, *, erase: bool = ...) -> Receipt: ...
    @property
    def notes(self) -> AsyncReaderNotes: ...
    async def why_not(
        self,
        chunk_id: str,
        query: str,
        *,
        book: str | None = ...,
        top_k: int = ...,
        **options: Unpack[ReaderArguments],
    ) -> Reason: ...

class AsyncConversation:
    async def ask(self, query: str, **options: Unpack[QueryArguments]) -> Answer: ...
    def ask_stream(
        self, query: str, **options: Unpack[QueryArguments]
    ) -> AsyncIterator[AnswerEvent]: ...
    async def turns(self) -> list[Turn]: ...
    async def info(self) -> ConversationInfo: ...
    async def export(self) -> dict[str, Any]: ...
    async def to_markdown(self) -> str: ...
    async def delete(self, *, erase: bool = ...) -> Receipt: ...

class AsyncDocuments:
    async def list(self) -> list[Document]: ...
    async def find(
        self,
        search: str | None = ...,
        *,
        status: DocumentStatus | str | None = ...,
        sort: DocumentSort | str = ...,
        descending: bool = ...,
        offset: int = ...,
        limit: int | None = ...,
        **filters: Unpack[FilterArguments],
    ) -> DocumentPage: ...
    async def facets(
        self,
        keys: Sequence[str] | None = ...,
        *,
        limit: int = ...,
        **filters: Unpack[FilterArguments],
    ) -> Facets: ...
    @property
    def default_audience(self) -> Audience | None: ...
    async def freshness(self, *, seconds: int = ...) -> list[DocumentFreshness]: ...
    async def get(self, reference: str | int) -> Document: ...
    async def text(self, reference: str | int) -> str: ...
    async def sentences(
        self, reference: str | int, *, offset: int = ..., limit: int = ...
    ) -> SentencePage: ...
    async def chunks(
        self, reference: str | int, *, offset: int = ..., limit: int | None = ...
    ) -> ChunkPage: ...
    async def image(self, image_ref: str) -> StoredImage: ...
    async def picture(
        self, reference: str | int, page: int = ..., *, sentence: int | None = ...
    ) -> PagePicture: ...
    async def outline(self, reference: str | int) -> builtins.list[OutlineEntry]: ...
    async def chunk(self, chunk_id: str) -> ChunkRecord: ...
    async def metadata(self, reference: str | int) -> dict[str, Any]: ...
    async def audit(self, reference: str | int) -> builtins.list[AuditEntry]: ...
    async def update(self, reference: str | int, **changes: Unpack[LabelArguments]) -> Document: ...
    async def audit_access(self, labels: Sequence[str]) -> builtins.list[DocumentAccess]: ...
    async def reingest(self, reference: str | int) -> Job: ...
    async def plan(
        self,
        paths: Paths = ...,
        *,
        manifest: str | PurePath | None = ...,
        sitemap: str | None = ...,
        **options: Unpack[IngestArguments],
    ) -> DryRun: ...
    async def watch(
        self,
        folders: Paths,
        *,
        settle_seconds: float = ...,
        on_error: OnError | None = ...,
        on_progress: OnProgress | None = ...,
        on_prune: OnPrune | None = ...,
        **options: Unpack[IngestArguments],
    ) -> Watch: ...
    async def delete(self, reference: str | int, *, erase: bool = ...) -> Receipt: ...

class AsyncWorldEvaluation:
    async def run(
        self,
        golden: Golden,
        *,
        generation: int | None = ...,
        domain: str | None = ...,
        name: str | None = ...,
        mode: Mode | str | None = ...,
        rerank: bool | None = ...,
        reader: str | None = ...,
        without: Sequence[RankPart | str] = ...,
    ) -> Evaluation: ...
    def report_stream(
        self,
        golden: Golden,
        *,
        modes: Sequence[Mode | str] = ...,
        generation: int | None = ...,
        against: int | None = ...,
        allowed_drop: float = ...,
        rerank: bool | None = ...,
        reader: str | None = ...,
        without: Sequence[RankPart | str] = ...,
    ) -> AsyncIterator[EvaluationProgress | EvaluationReport]: ...
    async def calibrate(
        self, golden: Golden, *, generation: int | None = ..., keep: bool = ...
    ) -> CalibrationReport: ...
    async def calibration(self) -> Calibration | None: ...
    async def forget_calibration(self) -> bool: ...
    async def queries(self, golden: Golden) -> tuple[GoldenQuery, ...]: ...

class AsyncGenerations:
    async def list(self) -> list[GenerationRecord]: ...
    async def get(self, number: int) -> GenerationRecord: ...
    async def reindex(
        self,
        *,
        model: str | None = ...,
        chunking: str | None = ...,
        generation: int | None = ...,
        on_progress: OnProgress | None = ...,
    ) -> ReindexReport: ...
    async def resume(self, job: str, on_progress: OnProgress | None = ...) -> ReindexReport: ...
    async def promote(
        self,
        generation: int,
        *,
        domain: str | None = ...,
        golden: str | None = ...,
        allowed_drop: float = ...,
        min_hit_rate: float = ...,
    ) -> Promotion: ...
    async def rotate_after(
        self,
        ingest: Callable[[], IngestReport],
        *,
        domain: str | None = ...,
        golden: str | None = ...,
        on_progress: OnProgress | None = ...,
    ) -> IngestReport: ...
    async def rollback(self, *, domain: str | None = ...) -> Promotion: ...
    async def forget(self, domain: str) -> None: ...
    async def remove(self, generation: int) -> None: ...

class AsyncWorldJobs:
    async def list(self) -> list[Job]: ...
    async def get(self, job: str) -> Job: ...
    async def has_workers(self) -> bool: ...
    async def documents(self, job: str) -> builtins.list[JobDocument]: ...
    async def lines(self, job: str) -> builtins.list[JobLine]: ...
    async def cancel(self, job: str) -> Job: ...
    async def is_resumable(self, job: Job) -> bool: ...
    async def submit(self, request: JobRequest | Job) -> Job: ...
    async def resume(
        self, job: str, *, on_progress: OnProgress | None = ..., on_prune: OnPrune | None = ...
    ) -> IngestReport: ...

class AsyncReaderNotes:
    async def add(
        self, text: str, *, book: str | None = ..., first: int | None = ..., last: int | None = ...
    ) -> Note: ...
    async def list(
        self,
        *,
        book: str | None = ...,
        search: str | None = ...,
        offset: int = ...,
        limit: int = ...,
    ) -> builtins.list[Note]: ...
    async def find_by_query(
        self, query: str, book: str | None, *, room: int, count: Callable[[str], int]
    ) -> tuple[tuple[FoundNote, ...], int]: ...
    async def delete(self, id: str) -> None: ...
    async def delete_all(self) -> int: ...
    async def to_markdown(self, *, book: str | None = ...) -> str: ...

class AsyncLibraryMaintenance:
    async def erase(self) -> ErasureReport: ...
    async def claim_index(self) -> list[str]: ...
    async def apply_plan(
        self, plan: Plan, *, on_progress: OnProgress | None = ...
    ) -> RepairResult: ...

class AsyncLibraryModels:
    @property
    def reranker(self) -> str | None: ...
    @property
    def chat(self) -> str | None: ...
    @property
    def servers(self) -> LocalChatServers: ...

class AsyncAccessTokens:
    async def create(
        self,
        name: str,
        *,
        worlds: str | Iterable[str] | Unlimited | None = ...,
        verbs: str | Iterable[str] | None = ...,
        readers: str | Iterable[str] | Unlimited = ...,
        audience: str | Iterable[str] | Unlimited = ...,
        impersonate: bool = ...,
        expires_in: float | None = ...,
    ) -> tuple[TokenRecord, TokenSecret]: ...
    async def list(self) -> builtins.list[TokenRecord]: ...
    async def revoke(self, token: str) -> TokenRecord: ...
    async def state(self, record: TokenRecord) -> TokenState: ...

class AsyncLibraryKeys:
    async def list(self) -> PublicKeys: ...
    async def create(self) -> PublicKeys: ...
    async def rotate(self) -> PublicKeys: ...

def open(
    path: str | Path,
    *,
    create: bool = ...,
    embedder: Embedder | None = ...,
    counter: TokenCounter | None = ...,
    chat: ChatModels | None = ...,
    others: Mapping[str, Embedder] | None = ...,
    reranker: Reranker | None = ...,
    authority: Authority | None = ...,
    observer: Observer | None = ...,
    metrics: bool | None = ...,
    logs: bool = ...,
) -> AbstractAsyncContextManager[AsyncLibrary]: ...
def open_temporary(
    settings_folder: str | Path = ...,
) -> AbstractAsyncContextManager[AsyncLibrary]: ...
