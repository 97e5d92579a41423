"""Answers: their sources, the events of a streamed answer, the usage log, and chat models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.graphemes import shorten
from truespan.errors import InvalidConfiguration
from truespan.types.bundle import Notice, WhyNot
from truespan.types.chunk import ChunkKind, SourceLabels
from truespan.types.decision import (
    AnswerMode,
    Coverage,
    DecisionSettings,
    RewrittenBy,
    SourcesUsed,
    UsedModel,
    evidence_rules,
)
from truespan.types.ids import ChunkId
from truespan.types.origin import Result
from truespan.types.profile import (
    Calibration,
    Distance,
    EmbeddingProfile,
    is_multilingual,
    weighs_late,
)
from truespan.types.request import Defaults, Mode
from truespan.types.scope import Scope, World
from truespan.types.text import SentencePlace
from truespan.types.trust import OtherPlace, RerankScore, Visible


class Role(StrEnum):
    """Role of a chat message."""

    SYSTEM = "system"
    USER = "user"


class Message(Struct, frozen=True):
    role: Role
    text: str


ANSWER_TOP_K = 25
MAX_NEAR_MISSES = 3
"""Maximum number of passages shown with a refusal."""


class Fitted(Struct, frozen=True):
    """Sources as passed to the model, and warnings for the caller."""

    sources: tuple[Visible, ...]
    warnings: tuple[Notice, ...] = ()


Fit: TypeAlias = Callable[[Sequence[Visible], int, int, bool], Fitted]
"""Applies the options of a request to chosen chunks, up to a number of chunks and of characters.
The last argument says whether they are quoted as the answer."""


class Measured(Struct, frozen=True):
    """Measurements for a decision by evidence; empty if thresholds decide."""

    cover: Callable[[Sequence[str]], Sequence[Coverage]] | None = None
    """Returns the share of the query's words in each text; None if it is not known."""
    foreign: frozenset[ChunkId] = frozenset()
    """Chunks in languages that the embedding model was not trained for."""
    by_words: frozenset[ChunkId] = frozenset()
    """Chunks in the language of the query, if words say more than similarities in it."""
    crossed: frozenset[ChunkId] = frozenset()
    """Chunks in other languages than the query, if the model knows both."""
    sentences: Mapping[ChunkId, float] = field(default_factory=dict)
    """Similarity of the most similar sentence of the first chunks in other languages."""
    late: Mapping[ChunkId, float] = field(default_factory=dict)
    """Late interaction of the chunks, less the usual in their language."""
    has_names: Mapping[ChunkId, bool] = field(default_factory=dict)
    """Whether the chunks have every name of the query; empty for a query without names."""
    background: float | None = None
    """Similarity of the query to texts that do not answer it."""
    cohort: str | None = None
    """Digest of the cohort."""
    find_missing_words: Callable[[], tuple[str, ...]] = tuple
    """Returns the rarest words of the query that no chunk contains."""


class Retrieved(Struct, frozen=True):
    """Visible chunks by rank, their scope, and warnings for the caller.

    `scope` is None if the world has no searchable documents.
    """

    world: World
    mode: Mode
    scope: Scope | None = None
    chunks: tuple[Visible, ...] = ()
    warnings: tuple[Notice, ...] = ()
    closest: tuple[Visible, ...] = ()
    """The best chunks below the floor, if no chunk reached it."""
    measured: Measured = field(default_factory=Measured)
    fit: Fit = lambda sources, _most, _characters, _quoted: Fitted(tuple(sources))


class Shortlist(Struct, frozen=True):
    """The best chunks of a ranking.

    Chunks of excluded kinds, which a model never sees, do not count against the limit. `missing` is
    the number of chunks that still fit. `last` is the score of the last chunk; None while some fit.
    """

    chunks: tuple[Visible, ...]
    missing: int
    last: float | None


def shortlist(ranked: Iterable[Visible], wanted: int, excluded: Collection[ChunkKind]) -> Shortlist:
    """Return the first `wanted` chunks, and at most as many excluded chunks among them."""
    kept: list[Visible] = []
    counted = skipped = 0
    for chunk in ranked:
        if chunk.kind in excluded:
            skipped += 1
            if skipped > wanted:
                continue
        else:
            counted += 1
        kept.append(chunk)
        if counted == wanted:
            return Shortlist(tuple(kept), 0, chunk.score)
    return Shortlist(tuple(kept), wanted - counted, None)


PREVIEW_CHARACTERS = 200


class Citation(Struct, frozen=True):
    """A source that the answer cites by number, and its place.

    All fields but the number are None if the answer cites a number that no source has. Such a
    made-up citation is listed so that it is visible.
    """

    number: int
    document: int | None = None
    source: str | None = None
    title: str | None = None
    chapter: str | None = None
    section: str | None = None
    page: int | None = None
    location: str | None = None
    first_sid: int | None = None
    last_sid: int | None = None
    chunk_id: ChunkId | None = None
    source_url: str | None = None
    """Declared URL, else the path."""
    path: str | None = None
    best_sentence: SentencePlace | None = None
    """Place of the sentence that matches the question best; None if none matches."""
    other_places: tuple[OtherPlace, ...] = ()
    """Other places of the same text."""


class QuoteVerdict(StrEnum):
    """Result of looking up a quote in the sources."""

    VERBATIM = "verbatim"
    """The words are in a source: in the cited one, if a citation follows the quote."""
    MISATTRIBUTED = "misattributed"
    """The words are in another source than the cited one."""
    CHANGED = "changed"
    """A source has almost these words; `difference` shows where they differ."""
    STITCHED = "stitched"
    """The quote joins words from several places, which `parts` lists."""
    NOT_FOUND = "not_found"


class QuotePart(Struct, frozen=True):
    """A part of a stitched quote and its place."""

    text: str
    chunk_id: ChunkId
    document: int
    first_sid: int
    last_sid: int
    place: SentencePlace | None = None


class Difference(Struct, frozen=True):
    """Words that a quote and its source share, or that only one of them has."""

    only_in: Literal["", "quote", "source"]
    text: str


class Quote(Struct, frozen=True):
    """Words in quotation marks in the answer, and their place if they occur in a source."""

    text: str
    verified: bool
    """Whether the words are in a source."""
    chunk_id: ChunkId | None = None
    document: int | None = None
    first_sid: int | None = None
    last_sid: int | None = None
    place: SentencePlace | None = None
    """Chapter, section, page and location of the quoted sentences."""
    verdict: QuoteVerdict = QuoteVerdict.NOT_FOUND
    difference: tuple[Difference, ...] = ()
    """Differences of a changed quote from the words of its source."""
    parts: tuple[QuotePart, ...] = ()
    """Parts of a stitched quote, in the order of the quote."""


class SupportReason(StrEnum):
    """Reason why a sentence of an answer is not supported."""

    NUMBER_NOT_FOUND = "number_not_found"
    NAME_NOT_FOUND = "name_not_found"
    WORDS_NOT_FOUND = "words_not_found"
    NEGATION_DIFFERS = "negation_differs"
    NOT_SIMILAR = "not_similar"
    CITES_NOTHING = "cites_nothing"


class SentenceSupport(Struct, frozen=True):
    """A sentence of an answer that makes a claim, and whether the passages support it.

    `start` and `end` are offsets in the answer, in code points. `missing` are its numbers, names
    and words that were not found.
    """

    start: int
    end: int
    supported: bool
    reasons: tuple[SupportReason, ...]
    source: int | None
    """Number of the best matching passage; None if no passage matches."""
    missing: tuple[str, ...]
    place: SentencePlace | None = None
    """Place of the sentence in that passage that shares most words; None if none shares any."""


class Support(Struct, frozen=True):
    """Support of an answer: a score for all of it, and each sentence.

    Sentences that make no claim, such as questions and headings, are not listed.
    """

    score: float | None
    """Share of the sentences that are supported; None if no sentence makes a claim."""
    claims: int
    supported: int
    sentences: tuple[SentenceSupport, ...]


class RetrievedNote(SourceLabels, frozen=True):
    """A retrieved chunk: its place, the beginning of its text, and whether the model got it.

    `verdict` is `returned` if the chunk was chosen for the model, else the reason why it was not.
    The fields from `figure_id` on are set for figures; `parent_chunk_id` is the text chunk around
    it.
    """

    chunk_id: ChunkId
    similarity: float
    document: int
    source: str
    chapter: str
    section: str
    page: int | None
    chunk_type: ChunkKind
    text: str
    verdict: WhyNot
    rerank: RerankScore | None = None
    location: str | None = None
    figure_id: str | None = None
    image_ref: str | None = None
    parent_chunk_id: ChunkId | None = None
    parent_chunk_local_index: int | None = None
    other_places: tuple[OtherPlace, ...] = ()


class ConversationNote(Struct, frozen=True):
    """The conversation turn of an answer.

    `standalone` is the question that was searched for; `history` is the number of earlier turns in
    the prompt.
    """

    id: str
    turn: str
    rewritten_by: RewrittenBy
    standalone: str
    history: int


class Answer(Result, frozen=True, omit_defaults=True):
    """An answer: text, citations and the decision behind it.

    `retrieved_chunks_metadata` is sorted by similarity; `used_chunks` are the retrieved chunks that
    the answer was made from. `record` is the id in the usage log; None if nothing was logged.
    Fields with a default value are omitted from JSON.
    """

    answer: str
    mode: AnswerMode
    citations: tuple[Citation, ...]
    quotes: tuple[Quote, ...]
    retrieved_chunks_metadata: tuple[RetrievedNote, ...]
    used_chunks: tuple[ChunkId, ...]
    sources_used: SourcesUsed
    decision_explain: dict[str, Any]
    warnings: tuple[Notice, ...]
    record: str | None
    processing_time_ms: int
    near_misses: tuple[RetrievedNote, ...] = ()
    """Closest passages of a refusal. `text` begins at the sentence nearest to the question."""
    support: Support | None = None
    """Support of the answer by the passages; None if no model wrote it."""
    conversation: ConversationNote | None = None
    """Turn of a conversation; None, and absent from JSON, outside a conversation."""


class Started(Struct, frozen=True):
    """First event of a streamed answer: its final mode and model."""

    mode: AnswerMode
    used_llm: UsedModel


class Piece(Struct, frozen=True):
    """Event with the next part of the text. All parts joined are the answer."""

    text: str


class Finished(Struct, frozen=True):
    """Last event of a streamed answer: the complete answer with all checks."""

    answer: Answer


AnswerEvent: TypeAlias = Started | Piece | Finished


def preview(text: str, end: str = "") -> str:
    """Return the first 200 characters of a text on one line, cut after a word.

    A text that is cut gets `end`, which counts as part of the 200 characters.
    """
    line = " ".join(text.split())
    if len(line) <= PREVIEW_CHARACTERS:
        return line
    kept = shorten(line, PREVIEW_CHARACTERS - len(end))
    whole_word = line[len(kept)] == " "
    return (kept if whole_word or " " not in kept else kept[: kept.rindex(" ")]) + end


class AnswerRules(Struct, frozen=True):
    """Settings of answers and of the usage log.

    `distance` is the distance that every embedding profile must have; None allows any. `calibrated`
    selects the thresholds measured for a profile over the configured ones; None leaves it to the
    defaults of each world.
    """

    decision: DecisionSettings = field(default_factory=DecisionSettings)
    distance: Distance | None = None
    calibrated: bool | None = None
    own_thresholds: frozenset[str] = frozenset()
    """Configured thresholds of short queries. The stricter of these and the measured ones
    applies."""
    min_evidence: float | None = None
    """Minimum evidence of an answer. None derives it from the calibration of the model."""
    support_floor: float | None = None
    """Minimum similarity of two sentences that say the same. None uses the value measured for the
    embedding model; without one, sentences are compared by words alone."""
    log_queries: bool = False
    usage_days: int = 90
    usage_records: int = 10_000

    def uses_calibration(self, defaults: Defaults) -> bool:
        """Return whether measured thresholds apply in a world with these defaults."""
        if self.calibrated is None:
            return not defaults.values.plain
        return self.calibrated

    def for_profile(
        self, profile: EmbeddingProfile, measured: Calibration | None, defaults: Defaults
    ) -> DecisionSettings:
        """Return the decision settings for an embedding profile and its calibration, if any.

        Where the world weighs evidence, a calibration gives its rules instead of thresholds.
        """
        if self.distance not in (None, profile.distance):
            raise InvalidConfiguration(
                f"answer_retrieval_distance is {self.distance.value!r}, but vectors of {profile} "
                f"are compared by {profile.distance.value!r}.",
                advice="Set it to the distance of the embedding profile, or leave it empty.",
            )
        calibrated = measured is not None and self.uses_calibration(defaults)
        if measured and calibrated and not defaults.values.plain:
            evidence = evidence_rules(
                measured,
                self.min_evidence,
                weighs_late=weighs_late(profile),
                multilingual=is_multilingual(profile),
            )
            return replace(self.decision, distance=profile.distance, evidence=evidence)
        thresholds = measured.thresholds() if measured and calibrated else {}
        for name in self.own_thresholds.intersection(thresholds):
            thresholds[name] = max(thresholds[name], getattr(self.decision, name))
        return replace(self.decision, distance=profile.distance, **thresholds)


class Usage(Struct, frozen=True):
    """An answered request before it is logged.

    `evidence` is the input of the decision, `decision_explain` its result. Both contain the query
    as a keyed hash unless `log_queries` is set.
    """

    mode: AnswerMode
    milliseconds: int
    primary_model: str | None
    fallback_model: str | None
    evidence: dict[str, Any]
    decision_explain: dict[str, Any]


class UsageRecord(Usage, frozen=True, kw_only=True):
    """An answered request in the usage log."""

    id: str
    created_at: float
