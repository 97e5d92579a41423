"""An answer with all that it rests on, and the events of one that comes piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.graphemes import shorten
from truespan.errors import InvalidConfiguration
from truespan.types.bundle import Notice, WhyNot
from truespan.types.chunk import ChunkKind, SourceLabels
from truespan.types.decision import (
    RECOMMENDED_COVERAGE,
    AnswerMode,
    DecisionSettings,
    RewrittenBy,
    SourcesUsed,
    UsedModel,
)
from truespan.types.ids import ChunkId
from truespan.types.profile import Calibration, Distance, EmbeddingProfile
from truespan.types.request import Defaults, Mode
from truespan.types.scope import Scope, World
from truespan.types.support import Support
from truespan.types.text import SentencePlace
from truespan.types.trust import OtherPlace, RerankScore, VerificationFailure, Visible


class Role(StrEnum):
    """Who speaks: the one who lays down the rules, or the one who asks."""

    SYSTEM = "system"
    USER = "user"


class Message(Struct, frozen=True):
    role: Role
    text: str


ANSWER_TOP_K = 25
MAX_NEAR_MISSES = 3
"""Maximum number of passages that are shown beside a refusal."""


class Fitted(Struct, frozen=True):
    """Sources as a model gets them, and what the caller should know about them."""

    sources: tuple[Visible, ...]
    warnings: tuple[Notice, ...] = ()


class Retrieved(Struct, frozen=True):
    """Visible chunks by rank, the scope they were found in, and what the caller should know.

    Without a scope there was nothing to look in. `flaws` are hits that could not be trusted.
    """

    world: World
    mode: Mode
    scope: Scope | None = None
    chunks: tuple[Visible, ...] = ()
    warnings: tuple[Notice, ...] = ()
    flaws: tuple[VerificationFailure, ...] = ()
    closest: tuple[Visible, ...] = ()
    """The best chunks below the floor, where no chunk reached it."""
    coverage: Mapping[ChunkId, float] = field(default_factory=dict)
    """How much of the query's words each chunk contains, if that was measured."""
    fit: Callable[[Sequence[Visible], int, int], Fitted] = lambda sources, _most, _characters: (
        Fitted(tuple(sources))
    )
    """Fits chosen chunks to the options of the request: at most so many, of so many characters."""


class Shortlist(Struct, frozen=True):
    """The best of what was found, at most as many as wanted.

    Chunks of excluded kinds take no place from the others: a model never sees them, and however
    many there are, the text behind them is looked at. `missing` says how many more it could take,
    `last` at which score it was full; None while it is not.
    """

    chunks: tuple[Visible, ...]
    missing: int
    last: float | None


def shortlist(ranked: Iterable[Visible], wanted: int, excluded: Collection[ChunkKind]) -> Shortlist:
    """Return the first `wanted` chunks of ranked ones, and as many excluded ones among them."""
    kept: list[Visible] = []
    counted = aside = 0
    for chunk in ranked:
        if chunk.kind in excluded:
            aside += 1
            if aside > wanted:
                continue
        else:
            counted += 1
        kept.append(chunk)
        if counted == wanted:
            return Shortlist(tuple(kept), 0, chunk.score)
    return Shortlist(tuple(kept), wanted - counted, None)


PREVIEW_CHARACTERS = 200


class Citation(Struct, frozen=True):
    """A source that the answer names by its number, and where that stands.

    All but the number is None where the answer cites a number that no source has: it is listed, so
    that a made-up citation shows as one.
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
    """The declared URL, else the path."""
    path: str | None = None
    best_sentence: SentencePlace | None = None
    """The place of the sentence of it that matches the question best; None if none does."""
    other_places: tuple[OtherPlace, ...] = ()
    """Other places of the same text."""


class Quote(Struct, frozen=True):
    """Words that the answer puts between quotation marks, and where they stand if they do."""

    text: str
    verified: bool
    chunk_id: ChunkId | None = None
    document: int | None = None
    first_sid: int | None = None
    last_sid: int | None = None
    place: SentencePlace | None = None
    """The chapter, section, page and location of these sentences."""


class RetrievedNote(SourceLabels, frozen=True):
    """A retrieved chunk: where it stands, how its text begins, and what became of it.

    `verdict` is `returned` where the chunk was chosen for the model, else why it was not. Only a
    figure has the last members; `parent_chunk_id` is the text chunk in which it stands.
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
    """The turn of a conversation that an answer became.

    `standalone` is the question that was searched for; `history` counts the earlier turns that the
    model got.
    """

    id: str
    turn: str
    rewritten_by: RewrittenBy
    standalone: str
    history: int


class Answer(Struct, frozen=True, omit_defaults=True):
    """What a question gets: words, what they rest on, and how that was decided.

    `retrieved_chunks_metadata` is sorted by similarity; `used_chunks` are those of them that the
    answer was made from. `record` is the id in the usage log; None where nothing was written there.
    Members with a default are left out of JSON where they have it.
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
    """The closest passages of a refusal. `text` begins at the sentence nearest to the question."""
    support: Support | None = None
    """How far the passages support it; None where no model wrote it."""
    conversation: ConversationNote | None = None
    """None, and not in JSON, for a question outside a conversation."""


class Started(Struct, frozen=True):
    """The first event: mode and speaker are settled and do not change any more."""

    mode: AnswerMode
    used_llm: UsedModel


class Piece(Struct, frozen=True):
    """Some more of the answer; all pieces joined are the answer."""

    text: str


class Finished(Struct, frozen=True):
    """The last event: the whole answer, checked."""

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
    """How answers are decided and what is kept of them.

    `distance` is what the operator expects of every profile, if anything. With `calibrated`, the
    thresholds measured for a profile stand in for the configured ones where there are any; None
    leaves that to the defaults of each world.
    """

    decision: DecisionSettings = field(default_factory=DecisionSettings)
    distance: Distance | None = None
    calibrated: bool | None = None
    own_thresholds: frozenset[str] = frozenset()
    """Which thresholds of short queries the operator wrote down: they count beside measured ones,
    and the stricter is in force."""
    support_floor: float | None = None
    """From which similarity on two sentences say the same; None leaves it to what was measured for
    the embedding model, without which sentences are compared by words alone."""
    log_queries: bool = False
    usage_days: int = 90
    usage_records: int = 10_000

    def uses_calibration(self, defaults: Defaults) -> bool:
        """Return whether measured thresholds count in a world with these defaults."""
        if self.calibrated is None:
            return defaults is Defaults.RECOMMENDED
        return self.calibrated

    def for_profile(
        self, profile: EmbeddingProfile, measured: Calibration | None, defaults: Defaults
    ) -> DecisionSettings:
        """Return the settings of decisions on what was found under a profile.

        `measured` is the calibration that counts for it, if there is one. Raises
        InvalidConfiguration if the distance is not the one that the operator expects.
        """
        if self.distance not in (None, profile.distance):
            raise InvalidConfiguration(
                f"answer_retrieval_distance is {self.distance.value!r}, but vectors of {profile} "
                f"are compared by {profile.distance.value!r}.",
                advice="Set it to the distance of the embedding profile, or leave it empty.",
            )
        calibrated = measured is not None and self.uses_calibration(defaults)
        thresholds = measured.thresholds() if measured and calibrated else {}
        if thresholds and defaults is Defaults.RECOMMENDED:
            thresholds["min_coverage"] = RECOMMENDED_COVERAGE
        for name in self.own_thresholds.intersection(thresholds):
            thresholds[name] = max(thresholds[name], getattr(self.decision, name))
        return replace(self.decision, distance=profile.distance, **thresholds)


class Usage(Struct, frozen=True):
    """One answered request, before it has an id.

    `evidence` is what the decision was made from, `decision_explain` what came of it. The query in
    both is a keyed hash, unless the operator wants it otherwise.
    """

    mode: AnswerMode
    milliseconds: int
    primary_model: str | None
    fallback_model: str | None
    evidence: dict[str, Any]
    decision_explain: dict[str, Any]


class UsageRecord(Struct, frozen=True):
    """An answered request as the log keeps it; the members of `Usage` with an id and a time."""

    id: str
    created_at: float
    mode: AnswerMode
    milliseconds: int
    primary_model: str | None
    fallback_model: str | None
    evidence: dict[str, Any]
    decision_explain: dict[str, Any]
