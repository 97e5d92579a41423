"""Compounds: words that German, Dutch and the Scandinavian languages write as one.

    Schlüssel           also finds   Haustürschlüssel
    Haustürschlüssel    also finds   Haustür and Schlüssel, which count less

No dictionary is used: a word is a compound if its parts occur among the chunks that take part. The
last part names the thing, so that a key is found by the key of a front door, but not by a key ring.
A vocabulary may have terms that the caller must not use: only terms that `occurs` accepts count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial

from msgspec import Struct
from msgspec.structs import replace

from truespan.types.document import Vocabulary
from truespan.words.query import QueryWord, WordQuery
from truespan.words.terms import stop_terms

_LINKS = {
    "danish": ("", "s", "e", "er"),
    "dutch": ("", "s", "e", "en", "er"),
    "german": ("", "s", "es", "n", "en", "er", "e"),
    "norwegian": ("", "s", "e"),
    "swedish": ("", "s", "e", "u"),
}
"""Letters between the parts of a compound, by stemmer."""
COMPOUNDING = frozenset(_LINKS)
"""Stemmers of the languages whose compounds are found."""
MIN_PART = 4
"""Minimum number of letters of a part; shorter ones begin and end too many words."""
MAX_PARTS = 3


class CompoundIndex(Struct, frozen=True):
    """The terms of a vocabulary that may be parts, and all of them by their last letters."""

    terms: frozenset[str]
    backwards: tuple[str, ...]
    """The terms in order, each written backwards."""

    def ending_with(self, term: str) -> list[str]:
        """Return the longer terms that end with a term."""
        wanted, found = term[::-1], list[str]()
        for place in range(bisect_left(self.backwards, wanted), len(self.backwards)):
            if not self.backwards[place].startswith(wanted):
                break
            found.append(self.backwards[place][::-1])
        return [longer for longer in found if longer != term]


def index_parts(terms: Collection[str]) -> CompoundIndex:
    """Return the index of distinct terms."""
    parts = frozenset(term for term in terms if len(term) >= MIN_PART and term.isalpha())
    return CompoundIndex(parts, tuple(sorted(term[::-1] for term in parts)))


# Shared by threads: a cache of frozen indexes.
@lru_cache(maxsize=8)
def index_compounds(vocabulary: Vocabulary) -> CompoundIndex:
    """Return the index of a vocabulary; the same object is indexed once."""
    return index_parts(vocabulary.terms)


def expand_compounds(
    query: WordQuery,
    indexes: Sequence[CompoundIndex],
    load: Callable[[AbstractSet[str]], None],
    occurs: Callable[[str, str], bool],
) -> WordQuery:
    """Return a query whose words have the compounds that end with them, and their own parts.

    `load` is called once, with every term that `occurs` may be called with. `occurs` returns
    whether a chunk that takes part has a term, under a stemmer. Words in quotes and stop words stay
    as they are.
    """
    words = [_Candidates.of(word, indexes) for word in query.words]
    load({term for word in words for term in word.terms()})
    return replace(query, words=tuple(word.expand(occurs) for word in words))


class _Candidates(Struct, frozen=True):
    """A word of a query, and by stemmer how its compounds and the word itself may be divided."""

    word: QueryWord
    compounds: dict[str, dict[str, list[tuple[str, ...]]]]
    """The parts before the word, for each term that ends with it."""
    parts: dict[str, list[tuple[str, ...]]]

    @classmethod
    def of(cls, word: QueryWord, indexes: Sequence[CompoundIndex]) -> _Candidates:
        found = cls(word, {}, {})
        names = () if word.exact else _LINKS.keys() & word.content_forms.keys()
        for name in sorted(names):
            is_part = partial(_is_part, indexes, stop_terms(name))
            for term in word.content_forms[name]:
                if len(term) < MIN_PART or not term.isalpha():
                    continue
                longer = {one for index in indexes for one in index.ending_with(term)}
                compounds = found.compounds.setdefault(name, {})
                for one in sorted(longer):
                    beginning = one.removesuffix(term)
                    if ways := [*_before(beginning, _LINKS[name], is_part, MAX_PARTS - 1)]:
                        compounds[one] = ways
                found.parts.setdefault(name, []).extend(divide(term, _LINKS[name], is_part))
        return found

    def terms(self) -> Iterator[str]:
        for compounds in self.compounds.values():
            for term, ways in compounds.items():
                yield term
                for parts in ways:
                    yield from parts
        for ways in self.parts.values():
            for parts in ways:
                yield from parts

    def expand(self, occurs: Callable[[str, str], bool]) -> QueryWord:
        """Return the word with the terms that occur."""
        forms, found = dict(self.word.forms), list[dict[str, tuple[str, ...]]]()
        for name, compounds in self.compounds.items():
            more = [
                term
                for term, ways in compounds.items()
                if occurs(name, term) and any(_all_occur(name, parts, occurs) for parts in ways)
            ]
            forms[name] = (*forms[name], *(term for term in more if term not in forms[name]))
        for name, ways in self.parts.items():
            usable = [parts for parts in ways if _all_occur(name, parts, occurs)]
            for part in min(usable, key=lambda parts: (len(parts), parts), default=()):
                found.append({name: (part,)})
        return replace(self.word, forms=forms, parts=tuple(found))


def _is_part(indexes: Sequence[CompoundIndex], stops: AbstractSet[str], term: str) -> bool:
    return term not in stops and any(term in index.terms for index in indexes)


def _all_occur(name: str, parts: Sequence[str], occurs: Callable[[str, str], bool]) -> bool:
    return all(occurs(name, part) for part in parts)


def divide(
    term: str, links: Sequence[str], is_part: Callable[[str], bool], most: int = MAX_PARTS
) -> Iterator[tuple[str, ...]]:
    """Yield every way to divide a term into two to `most` parts with links between them."""
    for place in range(MIN_PART, len(term) - MIN_PART + 1):
        if is_part(term[place:]):
            for before in _before(term[:place], links, is_part, most - 1):
                yield *before, term[place:]


def _before(
    beginning: str, links: Sequence[str], is_part: Callable[[str], bool], most: int
) -> Iterator[tuple[str, ...]]:
    """Yield the parts of the beginning of a compound, which ends with a link."""
    for link in links:
        bare = beginning.removesuffix(link)
        if len(bare) < MIN_PART or len(bare) + len(link) != len(beginning):
            continue
        if is_part(bare):
            yield (bare,)
        if most > 1:
            yield from divide(bare, links, is_part, most)
