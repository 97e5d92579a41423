"""Turn text into terms: words, case-folded and stemmed by language.

Scripts without spaces are read two or three characters at a time, which finds as much as
dictionaries do. Texts keep their stop words; `parse_query` leaves them out of queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, partial
from threading import local
from typing import NamedTuple
from unicodedata import category, combining, is_normalized, normalize

from truespan.words.stop_words import STOP_WORDS

RECIPE = "3"
"""Version of the rules for terms; stored counts with another version are replaced."""
MAX_TERM_CHARS = 64
"""Maximum length of a term in characters; longer terms are cut."""
MAX_STEMS = 1 << 16
"""Maximum number of cached terms of each language."""

_EAST_ASIAN = (
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
"""Chinese, Japanese and Korean, whose runs are read two characters at a time. Korean has spaces
between words, but its particles and endings are written without one."""
_SOUTH_EAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer without spaces between words, read three characters at a time."""
_UNSPACED = _EAST_ASIAN + _SOUTH_EAST_ASIAN
_FIRST_UNSPACED = "\u0e00"
"""First character of the scripts without spaces."""
TERMS_OF_A_WORD = {"chinese": 2, "japanese": 2, "korean": 2, "thai": 7}
"""Usual number of terms of a word, in languages whose terms are pairs or triples of characters."""
_COMPOSED_VOWELS = {"\u0e4d\u0e32": "\u0e33", "\u0ecd\u0eb2": "\u0eb3"}
"""Vowels of Thai and Lao that NFKC takes apart. They are one key, and one character of a text."""

CODEC = "cp1252"
"""The characters of Western European languages with their usual punctuation, one byte each."""

_IRREGULAR = b"\0"
"""Stands for a byte that becomes more than one: it is neither a letter nor a space."""

_FOLDED_WORD = re.compile(rb"[^ ]+")

_STEMMER_PAIRS = """
    ar:arabic ca:catalan cs:czech da:danish de:german el:greek en:english eo:esperanto
    es:spanish et:estonian eu:basque fa:persian fi:finnish fr:french ga:irish hi:hindi
    hu:hungarian hy:armenian id:indonesian it:italian lt:lithuanian nb:norwegian ne:nepali
    nl:dutch nn:norwegian no:norwegian pl:polish pt:portuguese ro:romanian ru:russian
    sr:serbian st:sesotho sv:swedish ta:tamil tr:turkish yi:yiddish
"""
_STEMMERS = {code: name for code, _, name in (p.partition(":") for p in _STEMMER_PAIRS.split())}
"""Snowball's algorithm for each language that has one."""

_UNSTEMMED = {"ja": "japanese", "ko": "korean", "th": "thai", "zh": "chinese"}
"""Names of languages without a stemmer that have stop words."""

_TERM_LETTERS = {"arabic": 5, "greek": 6, "polish": 5, "russian": 5, "turkish": 5}
"""Maximum number of letters of a term by stemmer, where stems keep many endings of a word. Measured
on questions; see bench/RESULTS.md."""

_FOLDED_LETTERS = str.maketrans("đłøı", "dloi")
"""Letters whose strokes are no separate characters in NFKD."""
_ARABIC_MARKS = re.compile("[\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]")
"""Vowel signs, and the tatweel that stretches a word."""
_ARABIC_CONJUNCTION = re.compile(
    "^[\u0648\u0641](?=(?:\u0627\u0644|\u0628\u0627\u0644|\u0643\u0627\u0644|\u0644\u0644)..)"
)
"""A conjunction before an article. The stemmer removes the article only from the start."""


def terms(text: str, language: str, *, whole: bool = False) -> list[str]:
    """Return the terms of a text in order: stemmed words, as `whole` stems if requested."""
    name, folded = stemmer_of(language), fold_bytes(text.replace("ß", "ss"))
    if folded is None or (whole and name in _TERM_LETTERS):
        stem = stem_function(name, whole=whole)
        return [stem(word) for word in words(text)]
    # A third of the time of stemming word by word.
    return list(map(stemmed_bytes(name).__getitem__, folded.split()))


def words(text: str) -> Iterator[str]:
    """Yield the words of a text: NFKC, case-folded, diacritics and digits kept."""
    for word in split_words(text):
        yield word[:MAX_TERM_CHARS]


def split_words(text: str) -> list[str]:
    """Return the words of a text of any length; for most texts, one table suffices."""
    folded = fold_bytes(text.replace("ß", "ss"))
    return _split_any(text) if folded is None else folded.decode(CODEC).split()


class WordSpan(NamedTuple):
    """A word, and the start and end of the characters it comes from."""

    word: str
    start: int
    end: int


def word_spans(text: str) -> list[WordSpan]:
    """Return the words of a text with their places; words that NFKC takes apart share one."""
    folded = fold_bytes(text)
    if folded is not None:
        return [
            WordSpan(found[0].decode(CODEC)[:MAX_TERM_CHARS], found.start(), found.end())
            for found in _FOLDED_WORD.finditer(folded)
        ]
    spans: list[WordSpan] = []
    for match in _pattern().finditer(text):
        start, end = match.span()
        found = _split_any(match[0])
        size = len(found[0]) if found else 0
        if len(found) > 1 and size <= 3 and len(found) == end - start - size + 1:
            # Two or three characters of a script without spaces.
            spans += (WordSpan(word, at, at + size) for at, word in enumerate(found, start))
        else:
            spans += (WordSpan(word[:MAX_TERM_CHARS], start, end) for word in found)
    return spans


def distinct_words(text: str, limit: int) -> tuple[str, ...]:
    """Return the first distinct words of a text, in order."""
    return tuple(dict.fromkeys(span.word for span in word_spans(text)))[:limit]


def place_words(text: str, found: Iterable[str]) -> Iterator[tuple[float, str]]:
    """Yield the words of a text with the number of words before each, as if all had spaces."""
    if text.isascii() or max(text) < _FIRST_UNSPACED:
        yield from enumerate(found)
        return
    at = 0.0
    for word in found:
        yield at, word
        at += _share_of_word(word)


def _share_of_word(term: str) -> float:
    """Return the usual share of a term in a word: less than one in scripts without spaces."""
    if term[0] < _FIRST_UNSPACED:
        return 1.0
    run = _pattern().match(term)
    name = {1: "chinese", 2: "thai"}.get((run and run.lastindex) or 0, "")
    return 1 / TERMS_OF_A_WORD.get(name, 1)


def fold_bytes(text: str) -> bytes | None:
    """Return a text in `CODEC`, one byte a character; None if a table of bytes does not suffice.

    Its words are case-folded, with spaces everywhere else.
    """
    try:
        # The codec is several times slower.
        data = text.encode() if text.isascii() else text.encode(CODEC)
    except UnicodeEncodeError:
        return None
    folded = data.translate(_byte_table())
    return None if _IRREGULAR in folded else folded


def _split_any(text: str) -> list[str]:
    """Return the words of a text in any script."""
    folded = text
    if not is_normalized("NFKC", text):
        folded = normalize("NFKC", text)
        for apart, vowel in _COMPOSED_VOWELS.items():
            folded = folded.replace(apart, vowel)
    found: list[str] = []
    for match in _pattern().finditer(folded.casefold()):
        run = match[0]
        # The number of the group is the number of characters that are read at a time.
        size = match.lastindex + 1 if match.lastindex else len(run)
        if len(run) <= size:
            found.append(run)
        else:
            found += (run[place : place + size] for place in range(len(run) - size + 1))
    return found


# Shared by threads: caches of texts, of a compiled pattern and of a table, which never change.
@cache
def _byte_table() -> bytes:
    """Return the table that folds each byte of a text in `CODEC`.

    A letter becomes its case-folded form, more complex characters are marked, and all others become
    a space. All are found with `_split_any`, one character at a time: none of these characters
    combines with its neighbours.
    """
    table = bytearray(b" " * 256)
    for code in range(256):
        char = bytes([code]).decode(CODEC, errors="replace")
        found = _split_any(f"a{char}a")
        if found == ["a", "a"]:
            continue
        folded = found[0][1:-1].encode(CODEC, errors="ignore")
        if len(found) == 1 and len(folded) == 1 == len(found[0]) - 2:
            table[code] = folded[0]
        else:
            table[code] = _IRREGULAR[0]
    return bytes(table)


def stemmer_of(language: str) -> str:
    """Return the name of the stemmer of a language, else of its stop words, else a blank one."""
    code = language.casefold().replace("_", "-").partition("-")[0]
    return _STEMMERS.get(code) or _UNSTEMMED.get(code, "")


def fold_diacritics(word: str) -> str:
    """Return a case-folded word in Latin letters without diacritics; any other word unchanged."""
    if word.isascii():
        return word
    parts = normalize("NFKD", word.translate(_FOLDED_LETTERS))
    folded = "".join(char for char in parts if not combining(char))
    return folded if folded.isascii() else word


# Shared by threads: as above.
@cache
def recipe_of(language: str) -> str:
    """Return a name for the way terms of a language are produced."""
    # Imported here because it is slow and most programs never count words.
    from importlib.metadata import version

    name = stemmer_of(language)
    rules = f"{RECIPE}:{name}{_TERM_LETTERS.get(name, '')}"
    return f"{rules}:{version('PyStemmer')}" if name else RECIPE


# Shared by threads: a cache of functions; each thread has its own stemmer, and stems are kept in an
# `lru_cache`, which locks.
@cache
def stem_function(name: str, *, whole: bool = False) -> Callable[[str], str]:
    """Return a function that makes the term of one word, safe to call from any thread.

    `name` is that of `stemmer_of`; without an algorithm of Snowball, words are returned unchanged.
    In some languages a term is the first letters of a stem; with `whole`, it is the whole stem.
    """
    if not _is_stemmed(name):
        return lambda word: word
    stemmer = _ThreadStemmer(name, whole=whole)
    # A cached stem takes a third of the time.
    return lru_cache(maxsize=MAX_STEMS)(lambda word: stemmer.stem(word))


def _is_stemmed(name: str) -> bool:
    return bool(name) and name not in _UNSTEMMED.values()


class _ThreadStemmer(local):
    """A stemmer for each thread, because PyStemmer allows no sharing."""

    def __init__(self, name: str, *, whole: bool = False) -> None:
        # Imported here because most programs never stem a word.
        from Stemmer import Stemmer

        stem: Callable[[str], str] = Stemmer(name, 0).stemWord
        if name == "arabic":
            self.stem = lambda word: stem(_trim_arabic(word))
        elif name == "turkish":
            # Case folding loses which I had a dot, so that no I has one.
            self.stem = lambda word: stem(word.replace("i\u0307", "i")).replace("\u0131", "i")
        else:
            self.stem = stem
        if name in _TERM_LETTERS and not whole:
            self.stem = partial(_cut_stem, self.stem, _TERM_LETTERS[name])


def _cut_stem(stem: Callable[[str], str], letters: int, word: str) -> str:
    """Return the first letters of the stem of a word. Numbers and words with a digit stay whole."""
    found = stem(word)
    return found[:letters] if found.isalpha() else found


def _trim_arabic(word: str) -> str:
    """Return a word without vowel signs, and without a conjunction before an article."""
    return _ARABIC_CONJUNCTION.sub("", _ARABIC_MARKS.sub("", word))


class StemmedBytes(dict[bytes, str]):
    """The terms of words in `CODEC`, each made when it is first looked up.

    For thousands of words at once: a lookup that finds something calls no function. Threads may
    share it, as all of them would make the same terms.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._stemmer = _ThreadStemmer(name) if _is_stemmed(name) else None

    def __missing__(self, word: bytes) -> str:
        term = word.decode(CODEC)[:MAX_TERM_CHARS]
        if self._stemmer:
            term = self._stemmer.stem(term)
        if len(self) >= MAX_STEMS:
            self.clear()
        self[word] = term
        return term


# Shared by threads: dictionaries of words and their terms, which any thread would make alike.
@cache
def stemmed_bytes(name: str) -> StemmedBytes:
    """Return the terms of the stemmer of this name; they are kept, up to a number of words."""
    return StemmedBytes(name)


# Shared by threads: caches of texts, of a compiled pattern and of a table, which never change.
@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of words; its groups are runs that are read some characters at a time.

    A combining mark belongs to the letter before it, unlike in Python's own `\\w`.
    """
    codes = (code for code in range(0x300, 0x10000) if category(chr(code))[0] == "M")
    marks = "".join(f"\\u{code:04x}" for code in codes)
    letter = f"[^\\W_{_UNSPACED}]"
    runs = (f"([{script}][{script}{marks}]*)" for script in (_EAST_ASIAN, _SOUTH_EAST_ASIAN))
    return re.compile(f"{'|'.join(runs)}|{letter}+(?:[{marks}]+{letter}*)*")


# Shared by threads: caches of sets of words, which never change.
@cache
def stop_terms(stemmer: str) -> frozenset[str]:
    """Return the terms of the stop words of a language; none for a language without a list."""
    return frozenset(map(stem_function(stemmer), STOP_WORDS.get(stemmer, ())))


ARABIC_PARTICLES = frozenset("وفبكلس")
"""Letters that are words of their own: and, so, with, like, to and will."""
MIN_PARTICLE_LETTERS = 5
"""Minimum length of a word that may begin with a particle."""


def bare_terms(word: str, stemmer: str) -> tuple[str, ...]:
    """Return the term of an Arabic word without its first letter; empty if that is no particle.

    "لناسا" is "to NASA". Many words begin with the same letters, so that texts keep them, and a
    word of a query or of a passage is compared with and without one.
    """
    if stemmer != "arabic" or len(word) < MIN_PARTICLE_LETTERS or word[0] not in ARABIC_PARTICLES:
        return ()
    return (stem_function(stemmer)(word[1:]),)
