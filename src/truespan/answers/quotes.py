"""Find the quotes of an answer and check them against the text of its sources.

Only white space and the forms of quotation marks, dashes and ellipses may differ: a quote that
omits or changes a word is not verified.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias
from unicodedata import category

from msgspec import Struct
from msgspec.structs import replace

from truespan.answers.citations import CLOSERS, GROUP, OPENERS
from truespan.answers.prompt import unrepeated_spans
from truespan.text.tables import unformat_rows
from truespan.types.answer import Quote
from truespan.types.bundle import Notice
from truespan.types.chunk import ChunkKind
from truespan.types.text import SentenceRange, name_best, name_place, name_sources
from truespan.types.trust import Visible

MIN_SINGLE_WORDS = 3
MIN_SINGLE_CHARACTERS = 15
"""Shorter texts between single marks are mostly apostrophes and names."""

Span: TypeAlias = tuple[int, int, str]
"""Start and end of a quote with its marks, and the words between them."""

_BLOCK = re.compile(r"^[ ]{0,3}>.*(?:\n[ ]{0,3}>.*)*", re.MULTILINE)
_BLOCK_MARK = re.compile(r"^[ ]{0,3}>[ ]?", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n\s*\n|\Z")
_LOW = re.compile(r"„([^„“”]+)[“”]")
_ALIKE = re.compile(r"(?<!\w)”([^“”]+)”")
_STRAIGHT = re.compile(r'"((?:[^"\n]|\n(?!\s*\n))+)"')
_PAIRED = (
    re.compile(r"«([^«»]+)»|»([^«»]+)«"),
    re.compile(r"‹([^‹›]+)›|›([^‹›]+)‹"),
    re.compile(r"(?<!`)``(?!`)((?:[^`'\n]|\n(?!\s*\n)|'(?!'))+)''"),
)
_SINGLE = (
    re.compile(r"(?<!\w)‘((?:[^‘’]|’(?=\w))+)’"),
    re.compile(r"‚([^‚‘’]+)[‘’]"),
    re.compile(r"(?<![\w'])'(?![\s']|\d\ds\b)((?:[^'\n]|\n(?!\s*\n)|(?<=\w)'(?=\w))+)'(?![\w'])"),
)
_NESTING = ("“”", "「」", "『』", "《》")
_LEFT_OPEN = re.compile(r"(?<!\w)(?:“|„|\"|(?<!`)``(?!`))(?=[^\s“”„\"`])|[「『《]")


def quotes_in(answer: str) -> Iterator[Span]:
    """Yield each quote with its span, in order; quotes inside quotes are left out."""
    spans = [(*found.span(), _BLOCK_MARK.sub("", found[0])) for found in _BLOCK.finditer(answer)]
    rest = _blank(answer, _BLOCK)
    closed = _outermost([*_nested(rest), *_flat(rest)])
    spans += [*closed, *_left_open(rest, closed)]
    yield from (span for span in sorted(spans) if any(char.isalnum() for char in span[2]))


def _flat(text: str) -> Iterator[Span]:
    """Yield quotes between marks that do not nest."""
    for pattern in (_LOW, _STRAIGHT, *_PAIRED):
        yield from map(_span, pattern.finditer(text))
    for pattern in _SINGLE:
        for span in map(_span, pattern.finditer(text)):
            words = span[2].split()
            if len(span[2]) >= MIN_SINGLE_CHARACTERS and len(words) >= MIN_SINGLE_WORDS:
                yield span


def _nested(text: str) -> Iterator[Span]:
    """Yield quotes between marks that nest, inner ones included."""
    # The closing mark of a German quote is the opening one of an English one.
    text = _blank(text, _LOW)
    for opening, closing in _NESTING:
        begun: list[int] = []
        for found in re.finditer(f"[{opening}{closing}]", text):
            if found[0] == opening:
                begun.append(found.end())
            elif begun:
                start = begun.pop()
                yield start - 1, found.end(), text[start : found.start()]
    yield from map(_span, _ALIKE.finditer(re.sub("“[^“”]*”", lambda m: " " * len(m[0]), text)))


def _left_open(text: str, closed: Sequence[Span]) -> Iterator[Span]:
    """Yield the text after the first unclosed mark of each paragraph."""
    taken = bytearray(len(text) + 1)
    for start, end, _ in closed:
        taken[start:end] = b"\1" * (end - start)
    reached = 0
    for found in _LEFT_OPEN.finditer(text):
        if found.start() >= reached and not taken[found.start()]:
            end = _PARAGRAPH_END.search(text, found.end())
            reached = end.start() if end else len(text)
            yield found.start(), reached, text[found.end() : reached]


def _outermost(spans: Sequence[Span]) -> list[Span]:
    kept: list[Span] = []
    reached = 0
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if span[1] > reached:
            kept.append(span)
            reached = span[1]
    return kept


def _span(found: re.Match[str]) -> Span:
    return *found.span(), next(group for group in found.groups() if group is not None)


def _blank(answer: str, pattern: re.Pattern[str]) -> str:
    """Return the answer with line breaks in place of matches, which keeps all offsets."""
    return pattern.sub(lambda found: "\n" * len(found[0]), answer)


Locate: TypeAlias = Callable[[Visible, int, int, int], SentenceRange]
"""Returns the sentences of a span of a chunk, searching up to a given sentence."""

_LEFT_OUT = ("[...]", "[…]", "[...", "[…", "...]", "…]", "...", "…")
"""Marks of omission at the ends of a quote."""


class Quotes(Struct, frozen=True):
    """Quotes of an answer in order, and the spans of the answer that are words of a source."""

    found: tuple[Quote, ...] = ()
    literal: tuple[tuple[int, int], ...] = ()
    warnings: tuple[Notice, ...] = ()
    failed: tuple[tuple[int, int], ...] = ()
    """Spans of quotes that are not verified."""


NO_QUOTES = Quotes()


def check_quotes(answer: str, sources: Sequence[Visible], locate: Locate) -> Quotes:
    """Find every quote of an answer in its sources."""
    runs = _runs(sources)
    found: list[Quote] = []
    literal: list[tuple[int, int]] = []
    failed: list[tuple[int, int]] = []
    for start, end, text in quotes_in(answer):
        quote = _check_quote(text, runs, locate)
        if quote.verified:
            literal.append((start, end))
        elif (shorter := _without_citations(text)) != text:
            # Some models put the source number inside the marks; check the words without it.
            quote = _check_quote(shorter, runs, locate)
        found.append(quote)
        if not quote.verified:
            failed.append((start, end))
    wrong = sum(not quote.verified for quote in found)
    count = "1 quote was" if wrong == 1 else f"{wrong} quotes were"
    warning = Notice("unverified_quote", f"{count} not found verbatim in the sources.")
    return Quotes(tuple(found), tuple(literal), (warning,) if wrong else (), tuple(failed))


class _Run(Struct, frozen=True):
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


def _runs(sources: Sequence[Visible]) -> list[_Run]:
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
    runs = [_Run(members, members[0].start, text, *fold(text)) for members, text in grouped]
    # The description of a figure is not part of the text of its document.
    figures = [part for part in sources if part.kind is not ChunkKind.TEXT]
    return runs + [_Run([figure], 0, figure.text, *fold(figure.text)) for figure in figures]


def _check_quote(text: str, runs: Sequence[_Run], locate: Locate) -> Quote:
    quote = _find_quote(text, runs, locate)
    if not quote.verified and "|" in text:
        # Models get tables in Markdown.
        found = _find_quote(unformat_rows(text), runs, locate)
        quote = replace(found, text=quote.text) if found.verified else quote
    return quote


def _find_quote(text: str, runs: Sequence[_Run], locate: Locate) -> Quote:
    shown = " ".join(text.split())
    wanted, _ = fold(_trim(text))
    for run in runs:
        span = run.find(wanted) if wanted else None
        if span is not None:
            last_sid = max(part.last_sid for part in run.sources)
            return _verified(shown, run.source_of(*span), last_sid, span, locate)
    return Quote(shown, False)


def _verified(
    text: str, source: Visible, last_sid: int, span: tuple[int, int], locate: Locate
) -> Quote:
    if source.kind is ChunkKind.TEXT:
        sentences = locate(source, last_sid, *span)
    else:
        sentences = SentenceRange(source.first_sid, source.last_sid)
    return Quote(
        text=text,
        verified=True,
        chunk_id=source.chunk_id,
        document=source.document,
        first_sid=sentences.first_sid,
        last_sid=sentences.last_sid,
        place=sentences.place,
    )


def _without_citations(text: str) -> str:
    """Return a quote without the source numbers at its end."""
    while text.rstrip().endswith(tuple(CLOSERS)):
        begin = max(map(text.rfind, OPENERS))
        if begin < 0 or not GROUP.fullmatch(text.rstrip(), begin):
            break
        text = text[:begin].removesuffix("\\").rstrip()
    return text


def _trim(text: str) -> str:
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


_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u3005-\u3007"
    "\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u9fff\ua000-\ua4cf\ua980-\ua9df\ua9e0-\ua9ff"
    "\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces between words."""
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


def quote_sources(sources: Sequence[Visible]) -> str:
    """Return each source as block quotes, followed by its number and place; nothing is repeated."""
    pairs, paragraphs = zip(sources, unrepeated_spans(sources), strict=True), []
    for number, (source, spans) in enumerate(pairs, 1):
        for start, end in spans:
            lines = source.text[start:end].splitlines()
            paragraphs.append("\n".join(f"> {line}".rstrip() for line in lines))
        place = name_place((source.title, source.chapter, source.section), source.location)
        place += name_best(source.chapter, source.section, source.location, source.best_sentence)
        others = (
            f"; also in {name_sources(at.source_url for at in source.other_places)}"
            if source.other_places
            else ""
        )
        paragraphs.append(f"[{number}] {place} ({source.labels.source_url}{others})")
    return "\n\n".join(paragraphs)


def quotes_of(sources: Sequence[Visible], locate: Locate) -> tuple[Quote, ...]:
    """Return the quotes of an answer by `quote_sources`; all of them are verified."""
    return tuple(
        _verified(
            " ".join(source.text[start:end].split()),
            source,
            source.last_sid,
            (source.start + start, source.start + end),
            locate,
        )
        for source, spans in zip(sources, unrepeated_spans(sources), strict=True)
        for start, end in spans
    )
