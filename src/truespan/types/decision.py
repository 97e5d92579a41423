"""The decision of an answer: settings, evidence and result.

These records contain no document text. A candidate has the similarity and the length of a
verified, visible chunk; the query is a number of words and, for the log, an opaque string.
"""

from __future__ import annotations

import math
from collections import Counter
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, to_builtins

from truespan.errors import InvalidArgument, InvalidConfiguration
from truespan.types.bundle import WhyNot
from truespan.types.chunk import ChunkKind
from truespan.types.ids import ChunkId
from truespan.types.profile import Calibration, Distance, normalised, raw_score, reaches, shortest
from truespan.types.request import Defaults, Mode, check_share

Choice = TypeVar("Choice", bound=StrEnum)


class ScoreMode(StrEnum):
    """Scale of the thresholds: normalized similarities, or raw scores of the distance."""

    NORMALIZED = "normalized"
    RAW = "raw"


class EvidenceRules(Struct, frozen=True):
    """Rules of a decision by evidence: one number instead of thresholds and gates.

        evidence = similarity + word_weight * (coverage + window coverage) - background / 2
                   + late_weight * late interaction above the usual
                   + name_weight if the passage has every name of the query, - name_weight if not
                   + further_word_weight * coverages above the usual, in languages where words
                     say more than similarities

    The best evidence of a passage decides. All numbers are on the scale of the embedding model.
    """

    threshold: float
    """Minimum evidence of an answer."""
    floor: float
    """Minimum similarity of a passage that counts."""
    word_weight: float
    """Weight of each of the two coverages."""
    foreign_loss: float = 0.0
    """Evidence that a passage loses in a language that the model was not trained for."""
    foreign_weight: float = 1.0
    """Share of the similarity that counts in such a language, as far as it is not usual there."""
    foreign_usual: float = 0.0
    """Usual similarity in such a language, less half of the background."""
    crossed_words: float = 0.0
    """Minimum evidence from words of a passage in another language than the query. Even a passage
    that answers the query has few of its words."""
    sentence_share: float = 0.0
    """Share of the most similar sentence in the similarity of a passage in another language than
    the query. A passage about many subjects is not similar to a question about one of them."""
    late_weight: float = 0.0
    """Weight of late interaction, as far as it is above or below the usual in its language."""
    name_weight: float = 0.0
    """Evidence that a passage gains if it has every name of the query, or loses if not."""
    usual_floor: float = 0.0
    """Minimum similarity of a passage where a single word is evidence, and of a source for a model
    whose own evidence is not enough."""
    further_word_weight: float = 0.0
    """Further weight of each coverage, as far as it is above or below the usual, in a language in
    which words say more than similarities."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_share(name, getattr(self, name))


def evidence_rules(
    calibration: Calibration,
    threshold: float | None = None,
    *,
    weighs_late: bool = False,
    multilingual: bool = False,
) -> EvidenceRules:
    """Return the rules for a model from its calibration; `threshold` replaces the derived one.

    With `weighs_late`, late interaction is evidence too. Under a `multilingual` model passages need
    less similarity, and in a language that it was not trained for similarity counts less.

    The constants were chosen for the bundled model. The constants of other models are derived: the
    same distance from the similarity of unrelated texts, in units of the distance to the high
    threshold.
    """
    unrelated = calibration.unrelated_high
    distance = max(calibration.threshold_high - unrelated, MIN_DISTANCE)
    derived = BACKGROUND_WEIGHT * unrelated + THRESHOLD_DISTANCE * distance
    return EvidenceRules(
        threshold=round(min(derived, 1.0), 3) if threshold is None else threshold,
        floor=round(max(unrelated - FLOOR_DISTANCE * distance, 0.0), 3),
        usual_floor=round(max(unrelated - USUAL_FLOOR_DISTANCE * distance, 0.0), 3)
        if multilingual
        else calibration.calibrated_floor,
        word_weight=round(min(WORD_DISTANCE * distance, 1.0), 3),
        further_word_weight=round(min(FURTHER_WORD_DISTANCE * distance, 1.0), 3)
        if multilingual
        else 0.0,
        foreign_loss=round(FOREIGN_DISTANCE * distance, 3),
        foreign_weight=FOREIGN_WEIGHT if multilingual else 1.0,
        foreign_usual=round(BACKGROUND_WEIGHT * unrelated + FOREIGN_USUAL_DISTANCE * distance, 3)
        if multilingual
        else 0.0,
        crossed_words=round(min(CROSSED_DISTANCE * distance, 1.0), 3),
        sentence_share=SENTENCE_SHARE if multilingual else 0.0,
        late_weight=round(min(LATE_DISTANCE * distance, 1.0), 3) if weighs_late else 0.0,
        name_weight=round(min(NAME_DISTANCE * distance, 1.0), 3),
    )


BACKGROUND_WEIGHT = 0.5
THRESHOLD_DISTANCE = 1.428
"""Evidence that an answer needs, less its share of the unrelated similarity. With the bundled
model, whose distance is 0.1609, the threshold is 0.46."""
WORD_DISTANCE = 1.243
"""Weight of a coverage. With the bundled model it is 0.2."""
FURTHER_WORD_DISTANCE = 0.64
"""Further weight of a coverage in a language in which words say more. With the multilingual model
it is 0.136."""
FOREIGN_DISTANCE = 0.124
"""Loss of a passage in a language that the model was not trained for. With the bundled model it is
0.02."""
FOREIGN_WEIGHT = 0.3
"""Weight of similarity in a language that a multilingual model was not trained for: it gives
Greek questions and any Greek text high similarities."""
FOREIGN_USUAL_DISTANCE = 0.525
"""Usual similarity in such a language, less the unrelated one. With the multilingual model, whose
distance is 0.2126, `foreign_usual` is 0.156."""
CROSSED_DISTANCE = 0.564
"""Minimum evidence from words of a passage in another language than the query. With the
multilingual model, whose distance is 0.2126, it is 0.12."""
SENTENCE_SHARE = 0.7
LATE_DISTANCE = 2.822
"""Weight of late interaction. With the multilingual model it is 0.6."""
NAME_DISTANCE = 0.249
"""Weight of names. With the bundled model it is 0.04."""
FLOOR_DISTANCE = 1.0
"""Distance of the floor below the unrelated similarity. With the bundled model it is 0.3. A long
passage with one sentence about a name has a low similarity, and is found by its words."""
USUAL_FLOOR_DISTANCE = 0.2
"""Distance of the usual floor of a multilingual model below the unrelated similarity. It is 0.047:
languages that the model knows less have low similarities."""
MIN_DISTANCE = 0.05
"""Distance of a model that does not separate related texts from unrelated ones."""


class DecisionSettings(Struct, frozen=True):
    """Thresholds, gates and limits of answers. All but the `raw_` thresholds are similarities.

    In raw mode, the thresholds of short queries and the similarity gate are similarities too and
    are converted.
    """

    threshold_low: float = 0.25
    threshold_high: float = 0.55
    short_query_max_tokens: int = 3
    """Maximum number of words of a short query; 0 disables the stricter thresholds."""
    short_query_threshold_low: float = 0.28
    short_query_threshold_high: float = 0.58
    min_similarity_for_hybrid: float = 0.5
    min_chunks_for_hybrid: int = 1
    min_total_context_chars: int = 100
    max_chunks: int = 6
    max_context_chars: int = 8000
    exclude_chunk_types_from_llm: tuple[ChunkKind, ...] = (ChunkKind.FIGURE,)
    score_mode: ScoreMode = ScoreMode.NORMALIZED
    distance: Distance = Distance.COSINE
    raw_dot_low: float | None = None
    raw_dot_high: float | None = None
    raw_cosine_low: float | None = None
    raw_cosine_high: float | None = None
    evidence: EvidenceRules | None = None
    """Rules that replace thresholds and gates; None keeps those."""

    def __post_init__(self) -> None:
        # Convert names to enum members, so that settings read from a file compare equal.
        for name, value in (
            ("score_mode", _choice("score_mode", ScoreMode, self.score_mode)),
            ("distance", _choice("distance", Distance, self.distance)),
            ("exclude_chunk_types_from_llm", _kinds(self.exclude_chunk_types_from_llm)),
        ):
            msgspec.structs.force_setattr(self, name, value)
        _check_numbers(self)
        _check_order(self)
        _check_possible(self)

    @property
    def raw_names(self) -> tuple[str, str]:
        """Names of the raw thresholds of the distance."""
        return f"raw_{self.distance}_low", f"raw_{self.distance}_high"

    @property
    def low(self) -> float:
        """Low threshold on the scale of the score mode."""
        return self.threshold_low if self._normalized else getattr(self, self.raw_names[0])

    @property
    def high(self) -> float:
        """High threshold on the scale of the score mode."""
        return self.threshold_high if self._normalized else getattr(self, self.raw_names[1])

    def to_score(self, similarity: float) -> float:
        """Return a similarity on the scale of the score mode."""
        return similarity if self._normalized else raw_score(similarity, self.distance)

    def to_similarity(self, score: float) -> float:
        """Return a score of the score mode as a similarity."""
        return score if self._normalized else normalised(score, self.distance)

    @property
    def _normalized(self) -> bool:
        return self.score_mode is ScoreMode.NORMALIZED


_PAIRS = (
    ("threshold_low", "threshold_high"),
    ("short_query_threshold_low", "short_query_threshold_high"),
    ("raw_dot_low", "raw_dot_high"),
    ("raw_cosine_low", "raw_cosine_high"),
)
_MINIMUMS = {
    "short_query_max_tokens": 0,
    "min_chunks_for_hybrid": 0,
    "min_total_context_chars": 0,
    "max_chunks": 1,
    "max_context_chars": 1,
}


def _choice(name: str, kind: type[Choice], value: Any) -> Choice:
    try:
        return kind(value)
    except ValueError:
        raise InvalidConfiguration(
            f"{name} cannot be {value!r}.", advice=f"Choose one of: {', '.join(kind)}."
        ) from None


def _kinds(value: Any) -> tuple[ChunkKind, ...]:
    """Return the excluded kinds, sorted so that equal settings compare equal."""
    name = "exclude_chunk_types_from_llm"
    if not isinstance(value, tuple | list | set | frozenset):
        raise InvalidConfiguration(f"{name} must be a list.", advice='As in ["figure"].')
    kinds = {_choice(name, ChunkKind, kind) for kind in value}
    if kinds == set(ChunkKind):
        raise InvalidConfiguration(
            f"{name} names every kind of chunk, so that no model would be given any context.",
            advice="Leave 'text' out of it.",
        )
    return tuple(sorted(kinds))


def _check_numbers(settings: DecisionSettings) -> None:
    for name in (*(name for pair in _PAIRS for name in pair), "min_similarity_for_hybrid"):
        value, is_raw = getattr(settings, name), name.startswith("raw_")
        least = -1.0 if is_raw else 0.0
        if value is None and is_raw:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidConfiguration(f"{name} must be a number between {least} and 1.0.")
        if not least <= value <= 1.0:  # Also refuses NaN.
            raise InvalidConfiguration(
                f"{name} is {value}.", advice=f"Give a number between {least} and 1.0."
            )
    for name, least in _MINIMUMS.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidConfiguration(f"{name} must be a whole number of at least {least}.")


def _check_order(settings: DecisionSettings) -> None:
    """Require low <= high for each pair, and in raw mode the pair of the distance."""
    missing = [name for name in settings.raw_names if getattr(settings, name) is None]
    if missing and settings.score_mode is ScoreMode.RAW:
        raise InvalidConfiguration(
            f"Score mode 'raw' with distance {settings.distance.value!r} needs "
            f"{' and '.join(settings.raw_names)}; missing: {', '.join(missing)}.",
            advice="Set both, or use score mode 'normalized'.",
        )
    for lower, upper in _PAIRS:
        low, high = getattr(settings, lower), getattr(settings, upper)
        if low is not None and high is not None and low > high:
            raise InvalidConfiguration(
                f"{lower} is {low} and {upper} is {high}.",
                advice=f"Set {lower} to at most {upper}.",
            )


def _check_possible(settings: DecisionSettings) -> None:
    """Refuse gates that nothing could pass.

    Thresholds of short queries may be lower than the others: the stricter of each pair applies.
    """
    if settings.evidence is not None and settings.score_mode is ScoreMode.RAW:
        raise InvalidConfiguration("Evidence is made of similarities, not of raw scores.")
    for gate, limit in (
        ("min_chunks_for_hybrid", "max_chunks"),
        ("min_total_context_chars", "max_context_chars"),
    ):
        if getattr(settings, gate) > getattr(settings, limit):
            raise InvalidConfiguration(
                f"{gate} is {getattr(settings, gate)}, but {limit} allows only "
                f"{getattr(settings, limit)}, so that no hybrid answer would be possible.",
                advice=f"Lower {gate} or raise {limit}.",
            )
    best = settings.to_similarity(settings.high)
    between = not reaches(settings.low, settings.high)
    if between and reaches(settings.min_similarity_for_hybrid, best):
        raise InvalidConfiguration(
            f"min_similarity_for_hybrid is {settings.min_similarity_for_hybrid}, but an answer is "
            f"hybrid only below a similarity of {shortest(best)}, so that none would be possible.",
            advice="Lower min_similarity_for_hybrid, or set both thresholds to the same number.",
        )


CHOSEN = WhyNot.RETURNED
"""Verdict on a chunk that is passed to the primary model."""


class AnswerMode(StrEnum):
    """Mode of an answer; also the value of the header `X-Answer-Mode`."""

    RAG = "rag"
    HYBRID = "hybrid"
    FALLBACK = "fallback"


class ModelOutcome(StrEnum):
    """Outcome of a call to a chat model. A failure of the provider is an error instead."""

    NOT_RUN = "not_run"
    ABSENT = "absent"
    """The model is not configured."""
    ANSWERED = "answered"
    BLANK = "blank"
    NO_CONTEXT = "no_context"


class RewrittenBy(StrEnum):
    """Method that rewrote a follow-up question: none, the rule, or the chat model."""

    NONE = "none"
    RULE = "rule"
    MODEL = "model"


class FollowUp(Struct, frozen=True):
    """Rewriting of a follow-up question, for the explanation only.

    `earlier_turns` were available for rewriting; `history_turns` of them fit into the prompt.
    """

    rewritten_by: RewrittenBy = RewrittenBy.NONE
    earlier_turns: int = 0
    history_turns: int = 0


class UsedModel(StrEnum):
    """Model that wrote the answer; none if no model ran or its reply was not used."""

    PRIMARY = "primary"
    FALLBACK = "fallback"
    NONE = "none"


class SourcesUsed(StrEnum):
    """Share of the retrieved chunks that the answer is based on."""

    ALL = "all"
    PARTIAL = "partial"
    NONE = "none"


class DecisionReason(StrEnum):
    """Reason for the mode, in the order of the checks."""

    NOTHING_FOUND = "nothing_found"
    NOTHING_USABLE = "nothing_usable"
    BELOW_LOW = "below_low"
    GATE_FAILED = "gate_failed"
    TOO_LITTLE_EVIDENCE = "too_little_evidence"
    PRIMARY_BLANK = "primary_blank"
    PRIMARY_NO_CONTEXT = "primary_no_context"
    REACHED_HIGH = "reached_high"
    GATES_HELD = "gates_held"
    ENOUGH_EVIDENCE = "enough_evidence"


class Refusal(StrEnum):
    """Reason why a fallback gives no answer."""

    READING = "reading"
    """The fallback model could talk about parts of the book after the reader's position."""
    NO_FALLBACK_MODEL = "no_fallback_model"
    FALLBACK_SILENT = "fallback_silent"


class Step(StrEnum):
    """Next step after a decision."""

    ASK_PRIMARY = "ask_primary"
    ASK_FALLBACK = "ask_fallback"
    QUOTE = "quote"
    """Quote the chosen passages, since no primary model is configured."""
    DELIVER = "deliver"
    REFUSE = "refuse"


class GateName(StrEnum):
    """Gate of hybrid mode, named like its setting."""

    SIMILARITY = "min_similarity_for_hybrid"
    CHUNKS = "min_chunks_for_hybrid"
    CHARACTERS = "min_total_context_chars"


class Coverage(Struct, frozen=True):
    """Share of a query's words in a passage, weighted by rarity."""

    share: float = 0.0
    """Share in the whole passage."""
    window: float = 0.0
    """Largest share within 20 consecutive words."""
    words: int = 0
    """Number of the query's words that the passage covers, at least in part."""

    def __post_init__(self) -> None:
        check_share("coverage", self.share)
        check_share("window coverage", self.window)


class Candidate(Struct, frozen=True):
    """A verified chunk that the caller may see, without its text.

    `similarity` is normalized but not clamped. `start` is the offset in the canonical text; None
    for text that is not part of it, such as the description of a figure.
    """

    chunk_id: ChunkId
    similarity: float
    characters: int
    kind: ChunkKind = ChunkKind.TEXT
    document: int = 0
    index: int = 0
    start: int | None = None
    place: int | None = None
    """Rank in a search that also uses words. With thresholds, the mode never depends on it."""
    coverage: Coverage | None = None
    """Share of the query's words in the chunk; None if not measured."""
    foreign: bool = False
    """Whether the embedding model was not trained for the language of the chunk."""
    by_words: bool = False
    """Whether words say more than similarities in the language of the chunk and the query."""
    crossed: bool = False
    """Whether the chunk is in another language than the query, and the model knows both."""
    sentence: float | None = None
    """Similarity of the most similar sentence of a crossed chunk; None if not measured."""
    late: float | None = None
    """Late interaction with the query, less the usual in its language; None if not measured."""
    has_names: bool | None = None
    """Whether the chunk has every name of the query; None for a query without names."""
    added: int = 0
    """Number of characters that a prompt adds to the text for Markdown tables."""

    def __post_init__(self) -> None:
        if isinstance(self.similarity, bool) or not isinstance(self.similarity, int | float):
            raise InvalidArgument("A similarity must be a number.")
        if not -math.inf < self.similarity < math.inf:
            raise InvalidArgument("A similarity must be finite.")
        for name in ("characters", "start", "place", "added"):
            value = getattr(self, name)
            if value is None and name in ("start", "place"):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidArgument(f"The {name} of a candidate must count from 0.")


class Evidence(Struct, frozen=True):
    """Complete input of a decision; equal evidence always gives an equal decision.

    `effective_query` is for the explanation only; the caller hashes it first.
    """

    settings: DecisionSettings
    query_words: int
    candidates: tuple[Candidate, ...] = ()
    reading: bool = False
    primary: ModelOutcome = ModelOutcome.NOT_RUN
    fallback: ModelOutcome = ModelOutcome.NOT_RUN
    retrieval_target: str = ""
    effective_query: str = ""
    search_mode: Mode | None = None
    """Search mode that found the candidates, for the log."""
    defaults: Defaults | None = None
    conversation: FollowUp | None = None
    """Rewriting of a follow-up question; None outside a conversation."""
    background: float | None = None
    """Similarity of the query to texts that do not answer it; None if not measured."""
    cohort: str | None = None
    """Digest of the cohort that the background was measured with."""
    missing_words: tuple[str, ...] = ()
    """Rarest words of the query that no passage contains, for the explanation only. The caller
    removes them before the evidence is logged."""

    def __post_init__(self) -> None:
        words = self.query_words
        if isinstance(words, bool) or not isinstance(words, int) or words < 0:
            raise InvalidArgument("query_words must be a count of words.")
        if self.background is not None and not -1.0 <= self.background <= 1.0:
            raise InvalidArgument("The background must be between -1.0 and 1.0.")
        if len({candidate.chunk_id for candidate in self.candidates}) < len(self.candidates):
            raise InvalidArgument("A chunk can be a candidate only once.")


class Thresholds(Struct, frozen=True):
    """Thresholds of one request, on the scale of its score mode."""

    low: float
    high: float
    short_query_active: bool


class Gate(Struct, frozen=True):
    """A condition of hybrid mode: the needed value, the found value, and whether it holds."""

    name: GateName
    needed: float
    found: float
    held: bool

    def to_json(self) -> dict[str, Any]:
        needed, found = _shorten(self.needed), _shorten(self.found)
        return {"name": self.name.value, "needed": needed, "found": found, "held": self.held}


class PassageEvidence(Struct, frozen=True):
    """Evidence of the best passage, with the numbers that it is made of."""

    score: float
    similarity: float
    coverage: float
    window: float
    background: float
    foreign: bool
    crossed: bool
    by_words: bool = False
    sentence: float | None = None
    late: float | None = None
    has_names: bool | None = None

    def to_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        has_names = fields.pop("has_names")
        flags = {name: True for name in ("foreign", "crossed", "by_words") if fields.pop(name)}
        if has_names is not None:
            flags["has_names"] = has_names
        numbers = {name: shortest(value) for name, value in fields.items() if value is not None}
        return numbers | flags


class Considered(Struct, frozen=True):
    """A retrieved chunk and its verdict: `CHOSEN`, or why the primary model does not get it."""

    candidate: Candidate
    verdict: WhyNot


class Decision(Struct, frozen=True):
    """The mode of an answer, its reason, and the next step.

    `retrieved` has the order of `retrieved_chunks_metadata`. `max_similarity` is the similarity of
    the best chunk that a model may get, None without one; `max_score` is the same on the scale of
    the thresholds, or the best evidence. `context_characters` counts each character of the chosen
    chunks once.
    """

    evidence: Evidence
    mode: AnswerMode
    reason: DecisionReason
    step: Step
    refusal: Refusal | None
    used_llm: UsedModel
    thresholds: Thresholds
    max_similarity: float | None
    max_score: float | None
    gates: tuple[Gate, ...]
    """Checked gates; empty unless the best score is between the thresholds."""
    retrieved: tuple[Considered, ...]
    context_characters: int
    found: PassageEvidence | None = None
    """Evidence that decided; None if thresholds did, or if there is no passage."""

    @property
    def chosen(self) -> tuple[ChunkId, ...]:
        """Chunks for the primary model, best first."""
        return tuple(item.candidate.chunk_id for item in self.retrieved if item.verdict is CHOSEN)

    @property
    def used_chunks(self) -> tuple[ChunkId, ...]:
        """Chunks that the answer is based on; none in fallback, which gets no context."""
        return () if self.mode is AnswerMode.FALLBACK else self.chosen

    @property
    def sources_used(self) -> SourcesUsed:
        """Whether the answer is based on all, some or none of the retrieved chunks."""
        used = len(self.used_chunks)
        if not used:
            return SourcesUsed.NONE
        return SourcesUsed.ALL if used == len(self.retrieved) else SourcesUsed.PARTIAL

    @property
    def left_out(self) -> dict[str, int]:
        """Number of retrieved chunks that were not chosen, by reason."""
        verdicts = (item.verdict for item in self.retrieved)
        return dict(sorted(Counter(code.value for code in verdicts if code is not CHOSEN).items()))

    @property
    def counts(self) -> dict[str, int]:
        """Number of chunks that were retrieved, chosen for the model and used in the answer."""
        return {
            "retrieved": len(self.retrieved),
            "chosen": len(self.chosen),
            "used": len(self.used_chunks),
            "context_characters": self.context_characters,
        }

    def to_json(self) -> dict[str, Any]:
        """Return `decision_explain`: plain values for JSON, without text and chunk ids.

        Numbers are rounded to the shortest form with the same float32 value, so that comparing the
        shown numbers gives the same decision.
        """
        evidence, thresholds = self.evidence, self.thresholds
        return {
            "mode": self.mode.value,
            "reason": self.reason.value,
            "refusal": None if self.refusal is None else self.refusal.value,
            "used_llm": self.used_llm.value,
            "sources_used": self.sources_used.value,
            "thresholds": {"low": shortest(thresholds.low), "high": shortest(thresholds.high)},
            "short_query_active": thresholds.short_query_active,
            # Evidence is a sum, which may exceed 1.
            "score_mode": evidence.settings.score_mode.value
            if evidence.settings.evidence is None
            else "evidence",
            "distance": evidence.settings.distance.value,
            "max_similarity": _shorten(self.max_similarity),
            "max_score": _shorten(self.max_score),
            "gates": [gate.to_json() for gate in self.gates],
            **({} if self.found is None else {"evidence": self.found.to_json()}),
            **({"missing_words": [*evidence.missing_words]} if evidence.missing_words else {}),
            "counts": self.counts,
            "left_out": self.left_out,
            "models": {"primary": evidence.primary.value, "fallback": evidence.fallback.value},
            "reading": evidence.reading,
            "retrieval_target": evidence.retrieval_target,
            "effective_query": evidence.effective_query,
            **{
                name: value.value
                for name, value in (
                    ("search_mode", evidence.search_mode),
                    ("defaults", evidence.defaults),
                )
                if value is not None
            },
            **(
                {"conversation": to_builtins(evidence.conversation)}
                if evidence.conversation is not None
                else {}
            ),
        }


def _shorten(number: float | None) -> float | None:
    """Return the shortest form of a score; counts and None are returned unchanged."""
    return number if number is None or isinstance(number, int) else shortest(number)
