"""The text of sources for the check of quotes, and permitted differences.

White space and the forms of quotation marks, dashes and ellipses are folded; nothing else is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import category

from msgspec import Struct

from truespan.types.chunk import ChunkKind
from truespan.types.trust import Visible

_LEFT_OUT = ("[...]", "[…]", "[...", "[…", "...]", "…]", "...", "…")
"""Marks of omission at the ends of a quote."""


class Run(Struct, frozen=True):
    """The text of sources that overlap or touch, and the same folded.

    Folded character `i` came from the character `origins[i]` of the text, which begins at `start`.
    """

    sources: list[Visible]
    start: int
    text: str
    folded: str
    origins: list[int]

    def find(self, wanted: str) -> tuple[int, int] | None:
        """Return the span of folded words that begins and ends between words, or None."""
        place = self.folded.find(wanted)
        while place >= 0:
            start = self.origins[place]
            end = self.origins[place + len(wanted) - 1] + 1
            # In the text itself: folded, the sign of a number looks like a dash.
            if is_boundary(self.text, start) and is_boundary(self.text, end):
                return self.start + start, self.start + end
            place = self.folded.find(wanted, place + 1)
        return None

    def source_of(self, start: int, end: int) -> Visible:
        """Return the source that contains a span, or at least its beginning."""
        begun = [part for part in self.sources if part.start <= start < part.end]
        return next((part for part in begun if end <= part.end), (begun or self.sources)[0])

    def overlaps(self, source: Visible, start: int, end: int) -> bool:
        """Return whether a span of this text has characters of a source."""
        is_text = source.kind is ChunkKind.TEXT
        return not is_text or (source.start < end and start < source.end)

    @property
    def last_sid(self) -> int:
        """The last sentence of the sources."""
        return max(part.last_sid for part in self.sources)


def join_sources(sources: Sequence[Visible]) -> list[Run]:
    """Join sources that overlap or touch, because a quote may span them.

    Sources with a gap of any size between them are not joined: words may be missing.
    """
    texts = [part for part in sources if part.kind is ChunkKind.TEXT]
    grouped: list[tuple[list[Visible], str]] = []
    for source in sorted(texts, key=lambda part: (part.document, part.start)):
        members, text = grouped[-1] if grouped else ([], "")
        reached = members[0].start + len(text) if members else 0
        if members and members[0].document == source.document and source.start <= reached:
            members.append(source)
            grouped[-1] = (members, text + source.text[reached - source.start :])
        else:
            grouped.append(([source], source.text))
    runs = [Run(members, members[0].start, text, *fold(text)) for members, text in grouped]
    # The description of a figure is not part of the text of its document.
    figures = [part for part in sources if part.kind is not ChunkKind.TEXT]
    return runs + [Run([figure], 0, figure.text, *fold(figure.text)) for figure in figures]


def trim(text: str) -> str:
    """Return a quote without white space and ellipses at its ends."""
    before = None
    while text != before:
        before, text = text, text.strip()
        for edge in _LEFT_OUT:
            text = text.removeprefix(edge).removesuffix(edge)
    return text


_FOLDED = {
    **dict.fromkeys("‘’‚‛′`´‹›", "'"),
    **dict.fromkeys("“”„‟″«»「」『』《》", '"'),
    "…": "...",
    "\u00ad": "",
}
_DASHES = frozenset("-\u2010\u2011\u2012\u2013\u2014\u2015\u2212")


def fold(text: str) -> tuple[str, list[int]]:
    """Return a text with one form of each mark and space, and the offset of each character."""
    folded: list[str] = []
    origins: list[int] = []

    def put(spelled: str, origin: int) -> None:
        folded.extend(spelled)
        origins.extend([origin] * len(spelled))

    for origin, char in enumerate(text):
        if char.isspace():
            if folded and folded[-1] not in " -":
                put(" ", origin)
        elif char in _DASHES:
            # Spaces around a dash and its length are typography. The sign of a number is not a
            # dash: a space before it stays.
            if folded and folded[-1] == " " and not text[origin + 1 : origin + 2].isdigit():
                folded.pop()
                origins.pop()
            if not folded or folded[-1] != "-":
                put("-", origin)
        else:
            put(_FOLDED.get(char, char), origin)
    if folded and folded[-1] == " ":
        folded.pop()
        origins.pop()
    return "".join(folded), origins


UNSPACED = (
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u3005-\u3007"
    "\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u9fff\ua000-\ua4cf\ua980-\ua9df\ua9e0-\ua9ff"
    "\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Pattern of a letter of scripts without spaces between words."""
_UNSPACED = re.compile(UNSPACED)
_IGNORED = "\u00ad\u2060\ufeff"
_HYPHENS = frozenset("-\u2010\u2011")
_APOSTROPHES = frozenset("'\u2019\u02bc\uff07")
_WORD_JOINTS = _HYPHENS | _APOSTROPHES | frozenset("_^")
"""Characters that are part of a word between two letters or digits: well-known, can't."""
_NUMBER_JOINTS = frozenset(".,:/\u00b7\u2013\u2212\u066b\u066c\u00d7'\u2019_-\u2010\u2011")
"""Characters that are part of a number, date, time or range between two digits."""
_SPACES = frozenset(" \u00a0\u2007\u2009\u202f")
"""Spaces that separate thousands between groups of three digits."""
_SIGNS = frozenset("-\u2010\u2011\u2013\u2212+\u00b1\u2213<>\u2264\u2265\u2248~\u223c")
_UNITS = frozenset("%\u2030\u066a\u00b0\u00ba\u2032\u2033\u2103\u2109\uff05")
_TEN_THOUSANDS = frozenset("十百千万萬億亿兆")
_ELIDED = frozenset(
    {
        *("l", "d", "j", "m", "t", "s", "n", "c", "qu", "jusqu", "lorsqu", "puisqu", "quoiqu"),
        *("presqu", "quelqu", "un", "all", "dall", "dell", "nell", "sull", "coll", "quell", "bell"),
    }
)
"""Elided words of Romance languages: after their apostrophe another word begins."""
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}\Z")
_GROUP_OF_THREE = re.compile(r"\d{3}(?!\d)")
_LAST_LETTERS = re.compile(r"[^\W\d_]{1,8}\Z")


def is_boundary(text: str, place: int) -> bool:
    """Return whether a quote may begin or end at `place`: not inside a word or a number.

    A combining mark belongs to its letter, a sign, currency or unit to its number, and a word with
    a hyphen or apostrophe is one word.
    """
    before, after = _neighbours(text, place)
    if not before or not after:
        return True
    last, first = before[-1], after[0]
    if _is_mark(first):
        return False
    if _cuts_number(before, after):
        return False
    if _UNSPACED.match(last) or _UNSPACED.match(first):
        return True
    if _is_wordy(last) and _is_wordy(first):
        return False
    if last in _WORD_JOINTS and _is_wordy(first) and _is_wordy(before[-2:-1]):
        elided = last in _APOSTROPHES and _LAST_LETTERS.search(before[:-1])
        return bool(elided) and elided[0].lower() in _ELIDED
    return not (first in _WORD_JOINTS and _is_wordy(last) and _is_wordy(after[1:2]))


def _neighbours(text: str, place: int) -> tuple[str, str]:
    """Return the characters around a place, without those that only control line breaks."""
    before, after = text[max(0, place - 16) : place], text[place : place + 8]
    for char in _IGNORED:
        before, after = before.replace(char, ""), after.replace(char, "")
    return before, after


def _cuts_number(before: str, after: str) -> bool:
    last, first = before[-1], after[0]
    ends, begins = last.isdigit(), first.isdigit()
    if ends and begins:
        return True
    if ends:
        if first in _UNITS or category(first) == "Sc" or first in _TEN_THOUSANDS:
            return True
        if first in _SPACES and _THOUSANDS.search(before) and _GROUP_OF_THREE.match(after, 1):
            return True
        return first in _NUMBER_JOINTS and after[1:2].isdigit()
    ahead = before[-2:-1]
    if begins:
        if category(last) == "Sc":
            return True
        if last in _SPACES and _THOUSANDS.search(before[:-1]) and _GROUP_OF_THREE.match(after):
            return True
        if last in _NUMBER_JOINTS and ahead.isdigit():
            return True
        if last == "." and not (ahead and (_is_wordy(ahead) or ahead in ".)]")):
            return True  # A fraction without its zero, as in .5 percent.
    # A sign stands before its number; after a word or another dash it is a dash itself.
    amount = begins or category(first) == "Sc" or (first == "." and after[1:2].isdigit())
    return amount and (
        (last in _SIGNS and not (_is_wordy(ahead) or (ahead and ahead in _DASHES)))
        or (category(first) == "Sc" and _is_wordy(last) and not _UNSPACED.match(last))
    )


def _is_wordy(char: str) -> bool:
    """Return whether a character is part of a word; "" is not."""
    return char.isalnum() or (char != "" and _is_mark(char))


def _is_mark(char: str) -> bool:
    return category(char)[0] == "M" or char in "\u200c\u200d"
