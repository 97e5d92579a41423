"""Words of names in a text, folded, to compare an answer with its sources.

`follow_up` finds whole names as they are written, to add them to a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from unicodedata import normalize

from msgspec import Struct

from truespan.extensions.checks.support.numbers import MONTHS, word_list
from truespan.words.stop_words import STOP_WORDS


class Name(Struct, frozen=True):
    """A capitalised word that seems to be part of a name, folded for comparison."""

    start: int
    end: int
    folded: str


_NAME_WORD = re.compile(r"[^\W\d_](?:[\w]|(?<=\w)[’'-](?=\w))*")
_OPENS = re.compile(r"[!?…:“”\"„«»(\[—–•|]\s*\Z|\A\s*\Z")
_TITLES = frozenset(
    word_list(
        "mr mrs ms dr prof professor sir st saint mme herr frau monsieur madame señor señora "
        "chapter section page table figure source sources passage passages document i monday "
        "tuesday wednesday thursday friday saturday sunday"
    )
)
_VERBS = frozenset(
    word_list(
        "is was are were has had did does can could will would became began came found gave got "
        "held kept knew led left lost made met paid ran said saw sent shot sold stood took taught "
        "thought told went won wrote dies kills lives says est était a ist war hat es fue era"
    )
)
"""Verbs that follow a subject."""
_SINGULAR = frozenset(word_list("is was has does says dies kills lives"))
_STARTERS = frozenset(
    word_list(
        "however therefore moreover furthermore although though because since despite unlike like "
        "according first second third finally later earlier today now then thus hence instead "
        "meanwhile still yet even overall together another within without among along around "
        "across behind beside besides beyond inside outside near next nearly almost about every "
        "everyone everybody someone somebody nobody none no not nothing something many several "
        "much little water people men women children man woman child one two three four five six "
        "seven eight nine ten half part work life time day night both either neither whether "
        "unless once whenever wherever whatever whoever as well also additionally consequently "
        "originally initially eventually soon afterwards afterward yes just only such same other "
        "others all any each"
    )
)
_COUNTRIES = {
    **dict.fromkeys(("french", "frenchman", "frenchmen"), "france"),
    **dict.fromkeys(("dutch", "dutchman"), "netherlands"),
    **dict.fromkeys(("british", "briton", "britons", "uk"), "britain"),
    **dict.fromkeys(("english", "englishman"), "england"),
    **dict.fromkeys(("spanish", "spaniard", "spaniards"), "spain"),
    **dict.fromkeys(("american", "americans", "us", "usa"), "america"),
    **dict.fromkeys(("danish", "dane", "danes"), "denmark"),
    **dict.fromkeys(("polish", "pole", "poles"), "poland"),
    **dict.fromkeys(("swiss",), "switzerland"),
    **dict.fromkeys(("greek", "greeks"), "greece"),
    **dict.fromkeys(("turkish", "turk", "turks"), "turkey"),
    **dict.fromkeys(("welsh",), "wales"),
    **dict.fromkeys(("scottish", "scot", "scots"), "scotland"),
    **dict.fromkeys(("irish",), "ireland"),
    **dict.fromkeys(("finnish", "finn", "finns"), "finland"),
    **dict.fromkeys(("swedish", "swede", "swedes"), "sweden"),
    **dict.fromkeys(("norwegian", "norwegians"), "norway"),
    **dict.fromkeys(("portuguese",), "portugal"),
    **dict.fromkeys(("czech", "czechs"), "czechia"),
    **dict.fromkeys(("chinese",), "china"),
    **dict.fromkeys(("japanese",), "japan"),
}
_LAND = ("", "a", "e", "y", "o", "ia")
_PEOPLE = ("ians", "ian", "eans", "ean", "ans", "an", "ese", "ish", "ic", "i", "is", "s")


def fold_name(word: str) -> str:
    """Return a word without case, diacritics and a possessive ending."""
    word = re.sub(r"[’']s?$", "", word)
    plain = normalize("NFKD", word.casefold())
    return "".join(char for char in plain if char.isalnum())


def find_lower_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the folded words that occur in lower case."""
    return frozenset(
        fold_name(word)
        for text in texts
        for word in re.findall(r"[^\W\d_]+", text)
        if not word[0].isupper()
    )


def find_name_words(text: str, language: str, ordinary: frozenset[str]) -> list[Name]:
    """Return the capitalised words of a text that seem to be names.

    `ordinary` are folded words that are also written in lower case.
    """
    stops = STOP_WORDS.get(language, STOP_WORDS["english"])
    found: list[Name] = []
    before: re.Match[str] | None = None
    for word in _NAME_WORD.finditer(text):
        previous, before = before, word
        if not word[0][0].isupper():
            continue
        folded = fold_name(word[0])
        lower = word[0].casefold()
        if len(folded) < 2 or lower in stops or folded in stops or folded in _TITLES:
            continue
        if lower in MONTHS and lower != "may":
            continue  # Dates are compared as numbers.
        opening = _opens_at(text, word)
        joined = (
            previous is not None
            and text[previous.end() : word.start()] in (" ", "-", "\n", ". ")
            and previous[0][0].isupper()
        )
        if language == "german" and not (joined and not _opens_at(text, previous)):
            continue
        if opening:
            follows = _NAME_WORD.match(text, word.end() + 1)
            run = follows is not None and follows[0][0].isupper() and text[word.end()] == " "
            if not run and (folded in ordinary or folded in _STARTERS):
                continue
            if not run and not _acts(word[0], follows[0] if follows else ""):
                continue
        found.append(Name(*word.span(), folded))
    return found


def _acts(word: str, following: str) -> bool:
    """Return whether the first word of a sentence is the subject of a verb, as most names are."""
    if word.endswith(("’s", "'s")):
        return True
    verb = following.casefold()
    if word.endswith("s") and verb not in _SINGULAR:
        return False
    return verb in _VERBS or (len(verb) > 4 and verb.endswith("ed"))


def _opens_at(text: str, word: re.Match[str] | None) -> bool:
    return word is None or bool(_OPENS.search(text[max(0, word.start() - 12) : word.start()]))


def name_forms(folded: str) -> Iterator[str]:
    """Yield the forms of a name in a passage: the name, its singular, its country."""
    yield folded
    if folded in _COUNTRIES:
        yield _COUNTRIES[folded]
    for people, country in _COUNTRIES.items():
        if folded == country:
            yield people
    if folded.endswith("s"):
        yield folded[:-1]


def same_people(claimed: str, given: str) -> bool:
    """Return whether one name is the people of the other: Italian and Italy, Roman and Rome."""
    for longer, shorter in ((claimed, given), (given, claimed)):
        for ending in _PEOPLE:
            root = longer.removesuffix(ending)
            rest = shorter.removeprefix(root)
            if longer != root and len(root) >= 3 and rest != shorter and rest in _LAND:
                return True
    return False
