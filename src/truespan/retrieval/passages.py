"""Fit chosen chunks to the options of a request: excerpts, sentences, or neighbours as well.

    chosen chunks ──divide──> the best excerpts or sentences ──widen──> with their neighbours

Canonical text is read sentence by sentence, and each sentence is checked against its digest. For a
reader, no sentence past the position is read or takes part in a choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.errors import StoreDamaged
from truespan.retrieval.deps import RetrievalDeps
from truespan.retrieval.pack import BundleAttempt, Packer
from truespan.retrieval.pipeline import Attempt, boilerplate_test
from truespan.retrieval.query import SCORE_DECIMALS, embed_shown
from truespan.retrieval.repeats import CoveredText
from truespan.retrieval.stages import cut
from truespan.text.tables import BAR, added_characters, added_tokens
from truespan.types.bundle import Notice, WhyNot
from truespan.types.chunk import ChunkKind
from truespan.types.document import RevisionRef
from truespan.types.ids import TextHash, hash_text
from truespan.types.request import PARTS, Granularity, Mode, PassageOptions
from truespan.types.scope import Scope
from truespan.types.text import (
    NamedPlace,
    PlacedSentence,
    SentencePlace,
    is_exact,
    join_locations,
    locate_sentences,
)
from truespan.types.trust import Match, Visible
from truespan.types.vectors import Vector, similarity_of

if TYPE_CHECKING:
    from truespan.retrieval.excerpts import Excerpt, Run
    from truespan.words.searched import SearchedWords

MAX_SENTENCES = 32
"""Maximum number of sentences embedded for one request. Callers cannot change it, since each costs
the provider time."""
MAX_WORDS = 200
"""Maximum number of words of a passage that are marked."""
MIN_PASSAGES = 10
"""Minimum number of passages from which sentences are chosen."""
WORDS_WEIGHT = 0.7
"""Weight of words against similarity in the choice of sentences; chosen on the questions of
`bench/questions`."""
DAMAGED = Notice(
    "sentences_damaged",
    "Sentences of a passage or around it could not be verified and were left out; "
    "'truespan doctor' says more.",
)


class Budget(Struct):
    """Remaining tokens and characters."""

    tokens: float = inf
    characters: float = inf
    tables: bool = False
    """Whether the tokens that Markdown adds to tables count too."""

    def take(self, tokens: int, text: str) -> bool:
        """Take a text; return False, and take nothing, if it does not fit."""
        characters = len(text)
        if self.tables and "|" in text:
            # A row alone becomes a table together with the next one.
            rows = text if "\n" in text else f"{text}\n{text}"
            tokens, characters = tokens + added_tokens(rows), characters + added_characters(rows)
        if tokens > self.tokens or characters > self.characters:
            return False
        self.tokens -= tokens
        self.characters -= characters
        return True


class Stretch(Struct, frozen=True):
    """Consecutive verified sentences, and the text from the first to the last of them."""

    text: str
    sentences: tuple[PlacedSentence, ...]

    def between(self, start: int, end: int) -> str:
        offset = self.sentences[0].start
        return self.text[start - offset : end - offset]


class Divided(Struct, frozen=True):
    """A passage and its sentences, in runs between headings; one run if it cannot be read."""

    part: Visible
    stretch: Stretch | None
    runs: list[list[Visible]]

    def join(self, excerpt: Excerpt) -> Visible:
        """Return the sentences of an excerpt as one passage."""
        if self.stretch is None:
            return self.part
        run = self.runs[excerpt.run]
        first, last = run[excerpt.first].first_sid, run[excerpt.last].last_sid
        inside = [one for one in self.stretch.sentences if first <= one.sid <= last]
        return _sentence_part(self.part, self.stretch, inside)


class PassageFitter(Struct, frozen=True):
    """Fits the passages of one attempt, in rank order, to the options of its request.

    Sentences are chosen by the words of the query, if there is one, with the words that the search
    compared, if it did. `vector` is the vector by which passages were ranked.
    """

    deps: RetrievalDeps
    scope: Scope
    options: PassageOptions
    vector: Vector
    attempt: Attempt
    warnings: list[Notice] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    """Numbers of passages that did not fit into the budget."""

    def quoting(self) -> PassageFitter:
        """Return the fitter of passages that are quoted: by default, excerpts of them."""
        granularity = self.options.granularity or Granularity.EXCERPT
        return replace(self, options=replace(self.options, granularity=granularity))

    def fit(self, chosen: Sequence[Visible], k: int, budget: Budget) -> list[Visible]:
        """Return passages, or the best excerpts or sentences of them, with their neighbours.

        Passages that do not fit into the budget are left out, with a warning.
        """
        tokens = budget.tokens
        if self.options.granularity is Granularity.EXCERPT:
            found, dropped = self._excerpts(chosen, k, budget)
        elif self.options.granularity is Granularity.SENTENCE:
            found, dropped = self._best_sentences(chosen, k, budget)
        else:
            found = [part for part in chosen if budget.take(part.tokens, part.text)]
            dropped = len(chosen) - len(found)
        if dropped:
            self.dropped.append(dropped)
            self.warnings.append(name_dropped(dropped, tokens))
        found = self._widen(found, budget) if self.options.neighbours else found
        return self.locate(self._highlight(found) if self.options.highlight else found)

    def locate(self, parts: Sequence[Visible], *, every: bool = False) -> list[Visible]:
        """Return passages with the places of their best sentences, by words of the query.

        Without `every`, only passages that lie on several pages, slides, lines or rows have one:
        the place of the others is as exact already, except for their section.
        """
        wanted = [
            number
            for number, part in enumerate(parts if self.attempt.query else ())
            if (every or not (part.location is None or is_exact(part.location)))
            and part.best_sentence is None
            and part.kind is ChunkKind.TEXT
            and part.first_sid != part.last_sid
        ]
        if not wanted:
            return list(parts)
        from truespan.retrieval.best_sentence import locate_best

        words = self._searched_words()
        try:
            return locate_best(self.deps, self.scope, words, parts, wanted)
        except StoreDamaged:
            self._warn_of_damage()
            return list(parts)

    def _warn_of_damage(self) -> None:
        if DAMAGED not in self.warnings:
            self.warnings.append(DAMAGED)

    def _highlight(self, parts: Sequence[Visible]) -> list[Visible]:
        """Return passages with the sentence of each that matches best, and the words that match.

        The sentence is chosen by words if any match, otherwise by similarity. Text that cannot be
        verified is not marked.
        """
        from truespan.retrieval.best_sentence import choose_sentence

        words = self._searched_words() if self._compares_words else None
        inside = [self._sentences_in(part) for part in parts]
        chosen: dict[int, Visible] = {}
        unmatched: list[int] = []
        for place, sentences in enumerate(inside):
            spans = [_span_in(parts[place], sentence) for sentence in sentences]
            best = choose_sentence(words, parts[place], spans) if words else None
            if best is not None:
                chosen[place] = sentences[best]
            elif sentences and self.attempt.mode is not Mode.KEYWORD:
                unmatched.append(place)
        if unmatched:
            # All passages together must not cost more than a choice of sentences.
            most = max(MAX_SENTENCES // len(unmatched), 1)
            similar = self._compare([one for place in unmatched for one in inside[place][:most]])
            for place in unmatched:
                known = [one for one in inside[place][:most] if one.text_hash in similar]
                if known:
                    chosen[place] = max(known, key=lambda one: similar[one.text_hash])
        return [
            replace(
                part,
                match=_match(part, chosen.get(place), words),
                best_sentence=_place_of(chosen.get(place)),
            )
            for place, part in enumerate(parts)
        ]

    @property
    def _compares_words(self) -> bool:
        """Whether words of the query decide between sentences."""
        return bool(self.attempt.query) and self.attempt.mode is not Mode.VECTOR

    def _searched_words(self) -> SearchedWords:
        """Return the words of the query, as the search compared them if it did."""
        from truespan.words.searched import SearchedWords

        return SearchedWords(self.attempt.query or "", self.attempt.fetched.words)

    def _sentences_in(self, part: Visible) -> list[Visible]:
        """Return the sentences of a passage, without headings if there are others."""
        stretch = self._read(part, 0)
        if stretch is None:
            return []
        found = [
            _sentence_part(part, stretch, [sentence])
            for sentence in stretch.sentences
            if part.start < sentence.end and sentence.start < part.end
        ]
        return [one for one in found if not _is_heading(one)] or found

    def _excerpts(
        self, chosen: Sequence[Visible], k: int, budget: Budget
    ) -> tuple[list[Visible], int]:
        """Return the `k` best excerpts that fit, and the number of better ones that did not.

        A passage that cannot be read stays whole.
        """
        from truespan.retrieval.best_sentence import choose_sentence, spoken_in
        from truespan.retrieval.excerpts import SentenceWords, choose_excerpts, count_unmatched

        # A sentence that overlapping passages share belongs to the better one.
        seen: set[tuple[int, int]] = set()
        divided = [one for part in chosen if (one := self._divide(part, seen)).runs]
        every = [one for part in divided for run in part.runs for one in run]
        found = [frozenset[str]()] * len(every)
        words = self._searched_words()
        if self._compares_words:
            found = words.find([(one.text, spoken_in(one)) for one in every])
        rest = iter(found)
        passages = [
            [
                [
                    SentenceWords(one.start, one.end, next(rest), BAR.search(one.text) is not None)
                    for one in run
                ]
                for run in part.runs
            ]
            for part in divided
        ]
        best: dict[int, tuple[int, int]] = {}
        for number, part in enumerate(divided if self._compares_words else ()):
            places = [(run, at) for run, own in enumerate(part.runs) for at in range(len(own))]
            spans = [_span_in(part.part, part.runs[run][at]) for run, at in places]
            at = choose_sentence(words, part.part, spans)
            if at is not None:
                best[number] = places[at]
        nearest = (
            self._nearest_excerpt(number, divided[number], passages[number])
            for number in range(count_unmatched(passages))
        )
        kept: list[Visible] = []
        covered, dropped = CoveredText(), 0
        for excerpt in chain(nearest, choose_excerpts(passages, words.rarities(found), best)):
            if len(kept) == k:
                break
            part = divided[excerpt.passage].join(excerpt)
            if (at := best.get(excerpt.passage)) is not None and part.first_sid != part.last_sid:
                sentence = divided[excerpt.passage].runs[at[0]][at[1]]
                part = replace(part, best_sentence=_place_of(sentence))
            # The description of a figure is not part of the text of its document.
            is_text = part.kind is ChunkKind.TEXT
            if is_text and not covered.uncovered(part.document, part.start, part.end):
                continue
            if budget.take(part.tokens, part.text):
                kept.append(part)
                if is_text:
                    covered.add(part.document, part.start, part.end)
            else:
                dropped += 1
        return kept, dropped

    def _divide(self, part: Visible, seen: set[tuple[int, int]]) -> Divided:
        """Return a passage with its sentences, divided at headings, at ends of chapters and where
        sentences were seen in another passage."""
        stretch = self._read(part, 0)
        if stretch is None:
            return Divided(part, None, [[part]])
        runs: list[list[Visible]] = [[]]
        before = set(seen)
        for sentence in stretch.sentences:
            one = _sentence_part(part, stretch, [sentence])
            is_seen = (part.document, sentence.sid) in seen
            seen.add((part.document, sentence.sid))
            if is_seen or _is_heading(one) or not self._admits(sentence, part):
                runs.append([])
            elif runs[-1] and runs[-1][-1].chapter != one.chapter:
                runs.append([one])
            else:
                runs[-1].append(one)
        found = [run for run in runs if run]
        has_own = any((part.document, one.sid) not in before for one in stretch.sentences)
        return Divided(part, stretch, found or ([[part]] if has_own else []))

    def _nearest_excerpt(self, number: int, divided: Divided, runs: Sequence[Run]) -> Excerpt:
        """Return the excerpt around the sentence of a passage that is most similar to the query."""
        from truespan.retrieval.excerpts import MAX_UNMATCHED, Excerpt, grow

        places = [(run, at) for run, found in enumerate(divided.runs) for at in range(len(found))]
        places = places[: MAX_SENTENCES // MAX_UNMATCHED]
        best = 0, 0
        if places[1:] and self.attempt.mode is not Mode.KEYWORD:
            parts = [divided.runs[run][at] for run, at in places]
            similar = self._compare(parts)
            near = [similar.get(one.text_hash, -inf) for one in parts]
            best = places[near.index(max(near))]
        run, at = best
        return Excerpt(1.0, number, run, *grow(runs[run], at, at))

    def _best_sentences(
        self, chosen: Sequence[Visible], k: int, budget: Budget
    ) -> tuple[list[Visible], int]:
        """Return the `k` best sentences that fit, and the number of better ones that did not.

        A passage that cannot be read stays whole.
        """
        candidates: list[Visible] = []
        seen: set[tuple[int, int]] = set()
        for part in chosen:
            stretch = self._read(part, 0)
            if stretch is None:
                candidates.append(part)
                continue
            for sentence in stretch.sentences:
                # A sentence that two passages share belongs to the better one.
                if (part.document, sentence.sid) not in seen and self._admits(sentence, part):
                    seen.add((part.document, sentence.sid))
                    candidates.append(_sentence_part(part, stretch, [sentence]))
        # A heading is similar to many questions and answers none.
        candidates = [part for part in candidates if not _is_heading(part)] or candidates
        kept: list[Visible] = []
        dropped = 0
        for part in self._rank_sentences(candidates):
            if len(kept) == k:
                break
            if budget.take(part.tokens, part.text):
                kept.append(part)
            else:
                dropped += 1
        return kept, dropped

    def _rank_sentences(self, candidates: Sequence[Visible]) -> list[Visible]:
        """Return sentences by words and similarity; those of better passages first if equal.

        `score` becomes the similarity of the sentence itself, if it was computed.
        """
        from truespan.retrieval.best_sentence import spoken_in

        by_words = [0.0] * len(candidates)
        if self._compares_words:
            by_words = self._searched_words().score(
                [(part.text, spoken_in(part)) for part in candidates]
            )
        order = sorted(range(len(candidates)), key=lambda place: -by_words[place])
        if self.attempt.mode is Mode.KEYWORD and self.attempt.query is not None:
            return [candidates[place] for place in order]
        order = sorted(order[:MAX_SENTENCES])
        similar = self._compare([candidates[place] for place in order])
        scored = [
            (replace(part, score=similar[part.text_hash]), by_words[place])
            for place in order
            if (part := candidates[place]).text_hash in similar
        ]
        lowest = min((part.score for part, _ in scored), default=0.0)
        span = max((part.score for part, _ in scored), default=0.0) - lowest
        most = max((words for _, words in scored), default=0.0)
        weight = WORDS_WEIGHT if most else 0.0

        def blend(part: Visible, words: float) -> float:
            near = (part.score - lowest) / span if span else 1.0
            return weight * (words / most if most else 0.0) + (1 - weight) * near

        scored.sort(key=lambda pair: -round(blend(*pair), SCORE_DECIMALS))
        return [part for part, _ in scored]

    def _compare(self, parts: Sequence[Visible]) -> dict[TextHash, float]:
        """Return the similarity of sentences to the query, by the hashes of their texts.

        Their vectors come from the store, or otherwise from the provider.
        """
        texts = {part.text_hash: part.text for part in parts}
        stored = self.deps.store.chunks.vectors(self.scope, list(texts)) if texts else {}
        missing = {known: text for known, text in texts.items() if known not in stored}
        vectors = stored | embed_shown(self.deps, self.scope, missing)
        distance = self.scope.profile.distance
        return {known: similarity_of(self.vector, own, distance) for known, own in vectors.items()}

    def _widen(self, chosen: Sequence[Visible], budget: Budget) -> list[Visible]:
        """Return passages with the neighbours that fit; the best passages come first."""
        covered = CoveredText()
        for part in chosen:
            covered.add(part.document, part.start, part.end)
        widened: list[Visible] = []
        for part in chosen:
            stretch = self._read(part, self.options.neighbours)
            wider = part if stretch is None else self._widen_part(part, stretch, covered, budget)
            covered.add(wider.document, wider.start, wider.end)
            widened.append(wider)
        return widened

    def _widen_part(
        self, part: Visible, stretch: Stretch, covered: CoveredText, budget: Budget
    ) -> Visible:
        """Return a passage with the sentences around it that fit, the nearest first.

        They are whole sentences of the same chapter that no other passage has. If a passage begins
        or ends within a sentence, the rest of that sentence comes first.
        """
        before = [item for item in stretch.sentences if item.sid <= part.first_sid][::-1]
        after = [item for item in stretch.sentences if item.sid >= part.last_sid]
        start, end, tokens = part.start, part.end, part.tokens
        for distance in range(max(len(before), len(after))):
            for side in (before, after):
                if distance >= len(side):
                    continue
                sentence = side[distance]
                if side is before:
                    first, last = sentence.start, min(sentence.end, start)
                else:
                    first, last = max(sentence.start, end), sentence.end
                if first >= last:
                    continue
                if (
                    sentence.place.chapter == side[0].place.chapter
                    and self._admits(sentence, part)
                    and covered.uncovered(part.document, first, last) == [(first, last)]
                    and budget.take(sentence.tokens, stretch.between(first, last))
                ):
                    start, end = min(start, first), max(end, last)
                    tokens += sentence.tokens
                else:
                    del side[distance:]
        if (start, end) == (part.start, part.end):
            return part
        text = "".join(_pieces(part, stretch, start, end))
        labels = locate_sentences(before[::-1]), part.location, locate_sentences(after)
        wider = replace(
            part,
            location=join_locations(labels),
            start=start,
            end=end,
            last_sid=after[-1].sid if after else part.last_sid,
            text=text,
            text_hash=hash_text(text),
            tokens=tokens,
            sentence_ends=b"",
        )
        if start == part.start:
            return wider
        first = before[-1]
        section = first.place.section or part.chapter
        return replace(wider, first_sid=first.sid, section=section, page=first.page)

    def _read(self, part: Visible, around: int) -> Stretch | None:
        """Read the sentences of a passage and some around it; None, with a warning, if damaged.

        A figure has none. Nothing past a reader's position is read.
        """
        if part.kind is ChunkKind.FIGURE:
            return None
        scope = self.scope
        first, last = max(part.first_sid - around, 0), part.last_sid + around
        revision = part.revision
        if scope.position is not None:
            last, revision = min(last, scope.position), scope.revision
        if revision is None or first > last:
            return None
        try:
            found = _read_stretch(
                self.deps, scope, RevisionRef(part.document, revision), first, last
            )
            sentences = {sentence.sid: sentence for sentence in found.sentences}
            inside = range(part.first_sid, part.last_sid + 1)
            if any(sid not in sentences for sid in inside):
                raise StoreDamaged("A sentence of the document is missing.")
            start = max(part.start, sentences[part.first_sid].start)
            end = min(part.end, sentences[part.last_sid].end)
            if found.between(start, end) != part.text[start - part.start : end - part.start]:
                raise StoreDamaged("A passage does not match its sentences.")
        except StoreDamaged:
            self._warn_of_damage()
            return None
        return found

    def _admits(self, sentence: PlacedSentence, part: Visible) -> bool:
        """Return whether a sentence is in the requested chapter and section, if any."""
        return self.scope.covers(NamedPlace.of(sentence.place, part.title))


def packer_for(attempt: BundleAttempt, options: PassageOptions, k: int) -> Packer:
    """Return the packer of an attempt. Passages to choose sentences from have no budget."""
    return Packer(
        k=k,
        budget=inf if options.granularity in PARTS else attempt.budget,
        is_boilerplate=boilerplate_test(attempt.world, options),
        plain=attempt.world.defaults.values.plain,
    )


def packing_count(
    options: PassageOptions, top_k: int, scope: Scope | None = None, in_scope: int = 0
) -> int:
    """Return the number of passages to pack: those wanted, or those to choose sentences from.

    With a scope, it is at most the number of chunks in scope. In a chapter or section a chunk may
    have several passages, so that their number is not limited.
    """
    count = top_k
    if options.granularity is Granularity.SENTENCE and top_k:
        count = max(top_k, MIN_PASSAGES)
    return count if scope is None or scope.names_place else min(count, in_scope)


def name_dropped(count: int, tokens: float) -> Notice:
    """Return the warning about passages that did not fit into the budget of a request."""
    passages = "1 passage does" if count == 1 else f"{count} passages do"
    budget = "its budget" if tokens == inf else f"the budget of {tokens:g} tokens"
    text = f"{passages} not fit into {budget}. Raise max_tokens to get more."
    return Notice("over_budget", text)


def fit_packed(attempt: BundleAttempt, fitter: PassageFitter) -> None:
    """Fit the chosen passages of a bundle."""
    packed, defaults = attempt.packed, attempt.world.defaults.values
    over = len(packed.left_out.get(WhyNot.OVER_BUDGET, ()))
    if over and fitter.options.max_tokens is not None:
        attempt.warnings.append(name_dropped(over, attempt.budget))
    budget = Budget(attempt.budget, tables=not defaults.plain)
    packed.chosen = fitter.fit(packed.chosen, attempt.top_k, budget)
    attempt.warnings += fitter.warnings


def _read_stretch(
    deps: RetrievalDeps, scope: Scope, ref: RevisionRef, first: int, last: int
) -> Stretch:
    """Return sentences of a revision, as many as there are; raises StoreDamaged."""
    stored = deps.store.readers.sentences(scope, ref, first, last)
    if not stored or any(part.sid != first + place for place, part in enumerate(stored)):
        raise StoreDamaged("A sentence of the document is missing.")
    start = stored[0].start
    passage = deps.store.readers.passage(scope, ref, start, stored[-1].end)
    if passage is None:
        raise StoreDamaged("The text of the document is missing.")
    # Bytes that cannot be decoded are replaced, and the text then no longer matches its digest.
    text = passage.text.decode(errors="replace")
    before = start
    for sentence in stored:
        content = text[sentence.start - start : sentence.end - start]
        between = text[before - start : sentence.start - start]
        if not sentence.matches(content) or between.strip():
            raise StoreDamaged("A sentence of the document does not match its hash.")
        before = sentence.end
    return Stretch(text, tuple(stored))


def _sentence_part(part: Visible, stretch: Stretch, sentences: Sequence[PlacedSentence]) -> Visible:
    """Return consecutive sentences of a passage as a separate result."""
    return cut(part, sentences, stretch.between(sentences[0].start, sentences[-1].end))


def _place_of(sentence: Visible | None) -> SentencePlace | None:
    """Return the place of a sentence that is a separate result."""
    if sentence is None:
        return None
    names = sentence.chapter, sentence.section
    return SentencePlace(sentence.first_sid, *names, sentence.page, sentence.location)


def _is_heading(part: Visible) -> bool:
    """Return whether a sentence is the heading of its chapter or section, or the title."""
    from truespan.retrieval.best_sentence import is_heading

    return is_heading(part.text, part.title, part.chapter, part.section)


def _pieces(part: Visible, stretch: Stretch, start: int, end: int) -> Iterator[str]:
    """Yield the text before a passage, its own, and the text after it."""
    if start < part.start:
        yield stretch.between(start, part.start)
    yield part.text
    if end > part.end:
        yield stretch.between(part.end, end)


def _match(part: Visible, sentence: Visible | None, words: SearchedWords | None) -> Match:
    """Return the match in a passage: a sentence of it, and words of the query."""
    from truespan.retrieval.best_sentence import spoken_in

    spans = words.find_spans(part.text, spoken_in(part)) if words else ()
    marked = tuple(islice(spans, MAX_WORDS))
    if sentence is None:
        return Match(words=marked)
    return Match(sentence.first_sid, *_span_in(part, sentence), marked)


def _span_in(part: Visible, sentence: Visible) -> tuple[int, int]:
    """Return the span in the text of a passage of a sentence that may begin before it."""
    end = min(sentence.end, part.end) - part.start
    return max(sentence.start - part.start, 0), end
