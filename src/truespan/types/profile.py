"""Embedding profiles, limits of embedders, chunking profiles and calibrations."""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cache, cached_property
from hashlib import sha256
from math import inf
from struct import pack, unpack
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from truespan.errors import InvalidArgument, InvalidConfiguration


class Distance(StrEnum):
    """Distance function of vectors. No other is supported."""

    COSINE = "cosine"
    DOT = "dot"


INSTRUCTION = "instruction: "
"""Prefix of a mode that contains the prefix of a text."""


# Shared by threads: its properties are computed from members that never change.
class EmbeddingProfile(Struct, frozen=True, dict=True):
    """Everything that determines a vector. Fixed for a generation; the id is a digest."""

    provider: str
    model: str
    revision: str
    dimensions: int
    distance: Distance
    document_mode: str
    query_mode: str
    input_limit: int
    """Maximum number of tokens of a text, without special tokens."""

    @cached_property
    def id(self) -> str:
        """Digest of all fields."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode()).hexdigest()[:16]

    @cached_property
    def calibration(self) -> Calibration | None:
        """Shipped calibration of the model; None if there is none."""
        return _SHIPPED.get((self.provider, self.model, self.revision))

    @cached_property
    def languages(self) -> frozenset[str] | None:
        """Languages that the model was trained for; None if they are not known.

        Similarities of texts in other languages say little.
        """
        return _LANGUAGES.get((self.provider, self.model))

    @cached_property
    def strong_languages(self) -> frozenset[str] | None:
        """Languages in which the model's similarities rank well; None if they are not known.

        In others that it was trained for, words rank better than similarities.
        """
        weak = _WEAK_LANGUAGES.get((self.provider, self.model), frozenset())
        return None if self.languages is None else self.languages - weak

    @property
    def document_prefix(self) -> str:
        """Prefix of each text of a document."""
        mode = self.document_mode
        return mode.removeprefix(INSTRUCTION) if mode.startswith(INSTRUCTION) else ""

    def __str__(self) -> str:
        return f"{self.provider}/{self.model} ({self.dimensions} dimensions, {self.revision[:19]})"


class EmbeddingLimits(Struct, frozen=True):
    """Limits of one request to a provider, and of the requests in flight."""

    items: int = 2048
    tokens: int = 100_000
    in_flight: int = 2
    joint: bool = True
    """Whether the vectors of one request arrive together, so that their order must be checked."""
    varies: bool = False
    """Whether other devices or other batches may give slightly different vectors."""

    @property
    def probed(self) -> bool:
        """Return whether a profile alone does not prove that vectors are the same as before."""
        return self.joint or self.varies

    def within(self, other: EmbeddingLimits) -> EmbeddingLimits:
        """Return the smaller of both values for each limit.

        A device of this machine gets no requests, so that limits of requests do not apply to it.
        """
        if self.varies and not self.joint:
            return self
        return EmbeddingLimits(
            items=min(self.items, other.items),
            tokens=min(self.tokens, other.tokens),
            in_flight=min(self.in_flight, other.in_flight),
            joint=self.joint,
            varies=self.varies,
        )


# Shared by threads: a cache of texts and frozen profiles.
@cache
def profile_from_json(stored: str) -> EmbeddingProfile:
    """Return the embedding profile of a stored text; equal texts are parsed once."""
    fields = json.loads(stored)
    return EmbeddingProfile(**{**fields, "distance": Distance(fields["distance"])})


class Strategy(StrEnum):
    """Method of splitting a text into chunks."""

    WINDOW = "window"
    SENTENCES = "sentences"
    TOKENS = "tokens"


class OverlapMode(StrEnum):
    """Storage of the overlap: in the text of the chunk, or separate and not embedded."""

    SHARED = "shared"
    SEPARATE = "separate"


_UNITS = {Strategy.WINDOW: "characters", Strategy.SENTENCES: "sentences", Strategy.TOKENS: "tokens"}
_LINE_MINIMUM = 0.3
"""Minimum share of a chunk before a break. A smaller overlap guarantees progress."""


class ChunkingProfile(Struct, frozen=True):
    """A named chunking method; `size` and `overlap` are in the unit of the strategy.

    With `pack`, the `sentences` strategy fills a chunk with whole sentences up to `pack` characters
    instead of counting them; `overlap` still counts sentences.
    """

    name: str
    strategy: Strategy
    size: int
    overlap: int
    overlap_mode: OverlapMode = OverlapMode.SHARED
    pack: int | None = None
    dedupe: bool = False
    """Whether to store only the first of several chunks with the same words."""
    whole_rows: bool = False
    """Whether chunks keep small tables and the rows of tables whole. Set from the world's
    defaults."""
    whole_words: bool = False
    """Whether windows begin and end with sentences or words. Set from the world's defaults."""

    def __post_init__(self) -> None:
        unit = _UNITS[self.strategy]
        for label, value in (("size", self.size), ("overlap", self.overlap)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidConfiguration(f"Chunk {label} must be a whole number of {unit}.")
        if self.size < 1:
            raise InvalidConfiguration(f"Chunk size must be at least 1, in {unit}.")
        if self.overlap < 0:
            raise InvalidConfiguration("Chunk overlap must not be negative.")
        if self.pack is not None and (self.strategy is not Strategy.SENTENCES or self.pack < 1):
            raise InvalidConfiguration("Only the 'sentences' strategy packs up to a size.")
        if self.strategy is Strategy.WINDOW and self.overlap >= _LINE_MINIMUM * self.size:
            raise InvalidConfiguration(
                f"An overlap of {self.overlap} {unit} is not under 30 % of the size {self.size}.",
                advice="Choose a smaller overlap or a larger size.",
            )
        if self.strategy is not Strategy.WINDOW and self.overlap >= self.size:
            raise InvalidConfiguration(
                f"An overlap of {self.overlap} {unit} leaves no progress at size {self.size}."
            )


def chunking_to_json(profile: ChunkingProfile) -> str:
    """Return a chunking profile as JSON for `chunking_from_json`."""
    return json.dumps(asdict(profile), sort_keys=True, separators=(",", ":"))


def chunking_from_json(stored: str) -> ChunkingProfile:
    """Return the chunking profile of JSON from `chunking_to_json`."""
    fields = json.loads(stored)
    return ChunkingProfile(
        **{
            **fields,
            "strategy": Strategy(fields["strategy"]),
            "overlap_mode": OverlapMode(fields["overlap_mode"]),
        }
    )


WINDOW = ChunkingProfile("window", Strategy.WINDOW, size=1000, overlap=200)
SENTENCES = ChunkingProfile("sentences", Strategy.SENTENCES, size=8, overlap=2)
TOKENS = ChunkingProfile("tokens", Strategy.TOKENS, size=256, overlap=48)
STANDARD_CHUNKING = {profile.name: profile for profile in (WINDOW, SENTENCES, TOKENS)}


_MAX_DIGITS = 9
"""Number of significant digits that distinguish any two float32 numbers."""


def float32(value: float) -> float:
    """Return the float32 number nearest to `value`."""
    try:
        return unpack("<f", pack("<f", value))[0]
    except OverflowError:
        return inf if value > 0 else -inf


def reaches(score: float, threshold: float) -> bool:
    """Return whether a score is at or above a threshold, both as float32 numbers."""
    return float32(score) >= float32(threshold)


def shortest(value: float) -> float:
    """Return the number with the fewest digits that is the same float32 as `value`."""
    wanted = float32(value)
    for digits in range(1, _MAX_DIGITS):
        candidate = float(f"{wanted:.{digits}g}")
        if float32(candidate) == wanted:
            return candidate
    return float(f"{wanted:.{_MAX_DIGITS}g}")


def normalised(raw: float, distance: Distance) -> float:
    """Return the similarity of a raw score: cosine unchanged, dot product as (raw + 1) / 2."""
    return (raw + 1) / 2 if distance is Distance.DOT else raw


def raw_score(similarity: float, distance: Distance) -> float:
    """Return the raw score of a similarity."""
    return 2 * similarity - 1 if distance is Distance.DOT else similarity


class CalibrationOrigin(StrEnum):
    """Data that a calibration was measured with."""

    QUERIES = "queries"
    """Queries and their expected passages."""
    DOCUMENTS = "documents"
    """Pairs of chunks of the world, if no measured values exist for the model."""


class Calibration(Struct, frozen=True):
    """Floor and thresholds for an embedding profile, as similarities.

    `thresholds` returns the fields that `DecisionSettings` has too.
    """

    calibrated_floor: float
    threshold_low: float
    threshold_high: float
    short_query_threshold_low: float
    short_query_threshold_high: float
    min_similarity_for_hybrid: float
    unrelated_high: float
    """95th percentile of the similarities of unrelated queries and passages."""
    measured_on: str
    origin: CalibrationOrigin = CalibrationOrigin.QUERIES
    chunks: int = 0
    """Number of chunks of the world, if measured with documents."""

    def __post_init__(self) -> None:
        numbers = self._numbers()
        if not all(0.0 <= value <= 1.0 for value in numbers.values()):
            raise InvalidArgument("Every number of a calibration is between 0.0 and 1.0.")

    def discriminates(self, floor: float) -> bool:
        """Return whether a floor excludes most unrelated text.

        If related and unrelated text overlap, the calibrated floor is the best possible.
        """
        return float32(floor) >= float32(min(self.unrelated_high, self.calibrated_floor))

    def thresholds(self) -> dict[str, Any]:
        """Return the calibrated fields of `DecisionSettings`."""
        others = ("calibrated_floor", "unrelated_high")
        return {name: value for name, value in self._numbers().items() if name not in others}

    def _numbers(self) -> dict[str, float]:
        others = ("measured_on", "origin", "chunks")
        names = [name for name in self.__struct_fields__ if name not in others]
        return {name: getattr(self, name) for name in names}


def is_trained_for(profile: EmbeddingProfile, language: str) -> bool:
    """Return whether a model was trained for a language, as far as is known."""
    languages = profile.languages
    return languages is None or _base_language(language) in languages


def knows_well(profile: EmbeddingProfile, language: str) -> bool:
    """Return whether a model's similarities rank well in a language, as far as is known."""
    languages = profile.strong_languages
    return languages is None or _base_language(language) in languages


def relies_on_words(profile: EmbeddingProfile, language: str) -> bool:
    """Return whether words of a passage say more than its similarity in a language."""
    found = _WORD_LANGUAGES.get((profile.provider, profile.model), frozenset())
    return _base_language(language) in found


def _base_language(code: str) -> str:
    """Return the language of a code in lower case: "en" for "en-GB"."""
    return code.casefold().replace("_", "-").partition("-")[0]


def crosses_languages(profile: EmbeddingProfile, query: str | None, text: str) -> bool:
    """Return whether a query and a text are in two languages that a model was trained for.

    Such a text has few words of the query, even if it answers it. None is an unknown language, and
    counts as the language of the text.
    """
    if query is None or profile.languages is None:
        return False
    return (
        _base_language(query) != _base_language(text)
        and is_trained_for(profile, query)
        and is_trained_for(profile, text)
    )


def weighs_late(profile: EmbeddingProfile) -> bool:
    """Return whether late interaction is evidence under a model: the usual value is known."""
    return (profile.provider, profile.model, profile.revision) in _USUAL_LATE


def usual_late(profile: EmbeddingProfile, language: str, *, crossed: bool) -> float | None:
    """Return the late interaction of a text that is evidence neither for nor against it.

    It differs by language: some are split into more pieces, or read by pairs of characters. None if
    it was not measured for the model. Texts are `crossed` if the query is in another language.
    """
    scale = _USUAL_LATE.get((profile.provider, profile.model, profile.revision))
    if scale is None or not is_trained_for(profile, language):
        return None
    return scale[crossed].get(_base_language(language), scale[crossed][""])


def is_multilingual(profile: EmbeddingProfile) -> bool:
    """Return whether a model is known to be trained for several languages."""
    return len(profile.languages or ()) > 1


def support_floor(profile: EmbeddingProfile) -> float | None:
    """Return the measured minimum similarity of equivalent sentences; None if not measured."""
    return _SUPPORT_FLOORS.get((profile.provider, profile.model, profile.revision))


_BGE_SMALL_INT8 = "sha256:1636a292bfa16e0c45768cc00a1d010e27acec4116f11954aea516236f226a6b"
_BGE_SMALL_FLOAT16 = "sha256:a98e4ba08bfb4781008ab1447c8e878250c9a98bf2b006b5c75499304d89efd7"
"""The same weights, dequantised."""
_USE_MULTILINGUAL = "google/universal-sentence-encoder-multilingual-v3"
_USE_MULTILINGUAL_FILES = "sha256:a8dc1b25be69a442640a31aa4fabc5fefb78252e82d291f0bcd13549b7e58605"
_MEASURED_ON = "SciFact (5,183 abstracts, 300 claims) and the example novella (37 questions)"
_SHIPPED: dict[tuple[str, str, str], Calibration] = {
    ("local", "BAAI/bge-small-en-v1.5", _BGE_SMALL_INT8): Calibration(
        calibrated_floor=0.4922,
        threshold_low=0.5278,
        threshold_high=0.6215,
        short_query_threshold_low=0.5372,
        short_query_threshold_high=0.6309,
        min_similarity_for_hybrid=0.6058,
        unrelated_high=0.4606,
        measured_on=_MEASURED_ON,
    ),
    ("local", "BAAI/bge-small-en-v1.5", _BGE_SMALL_FLOAT16): Calibration(
        calibrated_floor=0.4834,
        threshold_low=0.5368,
        threshold_high=0.622,
        short_query_threshold_low=0.545,
        short_query_threshold_high=0.63,
        min_similarity_for_hybrid=0.608,
        unrelated_high=0.458,
        measured_on=_MEASURED_ON,
    ),
    ("multilingual", _USE_MULTILINGUAL, _USE_MULTILINGUAL_FILES): Calibration(
        calibrated_floor=0.129,
        threshold_low=0.1721,
        threshold_high=0.3018,
        short_query_threshold_low=0.1851,
        short_query_threshold_high=0.3148,
        min_similarity_for_hybrid=0.2801,
        unrelated_high=0.0892,
        measured_on=_MEASURED_ON,
    ),
}
MULTILINGUAL_LANGUAGES = frozenset(
    ["ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh"]
)
"""Codes of the languages of the multilingual model, which knows both scripts of Chinese."""
_LANGUAGES = {
    ("local", "BAAI/bge-small-en-v1.5"): frozenset({"en"}),
    ("multilingual", _USE_MULTILINGUAL): MULTILINGUAL_LANGUAGES,
}
_WEAK_LANGUAGES = {("multilingual", _USE_MULTILINGUAL): frozenset({"ar", "th", "tr", "zh"})}
_WORD_LANGUAGES = {("multilingual", _USE_MULTILINGUAL): frozenset({"ar", "ru", "th", "tr", "zh"})}
"""Both measured on XQuAD; see bench/RESULTS.md."""
_SUPPORT_FLOORS = {
    ("local", "BAAI/bge-small-en-v1.5", _BGE_SMALL_INT8): 0.73,
    ("local", "BAAI/bge-small-en-v1.5", _BGE_SMALL_FLOAT16): 0.73,
    ("multilingual", _USE_MULTILINGUAL, _USE_MULTILINGUAL_FILES): 0.44,
}
"""Measured by `python -m bench.support_check`; see docs/answers.md."""
_BGE_LATE = {"": 0.55}, {"": 0.55}
_USUAL_LATE: dict[tuple[str, str, str], tuple[dict[str, float], dict[str, float]]] = {
    ("local", "BAAI/bge-small-en-v1.5", _BGE_SMALL_INT8): _BGE_LATE,
    ("local", "BAAI/bge-small-en-v1.5", _BGE_SMALL_FLOAT16): _BGE_LATE,
    ("multilingual", _USE_MULTILINGUAL, _USE_MULTILINGUAL_FILES): (
        {
            "ar": 0.49,
            "de": 0.57,
            "en": 0.66,
            "es": 0.67,
            "fr": 0.61,
            "it": 0.64,
            "pl": 0.56,
            "pt": 0.49,
            "ru": 0.552,
            "th": 0.57,
            "tr": 0.513,
            "zh": 0.42,
            "": 0.54,
        },
        {"de": 0.44, "es": 0.46, "tr": 0.37, "zh": 0.45, "": 0.42},
    ),
}
"""Usual late interaction by language, and across languages; blank for languages not measured."""
