"""Compare each sentence of a model's answer with the passages that it cites.

    sentence ─> its passages ─> numbers, names, words, negation ─> similarity where words differ

A sentence without citations is compared with all passages of the answer. The check compares words,
not meanings: a sentence that swaps subject and object has all the words of its passage. Only text
that the model got is compared, so nothing ahead of a reader's position takes part.

The work grows with the length of the answer times that of the passages; both are bounded.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TypeVar

from msgspec import Struct, field

from truespan.answers.checks import Comparison
from truespan.answers.citations import citation_numbers
from truespan.answers.quotes import NO_QUOTES, Quotes
from truespan.extensions.checks.support.claims import AnswerSentence, split_answer
from truespan.extensions.checks.support.names import (
    Name,
    find_lower_words,
    find_name_words,
    fold_name,
    name_forms,
    same_people,
)
from truespan.extensions.checks.support.numbers import (
    Number,
    find_numbers,
    number_keys,
    numbers_agree,
)
from truespan.extensions.checks.support.table_cells import Cell, Claim, TableCells, find_cells
from truespan.extensions.checks.support.vocabulary import Negated, Vocabulary, guess_language
from truespan.text.sentences import sentence_spans
from truespan.types.answer import SentenceSupport, Support, SupportReason
from truespan.types.trust import Visible
from truespan.words.terms import stem_function, words

WORD_SHARE = 0.5
"""Minimum share of a sentence's words in its passages, unless the sentence is similar to one."""
NEW_WORDS = 3
"""Number of missing words, in a row or below `WORD_SHARE`, that makes a sentence unsupported."""
NEGATION_SHARE = 0.5
"""Minimum share of words in a sentence of a passage for comparing negations."""
NEARBY = 6
"""Number of words around a number, one of which must be near it in the passage too."""
MAX_MISSING = 20

MIN_QUOTED = 2
"""Minimum number of words of an unverified quote that counts; one word may be a term."""
_VERIFIED, _FAILED = b"\1", b"\2"
_FAILED_RUN = re.compile(b"\2+")

_FAMILY = 5
"""Minimum number of first letters that related words share."""
_MAX_RELATED = 20
_BEGINNING = 3
MAX_ALIKE = 50
"""Maximum number of places of a word or number, and of names with the same beginning."""

Key = TypeVar("Key")
Value = TypeVar("Value")

_NAME_WORD = re.compile(r"[^\W_]+(?:[’'][^\W_]+)*")


class _Given(Struct, frozen=True):
    """A number of a passage, and the words around it; None for a number in a title.

    In a table, the words come from its row, column and headings, and `cell` is its place.
    """

    number: Number
    around: frozenset[str] | None
    cell: Cell | None = None


class _Sentence(Struct, frozen=True):
    """A sentence of a passage: its content words in order, its numbers and negated words."""

    text: str
    stems: tuple[str, ...]
    numbers: tuple[_Given, ...]
    negated: Negated


class _Passage(Struct, frozen=True):
    """A source as the model got it. `first` is the number of sentences of earlier sources."""

    number: int
    first: int
    sentences: tuple[_Sentence, ...]
    names: frozenset[str]
    beginnings: dict[str, list[str]]
    """Names by their first letters."""
    numbers: dict[tuple[str, float | str], list[_Given]]
    """Numbers by their keys."""
    every: tuple[_Given, ...]
    """All numbers, for hedged numbers of an answer."""
    cells: dict[str, list[Cell]] = field(default_factory=dict)
    """Cells of names that occur only in the body of a table."""
    headings: frozenset[str] = frozenset()
    """Words of a table's headings: sheet, section and columns."""


def check_support(
    answer: str,
    sources: Sequence[Visible],
    quotes: Quotes = NO_QUOTES,
    comparison: Comparison | None = None,
    question: str = "",
) -> Support:
    """Return the support of an answer by its passages; its quotes were checked before.

    A sentence without a claim may have names and numbers of the question: "They do not mention
    Rome."
    """
    texts = [source.text for source in sources]
    vocabulary = Vocabulary(guess_language(" ".join(texts)) or guess_language(answer) or "english")
    checker = _Checker(vocabulary, comparison, find_lower_words([answer, *texts]), question)
    for number, source in enumerate(sources, 1):
        checker.add(number, source)
    quoted = bytearray(len(answer))
    for mark, spans in ((_VERIFIED, quotes.literal), (_FAILED, quotes.failed)):
        for start, end in spans:
            quoted[start:end] = mark * (end - start)
    judged = (
        checker.judge(sentence, bytes(quoted[sentence.start : sentence.end]))
        for sentence in split_answer(answer, vocabulary.code)
    )
    found = tuple(sentence for sentence in judged if sentence is not None)
    supported = sum(sentence.supported for sentence in found)
    return Support(
        round(supported / len(found), 4) if found else None, len(found), supported, found
    )


class _Checker(Struct):
    """Compares the sentences of an answer with passages."""

    vocabulary: Vocabulary
    comparison: Comparison | None
    ordinary: frozenset[str]
    question: str
    passages: list[_Passage] = field(default_factory=list)
    places: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Sentences of all passages by their stems."""
    families: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Stems by their first letters."""
    relatives: dict[str, list[str]] = field(default_factory=dict)
    """Cached results of `_related`."""
    count: int = 0

    def add(self, number: int, source: Visible) -> None:
        """Add a passage."""
        labels = (source.title, source.chapter, source.section, source.source_url)
        headings = dict.fromkeys((*labels, source.location or ""))
        heading = "\n".join(headings)
        tables = find_cells(source.text, self.vocabulary.labels)
        titles = (
            self.vocabulary.labels(heading) | tables.headings if tables.starts else frozenset[str]()
        )
        spans = sentence_spans(source.text, self.vocabulary.code)
        sentences = tuple(
            self._read(source.text[start:end], start, tables, titles) for start, end in spans
        )
        everything = _NAME_WORD.findall(f"{heading}\n{source.text}")
        names = frozenset(map(fold_name, everything)) | _initials(source.text)
        beginnings = _group((name[:_BEGINNING], name) for name in sorted(names))
        # "May" alone may be a verb, but the name of a sheet is a month.
        dated = "\n".join(f"in {label}" for label in headings)
        given = [_Given(found, None) for found in find_numbers(dated, self.vocabulary.language)]
        given += [found for sentence in sentences for found in sentence.numbers]
        keyed = _group((key, found) for found in given for key in number_keys(found.number))
        every = tuple(given[:MAX_ALIKE])
        self.passages.append(
            _Passage(
                number=number,
                first=self.count,
                sentences=sentences,
                names=names,
                beginnings=beginnings,
                numbers=keyed,
                every=every,
                cells=_names_in_cells(heading, source.text, tables),
                headings=titles,
            )
        )
        seen = Counter[str]()
        for place, sentence in enumerate(sentences, self.count):
            for stem in dict.fromkeys(sentence.stems):
                if stem not in self.places and len(stem) >= _FAMILY:
                    self.families[stem[:_FAMILY]].append(stem)
                seen[stem] += 1
                if seen[stem] <= MAX_ALIKE:
                    self.places[stem].append(place)
        self.count += len(sentences)

    def _read(self, text: str, start: int, tables: TableCells, titles: frozenset[str]) -> _Sentence:
        numbers: list[_Given] = []
        for number in find_numbers(text, self.vocabulary.language):
            around = frozenset(self._around(text, number))
            if cell := tables.at(start + number.start):
                around |= cell.words | titles
            numbers.append(_Given(number, around, cell))
        return _Sentence(
            text, tuple(self.vocabulary.stems(text)), tuple(numbers), self.vocabulary.negated(text)
        )

    def _around(self, text: str, number: Number) -> list[str]:
        before = self.vocabulary.stems(text[max(0, number.start - 120) : number.start])[-NEARBY:]
        return before + self.vocabulary.stems(text[number.end : number.end + 120])[:NEARBY]

    def _related(self, stem: str) -> list[str]:
        """Return the stems of the passages that equal a stem or are related to it."""
        if stem in self.relatives:
            return self.relatives[stem]
        found = self.relatives[stem] = [stem] if stem in self.places else []
        for other in self.families.get(stem[:_FAMILY], ())[:_MAX_RELATED]:
            longest = max(len(stem), len(other))
            if other != stem and _shared_letters(stem, other) >= 0.65 * longest:
                found.append(other)
        return found

    def judge(self, sentence: AnswerSentence, quoted: bytes) -> SentenceSupport | None:
        """Return whether a sentence is supported, and why not; None if it claims nothing.

        `quoted` has a byte for each character: whether it is in a quote, and of which kind.
        """
        if not self.passages:
            why = (SupportReason.CITES_NOTHING,)
            return _support(sentence, why, None, ()) if sentence.claim else None
        text = _blank_verified(sentence.text, quoted)
        if not sentence.claim and not self._is_news(text):
            return None
        cited = self._cited(sentence)
        pool = cited or self.passages
        # Names are looked up in whole passages, which may continue with a pronoun.
        names = {sentence.text[name.start : name.end] for name in self._names(sentence.text)}
        in_names = {stem for name in names for stem in self.vocabulary.stems(name)}
        stems = dict.fromkeys(self.vocabulary.stems(sentence.text))
        stems = [stem for stem in stems if stem not in in_names]
        related = {stem: self._related(stem) for stem in stems}
        source, best, found = self._find_words(stems, related, pool)
        lost_numbers = self._lost_numbers(text, pool, related)
        lost_names = self._lost_names(text, pool)
        misquoted = _misquoted(sentence.text, quoted)
        unknown = [*lost_numbers, *lost_names, *misquoted]
        reasons: list[SupportReason] = []
        if lost_numbers:
            reasons.append(SupportReason.NUMBER_NOT_FOUND)
        if lost_names:
            reasons.append(SupportReason.NAME_NOT_FOUND)
        if misquoted:
            reasons.append(SupportReason.WORDS_NOT_FOUND)
        own = self.vocabulary.stems(text)
        known = found.union(in_names, *(part.headings for part in pool))
        missing = [stem for stem in dict.fromkeys(own) if stem not in known]
        if stems and self._lacks_words(text, own, missing, len(stems), pool, named=bool(names)):
            reasons += self._explain_words(text, missing, unknown)
        reasons = list(dict.fromkeys(reasons))
        if best is not None and self._negates(text, best, stems, related):
            reasons.append(SupportReason.NEGATION_DIFFERS)
        if reasons and not cited:
            reasons.append(SupportReason.CITES_NOTHING)
        shown = tuple(dict.fromkeys(unknown))[:MAX_MISSING]
        return _support(sentence, tuple(reasons), source, shown)

    def _lacks_words(
        self,
        text: str,
        own: Sequence[str],
        missing: Sequence[str],
        count: int,
        pool: Sequence[_Passage],
        *,
        named: bool,
    ) -> bool:
        """Return whether too many of `count` words are missing, and no passage is similar."""
        share = 1 - len(missing) / count
        is_low = share < WORD_SHARE
        # Beside names and numbers, a single word is weak evidence.
        none_found = not share and (len(missing) > 1 or not (named or any(map(str.isdigit, text))))
        too_many = _longest_run(own, missing) >= NEW_WORDS or (is_low and len(missing) >= NEW_WORDS)
        if not none_found and not too_many:
            return False
        # Similarity says nothing about an addition to a sentence whose other words are found.
        return not (is_low and self._is_similar(text, pool))

    def _is_similar(self, text: str, pool: Sequence[_Passage]) -> bool:
        if self.comparison is None:
            return False
        texts = [sentence.text for part in pool for sentence in part.sentences]
        return self.comparison.similarity(text, texts) >= self.comparison.floor

    def _explain_words(
        self, text: str, missing: Sequence[str], unknown: list[str]
    ) -> list[SupportReason]:
        stem, lost = stem_function(self.vocabulary.language, whole=True), frozenset(missing)
        unknown += [word for word in words(text) if stem(word) in lost]
        reasons = [SupportReason.WORDS_NOT_FOUND]
        return reasons if self.comparison is None else [*reasons, SupportReason.NOT_SIMILAR]

    def _cited(self, sentence: AnswerSentence) -> list[_Passage]:
        wanted: set[int] = set()
        for _, group in sentence.citations:
            wanted |= set(citation_numbers(group, len(self.passages)))
        return [part for part in self.passages if part.number in wanted]

    def _is_news(self, text: str) -> bool:
        """Return whether a text has a number or name that neither passages nor question have."""
        unknown = {
            *self._lost_numbers(text, self.passages, {}),
            *self._lost_names(text, self.passages),
        }
        asked = frozenset(map(fold_name, _NAME_WORD.findall(self.question)))
        return any(fold_name(word) not in asked for word in unknown)

    def _lost_numbers(
        self, text: str, pool: Sequence[_Passage], related: dict[str, list[str]]
    ) -> list[str]:
        lost: list[str] = []
        claim = Claim(self.vocabulary.labels(text))
        for number in find_numbers(text, self.vocabulary.language):
            if number.implied:
                continue
            nearby = self._around(text, number)
            wanted = {other for stem in nearby for other in related.get(stem, ())}
            keys = list(number_keys(number))
            given = [found for part in pool for key in keys for found in part.numbers.get(key, ())]
            if number.hedge:
                given += [found for part in pool for found in part.every]
            if not any(
                (not wanted or found.around is None or found.around & wanted)
                and _fits(found.cell, claim)
                and numbers_agree(number, found.number)
                for found in given
            ):
                lost.append(text[number.start : number.end])
        return lost

    def _names(self, text: str) -> list[Name]:
        return find_name_words(text, self.vocabulary.language, self.ordinary)

    def _lost_names(self, text: str, pool: Sequence[_Passage]) -> list[str]:
        named = dict.fromkeys(text[name.start : name.end] for name in self._names(text))
        claim = Claim(self.vocabulary.labels(text))
        return [name for name in named if not any(_has_name(part, name, claim) for part in pool)]

    def _find_words(
        self, stems: Sequence[str], related: dict[str, list[str]], pool: Sequence[_Passage]
    ) -> tuple[int | None, _Sentence | None, frozenset[str]]:
        """Return the passage and the sentence with most of the stems, and the stems found.

        Of each passage, the best three consecutive sentences count.
        """
        masks = Counter[int]()
        for bit, stem in enumerate(stems):
            for place in {place for other in related[stem] for place in self.places[other]}:
                masks[place] |= 1 << bit
        source, best, most, found = None, None, 0, 0
        for part in pool:
            window = 0
            last = part.first + len(part.sentences)
            for place in sorted(place for place in masks if part.first <= place < last):
                mask = masks[place]
                if mask.bit_count() > most:
                    most, source, best = (
                        mask.bit_count(),
                        part.number,
                        part.sentences[place - part.first],
                    )
                for near in (place - 1, place + 1):
                    mask |= masks.get(near, 0) if part.first <= near < last else 0
                if mask.bit_count() > window.bit_count():
                    window = mask
            found |= window
        return source, best, frozenset(stem for bit, stem in enumerate(stems) if found >> bit & 1)

    def _negates(
        self, text: str, best: _Sentence, stems: Sequence[str], related: dict[str, list[str]]
    ) -> bool:
        """Return whether a sentence negates a word that its passage does not, or vice versa."""
        given = frozenset(best.stems)
        shared = {stem: given.intersection(related[stem]) for stem in stems}
        shared = {stem: others for stem, others in shared.items() if others}
        if not stems or len(shared) / len(stems) < NEGATION_SHARE:
            return False
        mine, theirs = self.vocabulary.negated(text), best.negated
        for stem, others in shared.items():
            if stem in mine.core and not others & theirs.reach:
                return True
            if others & theirs.core and stem not in mine.reach:
                return True
        return False


def _support(
    sentence: AnswerSentence,
    reasons: tuple[SupportReason, ...],
    source: int | None,
    missing: tuple[str, ...],
) -> SentenceSupport:
    return SentenceSupport(
        start=sentence.start,
        end=sentence.end,
        supported=not reasons,
        reasons=reasons,
        source=source,
        missing=missing,
    )


def _blank_verified(text: str, quoted: bytes) -> str:
    pairs = zip(text, quoted, strict=True)
    return "".join(" " if kind == _VERIFIED[0] else char for char, kind in pairs)


def _misquoted(text: str, quoted: bytes) -> list[str]:
    quotes = (
        text[found.start() : found.end()].strip(" \n“”„«»‹›\"'")
        for found in _FAILED_RUN.finditer(quoted)
    )
    return [quote for quote in quotes if len(quote.split()) >= MIN_QUOTED]


def _longest_run(stems: Sequence[str], missing: Sequence[str]) -> int:
    lost, longest, run = frozenset(missing), 0, 0
    for stem in stems:
        run = run + 1 if stem in lost else 0
        longest = max(longest, run)
    return longest


def _shared_letters(first: str, second: str) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _group(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key, at most `MAX_ALIKE`."""
    grouped: dict[Key, list[Value]] = {}
    for key, value in pairs:
        kept = grouped.setdefault(key, [])
        if len(kept) < MAX_ALIKE:
            kept.append(value)
    return grouped


def _initials(text: str) -> frozenset[str]:
    runs = re.findall(
        r"(?<![\w’'-])(?:[A-Z][\w’'-]*(?:\s(?:of|the|and|for|de|la)){0,2}\s){1,6}[A-Z][\w’'-]*",
        text,
    )
    return frozenset("".join(re.findall(r"\b[A-Z]", run)).casefold() for run in runs)


def _fits(cell: Cell | None, claim: Claim) -> bool:
    """Return whether a number is outside of tables, or in a row and column of the claim."""
    return cell is None or (cell.fits_row(claim) and cell.fits_column(claim))


def _names_in_cells(heading: str, text: str, tables: TableCells) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    elsewhere = set(map(fold_name, _NAME_WORD.findall(heading)))
    for word in _NAME_WORD.finditer(text) if tables.starts else ():
        folded, cell = fold_name(word[0]), tables.at(word.start())
        if cell is None:
            elsewhere.add(folded)
        else:
            found.setdefault(folded, []).append(cell)
    return {word: cells[:MAX_ALIKE] for word, cells in found.items() if word not in elsewhere}


def _has_name(part: _Passage, name: str, claim: Claim) -> bool:
    """Return whether a passage has a name, or every part of a name with hyphens.

    In a table, the name must be in a row that the claim is about.
    """
    for piece in re.split(r"[-\u2010-\u2015]", name):
        folded = fold_name(piece)
        if not folded or any(_has_form(part, form, claim) for form in name_forms(folded)):
            continue
        alike = part.beginnings.get(folded[:_BEGINNING], ())
        if not any(same_people(folded, given) for given in alike):
            return False
    return True


def _has_form(part: _Passage, form: str, claim: Claim) -> bool:
    """Return whether a passage has a form of a name; in a table, in a row of the claim."""
    cells = part.cells.get(form)
    return form in part.names and (not cells or any(cell.fits_row(claim) for cell in cells))
