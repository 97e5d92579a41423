"""Metadata derived from a document after it was embedded: title, authors, dates, keywords, outline.

They describe the whole document, so readers never see them. Declared metadata take precedence over
those that the source states, and these over those derived from the text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from truespan.types.document import Derivable
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import stemmer_of

MAX_KEYWORDS = 12
MAX_OUTLINE = 500
_PARTS = 10
_SAMPLE = 2_000
"""Number of characters read from each tenth of a text to find keywords."""
_MIN_LENGTH = 4
_MARKERS = re.compile(r"\[FIGURE:(?:(?!\[FIGURE:)[^\]\s])++\]")
_WORD = re.compile(r"[^\W\d_]\w+(?:[’'-]\w+)*")
_COMMON = frozenset(
    """above although always among another around came come done down even ever every gave give
    given goes going gone good great however just know known last like little long made make
    many might much must never next none nothing often others part perhaps quite rather said
    says seem seemed shall since something soon still take taken therefore thing things though
    three thus time told took toward towards upon used very want wants well went will within
    without""".split()  # noqa: SIM905 -- a list of quoted words is no list of words
)
"""Words that say little, besides the stop words of a language."""


def derive_metadata(source: Derivable) -> str:
    """Return the metadata of a document as a JSON object with sorted keys."""
    stated = source.properties
    words = list(stated.keywords)
    if source.declared_title:
        title_from = "declared"
    else:
        title_from = "source" if source.title == stated.title else "text or file name"
    derived: dict[str, Any] = {
        "title": source.title,
        "title_from": title_from,
        "authors": list(stated.authors),
        "created": stated.created,
        "modified": stated.modified,
        "publisher": stated.publisher,
        "description": stated.description,
        "language": source.language,
        "language_from": "declared" if source.language_declared else "detected",
        "keywords": words or keywords(source.text, source.language),
        "keywords_from": "source" if words else "text",
        "outline": [
            {"chapter": entry.chapter, "section": entry.section, "first_sid": entry.first_sid}
            for entry in source.outline[:MAX_OUTLINE]
            if entry.chapter or entry.section
        ],
        "characters": len(source.text),
        "sentences": source.sentences,
    }
    declared = json.loads(source.metadata) if source.metadata else {}
    return json.dumps({**derived, **declared}, sort_keys=True, ensure_ascii=False)


def keywords(text: str, language: str = "en") -> list[str]:
    """Return the most frequent and most evenly used words of a text, without common words."""
    # A word is ranked by its count times the number of tenths of the text it occurs in, so that a
    # single scene does not represent a book.
    parts = [_WORD.findall(_MARKERS.sub(" ", sample)) for sample in _samples(text)]
    spellings = Counter(chain.from_iterable(parts))
    unwanted = _COMMON | STOP_WORDS[stemmer_of(language)]
    # Each step visits a distinct word once: most words of a text are repetitions.
    folded = {
        spelling: word
        for spelling in spellings
        if len(spelling) >= _MIN_LENGTH and (word := spelling.casefold()) not in unwanted
    }
    counts, spread = dict.fromkeys(folded.values(), 0), Counter[str | None]()
    for spelling, word in folded.items():
        counts[word] += spellings[spelling]
    for part in parts:
        spread.update({*map(folded.get, {*part})})
    scores = sorted((-count * spread[word], word) for word, count in counts.items())
    found = {word: "" for _, word in scores[:MAX_KEYWORDS]}
    # Each word in its most frequent spelling.
    chosen = [spelling for spelling, word in folded.items() if word in found]
    for spelling in sorted(chosen, key=lambda spelling: (-spellings[spelling], spelling)):
        found[folded[spelling]] = found[folded[spelling]] or spelling
    return list(found.values())


def _samples(text: str) -> Iterator[str]:
    """Yield the beginning of each tenth of a text, in whole words."""
    width = -(-len(text) // _PARTS) or 1
    for start in range(0, len(text), width):
        end = start + min(width, _SAMPLE)
        sample = text[start:end]
        if start and not text[start - 1].isspace():
            sample = sample.partition(" ")[2]
        if end < len(text) and not text[end].isspace():
            sample = sample.rpartition(" ")[0]
        yield sample
