"""Fused search: rank by the words of a query and by similarity, blended into one order.

    words of the store ──BM25──┐
                               ├─> candidates ──blend──> order ──verify──> result
    hits of the index ─────────┘

Candidates are the best by words and the closest, in scope and at or above the floor. The floor
applies to similarity: no chunk below it is returned, however well its words match. In the mode
`keyword`, and where a query is little more than phrases in quotes, words alone name the candidates.

Candidates are ranked before their text is read, and verified in that order until there are enough.
One that cannot be verified is skipped; it changes neither the order nor the scale of the others.
Chunks past the candidates follow by similarity, so that requesting more never reorders.

`WorldCandidates` are the chunks of a world, `FusedBookSearch` those that a reader may see.

Both scores are measured against values that do not change with the size of a world, so that one
weight fits a short story and a hundred thousand chunks:

- similarity against the similarities of unrelated and of closely related texts, which are measured
  once for each embedding model; without that calibration, against those of the closest chunks;
- words against the best chunk and against a chunk that has every word of the query.

In a world that `refines`, the best are read first and ranked again by their text: they gain

    (0.2 x window share + 1.5 x late interaction) x min(1, 6 / words of the query)

- The window share is high if words of the query are close together (`words.scoring`).
- Late interaction compares states of words (`types.vectors`): for each content word of the
  query the most similar word of the chunk, averaged by rarity. It finds inflections, synonyms and
  paraphrases.

Long queries describe a topic, which whole texts represent better than single words. From ten
content words on, the refined candidates also gain by *feedback*: their similarity to the mean of
the three that are best so far. Short questions ask for one fact, and feedback harms them.

A gain depends on the verified, visible text of a chunk, the states and the vector of this text,
those of the best such chunks, and the rarity of words among the chunks that take part: nothing that
a reader may not see decides an order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from math import inf, sqrt
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from truespan.observer import RequestTrace
from truespan.retrieval.query import SCORE_DECIMALS
from truespan.retrieval.stages import SelectionT
from truespan.types.bundle import Notice
from truespan.types.profile import Calibration, Distance
from truespan.types.request import RankPart
from truespan.types.telemetry import Stage
from truespan.types.trust import FusedScore
from truespan.types.vectors import (
    ROW_BYTES,
    QueryStates,
    Vector,
    WordStates,
    compare_rows,
    mean_of,
    similarities_of,
)
from truespan.words.query import Forms, WordQuery
from truespan.words.scoring import ChunkScores, WordRarity, count_whole_words, window_share_at
from truespan.words.terms import stem_function, stemmer_of, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POOL = 30
"""Number of candidates from words, and from similarity. Callers cannot change it."""
MAX_BY_WORDS = 2000
"""Maximum number of chunks that are ranked where words alone name the candidates."""
RELATED = 2.0
"""Distance of related texts above unrelated ones, in units of the distance between the similarity
that few unrelated texts have and the one at which an answer is certain."""
EMPHASIS = 1.5
"""Exponent of word scores: a chunk with few of the words gains less than its share of them."""
PHRASE_WEIGHT = 0.3
"""Gain of a chunk with the phrases of a query that does not require them."""
FOREIGN_WEIGHT = 0.7
"""Minimum weight of words where the model knows the language of a chunk too little."""
CROSSED_WEIGHT = 0.2
"""Weight of words where a chunk is in another language than the query."""
REFINED = 20
"""Number of candidates that are refined. Callers cannot change it."""
WINDOW_WEIGHT = 0.2
LATE_WEIGHT = 1.5
"""Weights in a blend; docs/retrieval.md explains the choice."""
FULL_WORDS = 6
"""Maximum number of words of a query whose gains count in full."""
MIN_FEEDBACK_WORDS = 10
"""Minimum number of content words of a query that uses feedback."""
FEEDBACK_FROM = 3
"""Number of distinct candidates that feedback comes from."""
FEEDBACK_WEIGHT = 1.5

MAX_TEXTS = 2048
"""Maximum number of texts whose terms are kept, about five megabytes."""

NO_WORD = Notice(
    "no_word_matches", "No word of the query occurs in the passages that were searched."
)
NO_PHRASE = Notice("no_phrase_matches", "No searched passage contains all the quoted text.")

PHRASES_RANKED = Notice(
    "phrases_not_required", "Passages with the quoted text rank higher; the others follow."
)
NO_PHRASE_RANKED = Notice(
    "no_phrase_matches",
    "No passage that was searched contains everything that the query has in quotes: the closest "
    "follow.",
)

KeyT = TypeVar("KeyT")
FoundT = TypeVar("FoundT")
FoundT_co = TypeVar("FoundT_co", covariant=True)


class Scale(Struct, frozen=True):
    """The scale that the scores of candidates are measured against.

    Its values come from the model, or from chunks that the caller may see: nothing else decides an
    order.
    """

    unrelated: float
    """Similarity that counts 0."""
    related: float
    """Similarity that counts 1."""
    best_words: float
    """Highest word score."""
    possible_words: float
    """Word score that no chunk can exceed."""
    calibrated: bool = True

    def blend(
        self, weight: float, bm25: float, similarity: float, *, crossed: bool = False
    ) -> float:
        """Return one score for two; words count for `weight` of it.

        Words are measured against the best chunk and what is possible, similarity between unrelated
        and related texts. A text is `crossed` if it is in another language than the query: it has
        the higher of two blends, since its language may be wrong, and names and numbers are the
        same in both.
        """
        against = sqrt(self.best_words * self.possible_words)
        words = (bm25 / against) ** EMPHASIS if against else 0.0
        if self.related <= self.unrelated:
            near = 1.0 if similarity >= self.related else 0.0
        else:
            near = (similarity - self.unrelated) / (self.related - self.unrelated)
            if not self.calibrated:
                # A candidate that only words contributed may lie below the closest chunks.
                near = min(max(near, 0.0), 1.0)
        blend = round(weight * words + (1 - weight) * near, SCORE_DECIMALS)
        if crossed and weight < 1.0:
            weight = min(weight, CROSSED_WEIGHT)
            blend = max(blend, round(weight * words + (1 - weight) * near, SCORE_DECIMALS))
        return blend


def scale_of(
    closest: Sequence[float],
    best_words: float,
    possible_words: float,
    calibration: Calibration | None,
) -> Scale:
    """Return the scale of a search, from the similarities of the closest chunks, falling."""
    if calibration is not None and calibration.threshold_high > calibration.unrelated_high:
        unrelated = calibration.unrelated_high
        related = unrelated + RELATED * (calibration.threshold_high - unrelated)
        return Scale(unrelated, related, best_words, possible_words)
    lowest, highest = (closest[-1], closest[0]) if closest else (0.0, 0.0)
    # The closest chunk counts 1 here, so the best chunk by words does too.
    return Scale(lowest, highest, best_words, best_words, calibrated=False)


class CandidateText(Struct, frozen=True):
    """The verified, visible text of a candidate."""

    text: str
    language: str
    states: WordStates | None
    """States of the words of the text; None if they were not read, or are not stored."""


class Gain(Struct, frozen=True):
    """Gain of a chunk from its text, added to its blend; a part that was not measured is None."""

    window: float | None
    late: float | None
    total: float
    feedback: float | None = None


def compare_with_best(ranked: Sequence[Vector]) -> list[float]:
    """Return the similarity of each vector to the mean of the best, given the vectors by rank.

    Equal vectors count once among the best: copies of a text are no further evidence.
    """
    best = [*dict.fromkeys(ranked)][:FEEDBACK_FROM]
    similar = similarities_of(mean_of(best), ranked, Distance.COSINE) if best else []
    return [round(max(similarity, 0.0), SCORE_DECIMALS) for similarity in similar]


class Refinement(Struct, frozen=True, dict=True):
    """The words of one query and their states, which texts of candidates are compared with."""

    rarity: WordRarity
    """Rarity of the content words of the query; of a misspelt one, that of the terms for it."""
    states: QueryStates | None = None
    """States of the words of the query; None if the model gives none."""
    without: frozenset[RankPart] = frozenset()
    """Parts that are left out."""
    written: WordRarity | None = None
    """Rarity of the words as the query has them, if some are misspelt: states are of those."""

    def gains(self, texts: Sequence[CandidateText]) -> list[Gain]:
        """Return the gain of each text; without states, it has none from them."""
        import numpy as np

        unseen = self.rarity.unseen
        occurring = [(forms, rarity) for forms, rarity in self.rarity.words if rarity < unseen]
        windows = self._measure_windows(texts, occurring)
        late: list[float | None] = [None] * len(texts)
        states = [text.states for text in texts if text.states]
        if states and self.query_rows is not None:
            rows, weights = self.query_rows
            compared = compare_rows(b"".join(states), rows)
            starts = np.cumsum([0, *(len(packed) // ROW_BYTES for packed in states)])[:-1]
            best = np.maximum.reduceat(compared, starts, axis=0)
            # Negative values would move a chunk below those that are not refined.
            similar = np.maximum((best * weights).sum(axis=1), 0.0).round(SCORE_DECIMALS)
            shares = iter(similar.tolist())
            late = [next(shares) if text.states else None for text in texts]
        share = min(1.0, FULL_WORDS / max(count_whole_words(occurring), 1.0))
        found = list[Gain]()
        for window, similarity in zip(windows, late, strict=True):
            total = WINDOW_WEIGHT * (window or 0.0) + LATE_WEIGHT * (similarity or 0.0)
            found.append(Gain(window, similarity, share * total))
        return found

    def _measure_windows(
        self, texts: Sequence[CandidateText], occurring: Sequence[tuple[Forms, float]]
    ) -> list[float | None]:
        """Return the window share of each text, from the words of the query that occur."""
        shares: list[float | None] = [None] * len(texts)
        languages = {text.language for text in texts if RankPart.WINDOW not in self.without}
        for language in languages:
            name = stemmer_of(language)
            words = [(forms[name], rarity) for forms, rarity in occurring if name in forms]
            # All forms of a word count as the first of them.
            first = {form: known[0] for known, _ in words for form in known}
            rarity = {known[0]: value for known, value in words}
            for number, text in enumerate(texts):
                if text.language == language:
                    at = _places_of(text.text, language)
                    forms = first.keys() & at.keys()
                    found = sorted((place, first[form]) for form in forms for place in at[form])
                    shares[number] = round(window_share_at(found, rarity), SCORE_DECIMALS)
        return shares

    @cached_property
    def query_rows(self) -> tuple[bytes, NDArray[np.float64]] | None:
        """Rows of the content words of the query and their weights; None without any.

        Without them, states of chunks cannot change the order.
        """
        import numpy as np

        if self.states is None or RankPart.LATE in self.without:
            return None
        rarity = {
            (name, term): rarity
            for forms, rarity in (self.written or self.rarity).words
            for name, terms in forms.items()
            for term in terms
        }
        names = {name for name, _ in rarity}
        rows, weights = list[bytes](), list[float]()
        for number, word in enumerate(self.states.words):
            known = (rarity.get((name, stem_function(name)(word))) for name in names)
            weight = max((value for value in known if value is not None), default=None)
            if weight is not None:
                start = number * ROW_BYTES
                rows.append(self.states.rows[start : start + ROW_BYTES])
                weights.append(weight)
        total = sum(weights)
        return (b"".join(rows), np.array(weights) / total) if total else None


# Shared by threads: an `lru_cache`, which locks, of places that nothing changes.
@lru_cache(maxsize=MAX_TEXTS)
def _places_of(text: str, language: str) -> Mapping[str, Sequence[int]]:
    """Return the places of each term of a text; some texts are candidates of many queries."""
    places: dict[str, list[int]] = {}
    for place, term in enumerate(terms(text, language)):
        places.setdefault(term, []).append(place)
    return places


class Candidate(Struct, Generic[KeyT], frozen=True):
    """A chunk with all that ranks it, before its text is read."""

    key: KeyT
    document: int
    index: int
    score: float
    """Similarity to the query."""
    bm25: float
    blend: float | None = None
    """Blend of both scores; None past the candidates, where similarity ranks."""
    trained: bool = True
    """Whether the model knows the language of the chunk well."""
    crossed: bool = False
    """Whether the chunk is in another language than the query, and the model knows both."""
    gain: Gain | None = None
    """Part of the blend that comes from the text; None if it was not refined."""

    @property
    def fused(self) -> FusedScore:
        """Return the scores that a result shows."""
        bm25, gain = round(self.bm25, SCORE_DECIMALS), self.gain
        if gain is None:
            return FusedScore(bm25, self.blend)
        return FusedScore(bm25, self.blend, gain.window, gain.late, gain.feedback)

    def order(self) -> tuple[float, int, int]:
        """Return the sort key of the ranking: ties are ordered by document and place."""
        score = round(self.score, SCORE_DECIMALS) if self.blend is None else self.blend
        return -score, self.document, self.index


class Candidates(Protocol[KeyT, FoundT_co]):
    """The chunks that a fused search may return, by their keys."""

    @property
    def query(self) -> WordQuery: ...
    @property
    def words(self) -> ChunkScores:
        """BM25 scores of the chunks with a word of the query."""
        ...

    min_step: ClassVar[int]
    """Minimum number of candidates verified together after the first ones; doubled each time."""

    def best_by_words(self, count: int) -> list[KeyT]:
        """Return the best chunks by words alone."""
        ...

    def with_phrases(self) -> list[KeyT]:
        """Return the chunks whose text has every phrase of the query."""
        ...

    def score_named(self, keys: Sequence[KeyT]) -> list[Candidate[KeyT]]:
        """Return the named chunks at or above the floor, by falling similarity."""
        ...

    def score_closest(self, named: Sequence[KeyT]) -> list[Candidate[KeyT]]:
        """Return the `POOL` closest chunks, ties included, and the named ones, as `score_named`."""
        ...

    def score_following(self, chosen: Set[KeyT], count: int) -> list[Candidate[KeyT]]:
        """Return the `count` closest of the other chunks in their order, and maybe more."""
        ...

    def read_texts(
        self, candidates: Sequence[Candidate[KeyT]], *, word_states: bool
    ) -> dict[KeyT, CandidateText]:
        """Return the texts of the candidates that are verified and in scope.

        With `word_states`, they have the states of their words, as far as these are stored.
        """
        ...

    def read_vectors(self, candidates: Sequence[Candidate[KeyT]]) -> dict[KeyT, Vector]:
        """Return the stored vectors of verified candidates, as far as these are sound."""
        ...

    def verify(self, candidates: Sequence[Candidate[KeyT]]) -> Iterable[FoundT_co]:
        """Return the candidates whose text is verified and in scope, with their fused scores."""
        ...


class FusedFound(Struct, Generic[KeyT, FoundT, SelectionT], frozen=True):
    """The chunks that a fused search found, and the selection from them."""

    found: list[FoundT]
    selected: SelectionT
    candidates: frozenset[KeyT]
    """Keys of the candidates, verified or not."""
    mismatch: Notice | None = None
    """Set where words alone name the candidates, and no chunk has them."""
    past: bool = False
    """Whether chunks past the candidates were looked at."""


class FusedSearch(Struct, Generic[KeyT, FoundT], frozen=True):
    """One fused search. Words have `weight` of the blend, similarity the rest."""

    candidates: Candidates[KeyT, FoundT]
    weight: float
    calibration: Calibration | None
    """Calibration that similarities are measured against."""
    trace: RequestTrace
    refinement: Refinement | None = None
    """Ranks the best candidates again by their text; None if nothing does."""

    def find(
        self, k: int, select: Callable[[list[FoundT]], SelectionT], *, by_words: bool
    ) -> FusedFound[KeyT, FoundT, SelectionT]:
        """Rank the candidates and verify them in this order until `select` has enough of them.

        Candidates are the best by words and the closest; others follow by similarity. With
        `by_words`, only chunks with the phrases or, without phrases, a word of the query are.
        """
        candidates, found = self.candidates, list[FoundT]()
        if by_words and candidates.query.phrases:
            return self._find_phrases(k, select)
        if by_words:
            return self._find_words(k, select)
        phrased = candidates.with_phrases()[:POOL] if candidates.query.phrases else []
        named = list(dict.fromkeys([*candidates.best_by_words(POOL), *phrased]))
        scored = candidates.score_closest(named)
        bound = round(scored[POOL - 1].score, SCORE_DECIMALS) if len(scored) >= POOL else -inf
        close = [part for part in scored if round(part.score, SCORE_DECIMALS) >= bound]
        chosen = frozenset([*(part.key for part in close), *named])
        kept = [part for part in scored if part.key in chosen]
        similarities = [part.score for part in close[:POOL]]
        ranked = self._rank(kept, similarities, candidates.words.best, frozenset(phrased))
        ranked = self._refine(ranked)
        notice = None
        if candidates.query.phrases:
            notice = PHRASES_RANKED if phrased else NO_PHRASE_RANKED
        selected = self._verify_best(found, lambda _: ranked, k, select)
        if selected.missing <= 0 or bound == -inf:
            return FusedFound(found, selected, chosen, notice)
        size = max(k, len(found))
        selected = self._verify_best(
            found, lambda count: candidates.score_following(chosen, count), size, select
        )
        return FusedFound(found, selected, chosen, notice, past=True)

    def _find_words(
        self, k: int, select: Callable[[list[FoundT]], SelectionT]
    ) -> FusedFound[KeyT, FoundT, SelectionT]:
        """Rank by words alone; similarity is used for the floor only."""
        words, count = self.candidates.words, max(POOL, k)
        while True:
            keys = self.candidates.best_by_words(min(count, MAX_BY_WORDS))
            ranked = self._rank(self.candidates.score_named(keys), [], words.best)
            found = list[FoundT]()
            selected = self._verify_best(found, lambda _, ranked=ranked: ranked, k, select)
            if selected.missing <= 0 or count >= min(len(words.places), MAX_BY_WORDS):
                return FusedFound(found, selected, frozenset(keys), None if keys else NO_WORD)
            count *= 4

    def _find_phrases(
        self, k: int, select: Callable[[list[FoundT]], SelectionT]
    ) -> FusedFound[KeyT, FoundT, SelectionT]:
        """Rank the chunks that have every phrase of the query."""
        keys, found = self.candidates.with_phrases(), list[FoundT]()
        scored = self.candidates.score_named(keys)
        best = max((part.bm25 for part in scored), default=0.0)
        ranked = self._rank(scored, [part.score for part in scored[:POOL]], best)
        selected = self._verify_best(found, lambda _: ranked, k, select)
        return FusedFound(found, selected, frozenset(keys), None if keys else NO_PHRASE)

    def _rank(
        self,
        scored: Iterable[Candidate[KeyT]],
        closest: Sequence[float],
        best_words: float,
        phrased: Set[KeyT] = frozenset(),
    ) -> list[Candidate[KeyT]]:
        """Return candidates with their blend, best first; those with the phrases gain."""
        possible = self.candidates.words.possible
        scale = scale_of(closest, best_words, possible, self.calibration)
        blended = list[Candidate[KeyT]]()
        for part in scored:
            weight = self.weight if part.trained else max(self.weight, FOREIGN_WEIGHT)
            blend = scale.blend(weight, part.bm25, part.score, crossed=part.crossed)
            if part.key in phrased:
                blend = round(blend + PHRASE_WEIGHT, SCORE_DECIMALS)
            blended.append(replace(part, blend=blend))
        return sorted(blended, key=Candidate.order)

    def _refine(self, ranked: list[Candidate[KeyT]]) -> list[Candidate[KeyT]]:
        """Return candidates with the best ones ranked again by their text.

        Nothing overtakes the best from below: gains are never negative.
        """
        if self.refinement is None:
            return ranked
        best, word_states = ranked[:REFINED], self.refinement.query_rows is not None
        texts = self.candidates.read_texts(best, word_states=word_states)
        gains = dict(zip(texts, self.refinement.gains([*texts.values()]), strict=True))
        refined = [
            replace(part, blend=round(part.blend + gain.total, SCORE_DECIMALS), gain=gain)
            if (gain := gains.get(part.key)) and part.blend is not None
            else part
            for part in best
        ]
        refined.sort(key=Candidate.order)
        if count_whole_words(self.refinement.rarity.words) >= MIN_FEEDBACK_WORDS:
            refined = self._add_feedback(refined)
        return [*refined, *ranked[len(best) :]]

    def _add_feedback(self, refined: list[Candidate[KeyT]]) -> list[Candidate[KeyT]]:
        """Return refined candidates ranked again by their similarity to the best of them.

        Those that are not verified have no gain, and none comes from them.
        """
        if self.refinement is None or RankPart.FEEDBACK in self.refinement.without:
            return refined
        vectors = self.candidates.read_vectors([part for part in refined if part.gain])
        ranked = [part.key for part in refined if part.key in vectors]
        similar = dict(
            zip(ranked, compare_with_best([vectors[key] for key in ranked]), strict=True)
        )
        gained = [
            replace(
                part,
                blend=round(part.blend + FEEDBACK_WEIGHT * similar[part.key], SCORE_DECIMALS),
                gain=replace(part.gain, feedback=similar[part.key]),
            )
            if part.key in similar and part.gain and part.blend is not None
            else part
            for part in refined
        ]
        return sorted(gained, key=Candidate.order)

    def _verify_best(
        self,
        found: list[FoundT],
        ordered: Callable[[int], Sequence[Candidate[KeyT]]],
        size: int,
        select: Callable[[list[FoundT]], SelectionT],
    ) -> SelectionT:
        """Add verified candidates to `found`, from the best on, until `select` has enough.

        `ordered` returns at least as many candidates as it is asked for, or all of them.
        """
        done, step, last = 0, self.candidates.min_step, None
        while True:
            following = ordered(done + size)
            if last is not None:
                # An index that lacks points can name a chunk too late, which then comes before the
                # last one. It is left out: nothing is tried twice, and the order stays.
                following = [part for part in following if part.order() > last.order()]
            # Copies have the same scores, and are results together.
            scores = [(part.bm25, round(part.score, SCORE_DECIMALS)) for part in following]
            while 0 < size < len(scores) and scores[size] == scores[size - 1]:
                size += 1
            following = following[:size]
            found.extend(self.candidates.verify(following))
            with self.trace.stage(Stage.ENOUGH):
                selected = select(found)
            if selected.missing <= 0 or not following:
                return selected
            last, done = following[-1], done + len(following)
            size, step = max(selected.missing, step), 2 * step
