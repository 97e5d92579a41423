"""The candidates of a fused search of a world: chunks scored by words and by the index.

Word scores are counted over the chunks in scope and nothing else. Similarities are those of the
index, whose hits are verified before they are returned.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.retrieval import fused
from truespan.retrieval.deps import Restart, RetrievalDeps
from truespan.retrieval.fused import Candidate, CandidateText, FusedFound, FusedSearch, Refinement
from truespan.retrieval.query import SCORE_DECIMALS, calibration_of, query_language
from truespan.retrieval.stages import (
    SLACK,
    Fetched,
    HitPager,
    Select,
    SelectionT,
    complete_until,
    drop_invalid_hits,
    limit_to_scope,
    read_chunks,
    verify,
)
from truespan.retrieval.word_counts import Extent, Layout, count_words
from truespan.types.chunk import ChunkRecord
from truespan.types.ids import ChunkId, chunk_id
from truespan.types.profile import crosses_languages
from truespan.types.request import Mode
from truespan.types.scope import Scope, World, admits
from truespan.types.telemetry import Stage
from truespan.types.trust import FailureKind, Hit, VerificationFailure, Verified
from truespan.types.vectors import QueryStates, Vector
from truespan.words.compounds import COMPOUNDING, expand_compounds, index_compounds
from truespan.words.query import Forms, QueryWord, WordQuery, parse_query, requires_phrases
from truespan.words.scoring import (
    ChunkScores,
    WordMatches,
    WordRarity,
    match_words,
    measure_rarity,
    merge_matches,
    score_chunks,
)
from truespan.words.spelling import index_vocabulary, name_similar, suggest_terms
from truespan.words.terms import stemmer_of

if TYPE_CHECKING:
    from truespan.store import Store


class FusedFetched(Fetched, frozen=True):
    """Verified candidates and, if they are too few, the chunks that follow by similarity."""

    candidates: frozenset[ChunkId] = frozenset()
    """Ids of the candidates, and of the hits that failed before they were ranked."""
    past: bool = False
    """Whether chunks past the candidates were fetched."""

    def down_to(self, last: float | None) -> Fetched:
        """Return all candidates, and further chunks down to the score of the last result."""
        if last is None or not self.past:
            return self
        bound = round(last, SCORE_DECIMALS)

        def counts(chunk_id: ChunkId, score: float) -> bool:
            return chunk_id in self.candidates or round(score, SCORE_DECIMALS) >= bound

        return Fetched(
            [found for found in self.verified if counts(found.chunk.chunk_id, found.score)],
            [failed for failed in self.failures if counts(failed.chunk_id, failed.score)],
        )


def fetch_fused(
    deps: RetrievalDeps,
    scope: Scope,
    world: World,
    vector: Vector,
    query: str,
    *,
    k: int,
    floor: float | None,
    select: Select[SelectionT],
    mode: Mode = Mode.HYBRID,
    states: QueryStates | None = None,
) -> tuple[Fetched, SelectionT]:
    """Fetch as `fetch_by_similarity` does, and give each chunk the `fused` score to rank by.

    `world` is the state to read, `query` the text with the words, `vector` its embedding, and
    `states` are those of its words. In the mode `keyword`, and if the query requires its phrases,
    words alone name the candidates.
    """
    if scope.position is not None:
        # Counts of whole revisions would reveal which words are rare in unread text.
        raise ValueError("A reader is searched for with 'FusedBookSearch'.")
    with deps.trace.stage(Stage.WORDS):
        words = word_scores(deps.store, scope, world, query)
    refines, phrases = not world.defaults.values.plain, words.query.phrases
    by_words = mode is Mode.KEYWORD
    if phrases and not by_words:
        by_words = not refines or requires_phrases(query, phrases)
    layout, place = words.finder.layout, (scope.world, scope.generation.number)
    # Chunks in scope whose state another program changed: no word names them.
    miscounted = {
        id: VerificationFailure(FailureKind.STALE, id, text_hash, text_hash)
        for entry in layout.entries
        if entry.miscounted and admits(scope.documents, entry.ref.document)
        for index, text_hash in entry.miscounted.items()
        for id in [chunk_id(*place, entry.ref.document, entry.ref.revision, index)]
    }
    candidates = WorldCandidates(
        deps=deps,
        scope=scope,
        vector=vector,
        floor=floor,
        counted=words,
        query=words.query,
        words=words.scores,
        count=k,
        untrained=_untrained(scope.profile.strong_languages, layout.stemmers)
        if refines
        else frozenset(),
        language=query_language(scope.profile, query) if refines else None,
        failures=miscounted,
    )
    weight = 1.0 if mode is Mode.KEYWORD else deps.fused_weight
    calibration = calibration_of(deps.store, scope, world, shipped_first=True)
    refinement = None
    if refines and not by_words:
        finder, parsed = words.finder, words.query
        measure = partial(measure_rarity, find=finder.find, chunks=finder.extent.chunks)
        is_misspelt = any(word.misspelt for word in parsed.words)
        written = measure(finder.parse(query)) if is_misspelt else None
        refinement = Refinement(measure(parsed), states, deps.without, written)
    search = FusedSearch(candidates, weight, calibration, deps.trace, refinement)
    outcome = search.find(k, select, by_words=by_words)
    return candidates.fetched(outcome), outcome.selected


class WorldCandidates(Struct):
    """The chunks of a world as candidates, by their ids, for a search for `count` results."""

    min_step: ClassVar[int] = 0

    deps: RetrievalDeps
    scope: Scope
    vector: Vector
    floor: float | None
    counted: WordScores
    query: WordQuery
    words: ChunkScores
    count: int
    untrained: frozenset[int] = frozenset()
    """Numbers of the stemmers of languages that the model knows too little."""
    language: str | None = None
    """Language of the query; None if it is unknown or does not matter."""
    failures: dict[ChunkId, VerificationFailure] = field(default_factory=dict)
    changes: int | None = None
    """Change count of the world, if it came with the last read of the store."""
    _pager: HitPager | None = None
    _hits: dict[ChunkId, Hit] = field(default_factory=dict)
    _named: dict[ChunkId, Hit] = field(default_factory=dict)
    _languages: dict[ChunkId, str] = field(default_factory=dict)
    """Languages of the chunks whose words are counted."""
    _requested: set[ChunkId] = field(default_factory=set)
    _records: dict[ChunkId, ChunkRecord] = field(default_factory=dict)
    _verified: dict[ChunkId, Verified | None] = field(default_factory=dict)
    """Hits that were verified; None for one that failed or is not in scope."""
    _failed_early: frozenset[ChunkId] | None = None
    """Ids of the hits that failed before what follows the candidates was looked at."""

    def fetched(self, outcome: FusedFound[ChunkId, Verified, SelectionT]) -> Fetched:
        """Return the outcome of a search as verified chunks and failures."""
        hits = self._pager.hits if self._pager else []
        is_short = (
            self._pager is not None and self._pager.exhausted and outcome.selected.missing > 0
        )
        returned = {hit.chunk_id for hit in hits} | self._named.keys()
        similar = None
        if any(word.misspelt for word in self.query.words):
            similar = name_similar(self.query, (found.text for found in outcome.found))
        failed = self.failures if self._failed_early is None else self._failed_early
        return FusedFetched(
            verified=outcome.found,
            failures=list(self.failures.values()),
            changes=self.changes,
            notices=tuple(filter(None, (outcome.mismatch, similar))),
            seen=len(hits) if is_short else None,
            unreturned=len(self._requested - returned),
            words=self.query,
            candidates=outcome.candidates.union(failed),
            past=outcome.past,
        )

    def best_by_words(self, count: int) -> list[ChunkId]:
        layout, scope = self.counted.finder.layout, self.scope
        return [layout.chunk_id(scope, place) for place in self.words.top(count, SCORE_DECIMALS)]

    def with_phrases(self) -> list[ChunkId]:
        with self.deps.trace.stage(Stage.WORDS):
            ids = self.counted.with_phrases().top(fused.MAX_BY_WORDS, SCORE_DECIMALS)
            self._records.update(read_chunks(self.deps, self.scope, ids))
            return [id for id in ids if self._has_phrases(self._records.get(id))]

    def _has_phrases(self, record: ChunkRecord | None) -> bool:
        """Return whether the text of a chunk has every phrase of the query.

        A damaged chunk counts as a match, so that verification reports the damage.
        """
        if record is None or record.chunk is None or not (record.intact and record.labels_intact):
            return True
        layout = self.counted.finder.layout
        place = layout.places.get(record.chunk.chunk_id)
        language = record.document.language if place is None else layout.language(place)
        return self.query.occurs_in(record.chunk.data.decode(), language)

    def score_named(self, keys: Sequence[ChunkId]) -> list[Candidate[ChunkId]]:
        with self.deps.trace.stage(Stage.HITS):
            self._search(0, [id for id in keys if id not in self._requested])
        return self._locate([hit for id in keys if (hit := self._named.get(id))])

    def score_closest(self, named: Sequence[ChunkId]) -> list[Candidate[ChunkId]]:
        deps = self.deps
        with deps.trace.stage(Stage.HITS):
            # One request for the closest hits and for those that words contribute.
            pager = self._pager = HitPager(
                deps.index,
                self.scope,
                self.vector,
                self.floor,
                limit=max(fused.POOL, self.count) + SLACK,
                first=lambda limit: self._search(limit, named),
            )
        near = self._page(pager, fused.POOL, frozenset())
        known = {part.key for part in near}
        others = self._locate([hit for id, hit in self._named.items() if id not in known])
        return sorted([*near, *others], key=lambda part: -part.score)

    def score_following(self, chosen: Set[ChunkId], count: int) -> list[Candidate[ChunkId]]:
        if self._pager is None:
            return []
        if self._failed_early is None:
            self._failed_early = frozenset(self.failures)
        return sorted(self._page(self._pager, count, chosen), key=Candidate.order)

    def _page(self, pager: HitPager, count: int, chosen: Set[ChunkId]) -> list[Candidate[ChunkId]]:
        """Return the `count` closest candidates that are not chosen, ties included."""
        wanted = count + len(chosen)
        while True:
            length = complete_until(pager.hits, wanted, exhausted=pager.exhausted)
            if length is None:
                with self.deps.trace.stage(Stage.HITS):
                    pager.extend(wanted)
                continue
            near = self._locate([hit for hit in pager.hits[:length] if hit.chunk_id not in chosen])
            if len(near) >= count or (pager.exhausted and length == len(pager.hits)):
                return near
            wanted = length + count - len(near)

    def _search(self, limit: int, ids: Sequence[ChunkId]) -> list[Hit]:
        """Return the closest hits, and keep those among `ids`; an index may add others."""
        if not limit and not ids:
            return []
        hits, found = self.deps.index.search_with(
            self.scope, self.vector, limit=limit, floor=self.floor, ids=ids
        )
        requested = frozenset(ids)
        self._requested |= requested
        named = drop_invalid_hits(found, self.floor)
        self._named.update({hit.chunk_id: hit for hit in named if hit.chunk_id in requested})
        return hits

    def _locate(self, hits: Sequence[Hit]) -> list[Candidate[ChunkId]]:
        """Return the hits in scope as candidates, in the same order.

        The store knows where a hit is. One that has no counted words may be out of scope or
        damaged: it is verified at once, since only its row can tell.
        """
        layout, extent = self.counted.finder.layout, self.counted.finder.extent
        profile, language = self.scope.profile, self.language
        self.changes = None
        self._hits.update({hit.chunk_id: hit for hit in hits})
        with self.deps.trace.stage(Stage.VERIFIED):
            ids = [hit.chunk_id for hit in hits]
            located = layout.locate(self.deps.store, self.scope, extent, ids)
            bm25 = self.words.of_each([place.place for place in located.values()])
            scores = dict(zip(located, bm25, strict=True))
        self._languages.update({id: place.language for id, place in located.items()})
        uncounted = [id for id in ids if id not in located]
        others = {found.chunk.chunk_id: found for found in self._verify(uncounted)}
        candidates: list[Candidate[ChunkId]] = []
        for hit in hits:
            id, score = hit.chunk_id, hit.score
            place, found = located.get(id), others.get(id)
            if place is not None and place.inside:
                candidates.append(
                    Candidate(
                        key=id,
                        document=place.document,
                        index=place.index,
                        score=score,
                        bm25=scores[id],
                        trained=place.stemmer not in self.untrained,
                        crossed=language is not None
                        and crosses_languages(profile, language, place.language),
                    )
                )
            elif found is not None:
                number, index = found.document.number, found.chunk.index
                candidates.append(Candidate(id, number, index, score, 0.0))
        return candidates

    def read_texts(
        self, candidates: Sequence[Candidate[ChunkId]], *, word_states: bool
    ) -> dict[ChunkId, CandidateText]:
        found = self._verify([part.key for part in candidates], word_states=word_states)
        return {
            part.chunk.chunk_id: CandidateText(
                part.text,
                self._languages.get(part.chunk.chunk_id, part.document.language),
                part.chunk.word_states,
            )
            for part in found
        }

    def read_vectors(self, candidates: Sequence[Candidate[ChunkId]]) -> dict[ChunkId, Vector]:
        self.changes = None
        found = self._verify([part.key for part in candidates])
        hashes = {part.chunk.chunk_id: part.chunk.text_hash for part in found}
        vectors = self.deps.store.chunks.vectors(self.scope, [*hashes.values()])
        return {id: vectors[known] for id, known in hashes.items() if known in vectors}

    def verify(self, candidates: Sequence[Candidate[ChunkId]]) -> list[Verified]:
        known = {part.key: part for part in candidates}
        return [
            replace(found, fused=known[id].fused, language=self._languages.get(id))
            for found in self._verify([*known])
            for id in [found.chunk.chunk_id]
        ]

    def _verify(self, ids: Sequence[ChunkId], *, word_states: bool = False) -> list[Verified]:
        """Return the hits whose text is verified and in scope; remember the others.

        Each is read and verified once, and again if states of words are wanted.
        """
        hits = [self._hits[id] for id in ids if word_states or id not in self._verified]
        if hits:
            with self.deps.trace.stage(Stage.VERIFIED):
                unread = [
                    hit.chunk_id for hit in hits if word_states or hit.chunk_id not in self._records
                ]
                if unread:
                    read = read_chunks(self.deps, self.scope, unread, word_states=word_states)
                    self._records.update(read)
                    self.changes = next((record.changes for record in read.values()), None)
                outcome = limit_to_scope(verify(hits, self._records), self._records, self.scope)
            self.failures.update({failed.chunk_id: failed for failed in outcome.failures})
            self._verified.update(dict.fromkeys(hit.chunk_id for hit in hits))
            self._verified.update({found.chunk.chunk_id: found for found in outcome.verified})
        return [found for id in ids if (found := self._verified[id]) is not None]


# Shared by threads: an `lru_cache`, which locks, of sets.
@lru_cache(maxsize=64)
def _untrained(languages: frozenset[str] | None, stemmers: tuple[str, ...]) -> frozenset[int]:
    """Return the numbers of the stemmers of languages other than those that a model knows well."""
    if languages is None:
        return frozenset()
    trained = set(map(stemmer_of, languages))
    return frozenset(number for number, name in enumerate(stemmers) if name not in trained)


class WordFinder(Struct, frozen=True):
    """Finds words among the chunks in scope, each once."""

    store: Store
    scope: Scope
    world: World
    layout: Layout
    extent: Extent
    _found: dict[tuple[tuple[str, tuple[str, ...]], ...], WordMatches] = field(default_factory=dict)

    def parse(self, query: str) -> WordQuery:
        """Return the words of a query, with compounds that occur among the chunks in scope."""
        stemmers, finds_compounds = self.extent.stemmers, not self.world.defaults.values.plain
        parsed = parse_query(query, stemmers, query_language(self.scope.profile, query))
        if not finds_compounds or COMPOUNDING.isdisjoint(stemmers):
            return parsed
        index = index_compounds(self.store.catalogs.vocabulary(self.scope, self.world))
        load = partial(self.layout.load_places, self.store, self.scope)
        return expand_compounds(
            parsed, [index], load, lambda name, term: bool(len(self.find({name: (term,)}).places))
        )

    def find(self, forms: Forms) -> WordMatches:
        """Return the places of the chunks in scope that contain a word, and its count in each.

        A chunk contains a word if it has one of its terms under the stemmer of its own language.
        The rarity of a word is counted over all chunks in scope, in every language.
        """
        import numpy as np

        key = tuple(forms.items())
        if known := self._found.get(key):
            return known
        layout, parts = self.layout, list[WordMatches]()
        for term in sorted({term for own in forms.values() for term in own}):
            recent = layout.recent.get(term)
            places, counts = recent or layout.read_places(self.store, self.scope, term)
            kept = self.extent.inside[places]
            speaking = [name for name, own in forms.items() if term in own]
            if len(speaking) < len(layout.stemmers):
                codes = [layout.stemmers.index(name) for name in speaking]
                kept &= np.isin(layout.codes[places], codes)
            parts.append(WordMatches(places[kept], counts[kept]))
        found = self._found[key] = merge_matches(parts)
        return found

    def suggest(self, word: QueryWord) -> Forms:
        """Return terms in scope that are spelt like a word that no chunk has."""
        index = index_vocabulary(self.store.catalogs.vocabulary(self.scope, self.world))
        return suggest_terms(word, index.similar_terms, lambda forms: len(self.find(forms).places))


class WordScores(Struct, frozen=True):
    """BM25 scores of the chunks in scope; zero for a chunk without a word of the query."""

    finder: WordFinder
    query: WordQuery
    scores: ChunkScores

    def __len__(self) -> int:
        """Return the number of chunks with a word of the query."""
        return len(self.scores.places)

    def top(self, count: int, decimals: int) -> list[ChunkId]:
        """Return the ids of the best chunks with a word of the query, best first."""
        layout, scope = self.finder.layout, self.finder.scope
        return [layout.chunk_id(scope, place) for place in self.scores.top(count, decimals)]

    def with_phrases(self) -> WordScores:
        """Keep the chunks that have every term of the query's phrases, in any order.

        Counts have no positions: only the text shows whether the terms follow one another.
        """
        import numpy as np

        kept = np.ones(len(self), bool)
        for phrase in self.query.phrases:
            for word in parse_query(phrase, self.finder.extent.stemmers).words:
                kept &= np.isin(self.scores.places, self.finder.find(word.forms).places)
        places, values = self.scores.places[kept], self.scores.values[kept]
        best = float(values.max(initial=0.0))
        return replace(self, scores=replace(self.scores, places=places, values=values, best=best))


def word_scores(store: Store, scope: Scope, world: World, query: str) -> WordScores:
    """Score the chunks in scope by the words of a query; counts them first where necessary.

    The scores, not `word_rarity`, count terms that are spelt like a word that no chunk has.
    """
    layout = count_words(store, scope, world)
    extent = layout.extent(store, scope)
    finder = WordFinder(store, scope, world, layout, extent)
    parsed, matches = match_words(
        finder.parse(query), finder.find, None if world.defaults.values.plain else finder.suggest
    )
    if not matches and (lost := store.catalogs.lost_words(scope, layout.entries)):
        # Rows that the catalog counts are gone. They are counted again.
        store.catalogs.forget_words(scope, lost)
        raise Restart
    scores = score_chunks(matches, layout.lengths, chunks=extent.chunks, total=extent.total)
    return WordScores(finder, parsed, scores)


def word_rarity(store: Store, scope: Scope, world: World, query: str) -> WordRarity:
    """Return the rarity of the words of a query, as written, among the chunks in scope."""
    layout = count_words(store, scope, world)
    finder = WordFinder(store, scope, world, layout, layout.extent(store, scope))
    return measure_rarity(finder.parse(query), finder.find, finder.extent.chunks)
