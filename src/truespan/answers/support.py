"""Compare each sentence of a model's answer with the passages that it cites.

    sentence ─> its passages ─> numbers, names, words, negation ─> similarity where words differ

A sentence that cites nothing is compared with all passages of the turn. What is compared is words,
not meaning: a sentence that swaps who did what to whom has all the words of its passage. Only text
that the model was given counts, so for a reader nothing ahead of the position does.

The work grows with the length of the answer times that of the passages, which are bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from truespan.answers.citations import citation_numbers
from truespan.answers.claims import AnswerSentence, split_answer
from truespan.answers.names import find_names, fold_name, name_forms, same_people
from truespan.answers.negation import negated_words
from truespan.answers.numbers import Number, find_numbers, numbers_agree
from truespan.parsing.sentences import sentence_spans
from truespan.retrieval.stop_words import STOP_WORDS
from truespan.retrieval.terms import stem_function, words
from truespan.types.support import SentenceSupport, Support, SupportReason
from truespan.types.trust import Visible

Similarity = Callable[[str, Sequence[str]], float]
"""Returns how similar a text is to the most similar of others; 0 to 1."""

WORD_SHARE = 0.5
"""The share of a sentence's words that its passages must have, if similarity does not help."""
CLAUSE_WORDS = 3
"""A clause with so many words of its own must have at least one of them in its passages."""
NEGATION_SHARE = 0.5
"""The share of words that a passage's sentence must share before their negations are compared."""
WINDOW = 3
"""Sentences of a passage that are taken together."""
MOST_MISSING = 20
_CODES = {
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "norwegian": "no",
    "polish": "pl",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
}
_NEUTRAL_WORDS = """
    according answer cites describes document documents excerpt explains mentions mentioned notes
    passage passages says said says source sources stated states tells told text texts writes wrote
    two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred
    thousand million billion percent
"""
_NEUTRAL = frozenset(_NEUTRAL_WORDS.split())
"""Words that say where something was found, or that are numbers: these are compared as such."""
_CLAUSES = re.compile(
    r"[,;:()—–]|\b(?:and|but|because|while|when|after|before|where|which|who|although|so that|und"
    r"|aber|weil|et|mais|y|pero|e|ma)\b"
)


class _PassageSentence(Struct, frozen=True):
    """A sentence of a passage: its content words as stems, its numbers, what it negates."""

    text: str
    stems: frozenset[str]
    numbers: tuple[Number, ...]
    negated: frozenset[str]


class _Passage(Struct, frozen=True):
    """A source as the model got it: its sentences, and all words of text and labels."""

    number: int
    sentences: tuple[_PassageSentence, ...]
    stems: frozenset[str]
    names: frozenset[str]
    numbers: tuple[Number, ...]
    initials: frozenset[str]


def check_support(
    answer: str,
    sources: Sequence[Visible],
    literal: Sequence[tuple[int, int]] = (),
    similarity: Similarity | None = None,
) -> Support:
    """Return how far the passages support an answer; `literal` are the spans of verified quotes."""
    texts = [source.text for source in sources]
    language = guess_language(" ".join(texts)) or guess_language(answer) or "english"
    passages = [_read(number, source, language) for number, source in enumerate(sources, 1)]
    check = _Check(passages, language, similarity, frozenset(_lower_words(answer, texts)))
    found: list[SentenceSupport] = []
    for sentence in split_answer(answer, _CODES.get(language, "en")):
        judged = check.judge(sentence, literal)
        if judged is not None:
            found.append(judged)
    supported = sum(sentence.supported for sentence in found)
    score = round(supported / len(found), 4) if found else None
    return Support(score, len(found), supported, tuple(found))


def guess_language(text: str) -> str | None:
    """Return the language whose function words a text has most of; None if it has too few."""
    own = Counter(words(text[:4000]))
    counts = {
        name: sum(own[word] for word in stops if len(word) > 1)
        for name, stops in STOP_WORDS.items()
    }
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= 2 else None


def _lower_words(answer: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield the folded words that are somewhere written in lower case."""
    for text in (answer, *texts):
        for found in re.finditer(r"[^\W\d_]+", text):
            if not found[0][0].isupper():
                yield fold_name(found[0])


def _read(number: int, source: Visible, language: str) -> _Passage:
    labels = (source.title, source.chapter, source.section, source.labels.source_url)
    heading = "\n".join(dict.fromkeys(labels))
    sentences = tuple(
        _PassageSentence(
            text := source.text[start:end],
            frozenset(_content_stems(text, language)),
            tuple(find_numbers(text, language)),
            frozenset(_stems(negated_words(text, language), language)),
        )
        for start, end in sentence_spans(source.text, _CODES.get(language, "en"))
    )
    whole = f"{heading}\n{source.text}"
    capitals = re.findall(
        r"\b[^\W\d_a-z]", re.sub(r"\b(?:of|the|and|for|de|la)\b", "", source.text)
    )
    return _Passage(
        number,
        sentences,
        frozenset(_content_stems(whole, language)),
        frozenset(fold_name(word) for word in re.findall(r"[^\W_]+(?:[’'][^\W_]+)*", whole)),
        tuple(find_numbers(heading, language)) + tuple(n for s in sentences for n in s.numbers),
        frozenset({"".join(capitals).casefold()}),
    )


def _stems(found: Iterable[str], language: str) -> Iterator[str]:
    stem = stem_function(language)
    stops = STOP_WORDS.get(language, frozenset())
    return (stem(word) for word in found if word not in stops)


def _content_stems(text: str, language: str) -> list[str]:
    """Return the stems of a text's words, without stop words and numbers."""
    own = (
        word
        for word in words(text)
        if len(word) > 1 and not word.isdigit() and word not in _NEUTRAL
    )
    return list(dict.fromkeys(_stems(own, language)))


class _Check(Struct, frozen=True):
    """What sentences of an answer are compared with."""

    passages: Sequence[_Passage]
    language: str
    similarity: Similarity | None
    ordinary: frozenset[str]

    def judge(
        self, sentence: AnswerSentence, literal: Sequence[tuple[int, int]]
    ) -> SentenceSupport | None:
        """Return whether a sentence is supported, and why not; None if it claims nothing."""
        if not self.passages:
            why = (SupportReason.CITES_NOTHING,)
            bare = SentenceSupport(sentence.start, sentence.end, False, why, None, ())
            return bare if sentence.claim else None
        text = _without(sentence, literal)
        cited = self._cited(sentence)
        pool = cited or self.passages
        numbers = [
            number
            for number in find_numbers(text, self.language)
            if not any(numbers_agree(number, given) for part in pool for given in part.numbers)
        ]
        names = [
            name
            for name in find_names(text, self.language, self.ordinary)
            if not any(_has_name(part, name.folded) for part in pool)
        ]
        unknown = [text[item.start : item.end] for item in (*numbers, *names)]
        if not sentence.claim:
            if sentence.denial or not unknown:
                return None
            if not any(self._is_nowhere(word) for word in unknown):
                return None
        reasons: list[SupportReason] = []
        if numbers:
            reasons.append(SupportReason.NUMBER_NOT_FOUND)
        if names:
            reasons.append(SupportReason.NAME_NOT_FOUND)
        stems = _content_stems(sentence.text, self.language)
        own = _content_stems(text, self.language)
        best, source, found = self._best_window(stems, pool)
        missing = [stem for stem in own if stem not in found]
        return self._conclude(sentence, text, cited, reasons, unknown, stems, missing, source, best)

    def _conclude(
        self,
        sentence: AnswerSentence,
        text: str,
        cited: Sequence[_Passage],
        reasons: list[SupportReason],
        unknown: list[str],
        stems: Sequence[str],
        missing: Sequence[str],
        source: int | None,
        best: _PassageSentence | None,
    ) -> SentenceSupport:
        share = 1 - len(missing) / len(stems) if stems else 1.0
        if share < WORD_SHARE:
            reasons.append(SupportReason.WORDS_NOT_FOUND)
            stem = stem_function(self.language)
            lost = frozenset(missing)
            unknown += [word for word in words(text) if stem(word) in lost]
        if best is not None and self._negates(text, best, stems):
            reasons.append(SupportReason.NEGATION_DIFFERS)
        if reasons and not cited:
            reasons.append(SupportReason.CITES_NOTHING)
        return SentenceSupport(
            sentence.start,
            sentence.end,
            not reasons,
            tuple(reasons),
            source,
            tuple(dict.fromkeys(unknown))[:MOST_MISSING],
        )

    def _cited(self, sentence: AnswerSentence) -> list[_Passage]:
        wanted: set[int] = set()
        for _, group in sentence.citations:
            wanted |= set(citation_numbers(group, len(self.passages)))
        return [part for part in self.passages if part.number in wanted]

    def _is_nowhere(self, word: str) -> bool:
        return not any(_has_name(part, fold_name(word)) for part in self.passages)

    def _best_window(
        self, stems: Sequence[str], pool: Sequence[_Passage]
    ) -> tuple[_PassageSentence | None, int | None, frozenset[str]]:
        """Return the sentence that shares most words, its passage, and the words around it."""
        wanted = frozenset(stems)
        best, source, most, found = None, None, 0, frozenset[str]()
        for part in pool:
            shared = [wanted & sentence.stems for sentence in part.sentences]
            window, width = frozenset[str](), 0
            for place in range(len(shared)):
                around = shared[max(0, place - 1) : place + WINDOW - 1]
                together = frozenset[str]().union(*around)
                if len(together) > width:
                    window, width = together, len(together)
                if len(shared[place]) > most:
                    best, source, most = part.sentences[place], part.number, len(shared[place])
            found |= window
        return best, source, found

    def _negates(self, text: str, best: _PassageSentence, stems: Sequence[str]) -> bool:
        shared = best.stems.intersection(stems)
        if not stems or len(shared) / len(stems) < NEGATION_SHARE:
            return False
        mine = frozenset(_stems(negated_words(text, self.language), self.language)) & shared
        return bool(mine) != bool(best.negated & shared)


def _without(sentence: AnswerSentence, literal: Sequence[tuple[int, int]]) -> str:
    """Return the text of a sentence with blanks in place of verified quotes."""
    text = sentence.text
    for start, end in literal:
        first, last = max(start - sentence.start, 0), min(end - sentence.start, len(text))
        if first < last:
            text = text[:first] + " " * (last - first) + text[last:]
    return text


def _has_name(part: _Passage, folded: str) -> bool:
    if any(form in part.names for form in name_forms(folded)):
        return True
    return any(same_people(folded, given) for given in part.names if given[:3] == folded[:3])
