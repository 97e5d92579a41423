"""Metadata derived from a document after it was embedded: title, authors, dates, keywords, outline.

They describe the whole document, so readers never see them. Declared metadata take precedence over
those that the source states, and these over those derived from the text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import compress, filterfalse
from operator import mul
from typing import Any

from truespan.types.document import Derivable

MAX_KEYWORDS = 12
MAX_OUTLINE = 500
_PARTS = 10
_SAMPLE = 2_000
"""Number of characters read from each tenth of a text to find keywords."""
_SHORT = 400
"""Length of a text below which a regular expression is faster than a translation table."""
_MIN_LENGTH = 4
_MARKERS = re.compile(r"\[FIGURE:(?:(?!\[FIGURE:)[^\]\s])++\]")
_WORD = re.compile(r"[^\W\d_]\w+(?:[’'-]\w+)*")
_ASCII_WORD = re.compile(_WORD.pattern, re.ASCII)
"""The same for ASCII text, in half the time."""
_RUNS = bytes(byte if chr(byte).isalnum() or chr(byte) in "_'-" else 32 for byte in range(128))
_RUNS += bytes(128)
"""Translation table that replaces all characters but those of ASCII words by spaces."""
_COMMON = frozenset(
    """about above after again against also although always among another because been before
    being below between both came come could does doing done down during each ever every from
    further gave give given goes going gone good great have having here herself himself however
    into itself just know known last least less like little long made make many might more most
    much must myself never next none nothing often only other others ours over part perhaps
    quite rather said same says seem seemed shall should since some something soon still such
    take taken than that their theirs them themselves then there therefore these they thing
    things this those though three through thus time told took toward towards under until upon
    used very want wants well went were what when where whether which while whom whose will with
    within without would your yours yourself
    aber alle allem allen aller alles also andere auch beim bereits dabei damit dann dass dein
    denn deren desen dich diese diesem diesen dieser dieses doch dort durch eine einem einen
    einer eines etwas euch euer ganz gegen habe haben hatte hatten hier hinter ihnen ihre ihrem
    ihren ihrer immer jede jedem jeden jeder jedes jetzt kann kein keine keinem keinen keiner
    können könnte machen mehr mein meine meinem meinen meiner mich muss müssen nach nicht nichts
    noch nunmehr oder ohne sehr sein seine seinem seinen seiner selbst sich sind soll sollte
    sondern sonst über unter viel vom waren warum weil welche welchem welchen welcher wenn werde
    werden wieder will wird wurde würde zwar zwischen
    ainsi alors après aussi autre autres avant avec avoir cela celle celui cette ceux chaque
    comme contre dans depuis deux donc dont elle elles encore entre était être fait faire leur
    leurs lorsque mais même moins notre nous nouvelle pour pourquoi quand quelque sans sera ses
    sont sous toujours tous tout toute toutes très votre vous
    como cuando desde donde ella ellas ellos entre era esta estaba estas este esto estos había
    hacia hasta muy nada nosotros otra otro para pero porque puede quien según sido siempre sobre
    solo también tiene todo todos una unos""".split()  # noqa: SIM905 -- a list of quoted words is no list of words
)


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
        "keywords": words or keywords(source.text),
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


def keywords(text: str) -> list[str]:
    """Return the most frequent and most evenly used words of a text, without common words."""
    # A word is ranked by its count times the number of tenths of the text it occurs in, so that a
    # single scene does not represent a book.
    every: list[str] = []
    every_folded: list[str] = []
    once_a_part: list[str] = []
    # The beginning of each tenth of the text, in whole words.
    width = -(-len(text) // _PARTS) or 1
    for start in range(0, len(text), width):
        end = start + min(width, _SAMPLE)
        sample = text[start:end]
        if start and not text[start - 1].isspace():
            sample = sample.partition(" ")[2]
        if end < len(text) and not text[end].isspace():
            sample = sample.rpartition(" ")[0]
        if "[" in sample:
            sample = _MARKERS.sub(" ", sample)
        words, folded = _ascii_words(sample) if sample.isascii() else _words(sample)
        every += words
        every_folded += folded
        once_a_part += {*folded}
    counts, spread = Counter(every_folded), Counter(once_a_part)
    # A word that occurs once has a lower score than all others.
    repeated = [word for word, count in counts.items() if count > 1]
    wanted = _without_common(repeated)
    if len(wanted) < MAX_KEYWORDS:
        wanted = _without_common(counts)
    scores = list(map(mul, map(counts.__getitem__, wanted), map(spread.__getitem__, wanted)))
    # Only words with the best scores are sorted by their letters too.
    least = min(sorted(scores)[-MAX_KEYWORDS:], default=0)
    best = [(-score, word) for score, word in zip(scores, wanted, strict=True) if score >= least]
    ranked = [word for _, word in sorted(best)[:MAX_KEYWORDS]]
    # Each in the spelling that the text uses most often.
    spelled: dict[str, list[str]] = {word: [] for word in ranked}
    spellings = Counter(compress(every, map(spelled.__contains__, every_folded)))
    for spelling in spellings:
        spelled[spelling.casefold()].append(spelling)
    return [min(found, key=lambda word: (-spellings[word], word)) for found in spelled.values()]


def _words(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text, as written and case-folded."""
    words = _WORD.findall(text)
    return words, [word.casefold() for word in words]


def _ascii_words(text: str) -> tuple[list[str], list[str]]:
    """Return the result of `_words` for ASCII text, in any order and with single letters."""
    if len(text) < _SHORT:
        found: list[str] = _ASCII_WORD.findall(text)
        return found, " ".join(found).lower().split()
    # No word extends beyond a run of such characters, and most runs are letters only.
    runs = text.encode().translate(_RUNS).decode().split()
    words: list[str] = list(filter(str.isalpha, runs))
    if len(words) < len(runs):
        words += _ASCII_WORD.findall(" ".join(filterfalse(str.isalpha, runs)))
    return words, " ".join(words).lower().split()


def _without_common(words: Iterable[str]) -> list[str]:
    return [word for word in words if len(word) >= _MIN_LENGTH and word not in _COMMON]
