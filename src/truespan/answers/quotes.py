"""Find the quotes of an answer and check them against the text of its sources.

Only white space and the forms of quotation marks, dashes and ellipses may differ: a quote that
omits or changes a word is not verified.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from truespan.answers.citations import CLOSERS, GROUP, OPENERS, citation_numbers
from truespan.answers.prompt import unrepeated_spans
from truespan.answers.verbatim import UNSPACED, Run, fold, join_sources, trim
from truespan.core.records import copy_fields
from truespan.text.tables import drop_empty_cells, unformat_rows
from truespan.types.answer import Difference, Quote, QuotePart, QuoteVerdict
from truespan.types.bundle import Notice
from truespan.types.chunk import ChunkKind
from truespan.types.text import SentenceRange, escape_label, name_best, name_place, name_sources
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


class Quotes(Struct, frozen=True):
    """Quotes of an answer in order, and the spans of the answer that are words of a source."""

    found: tuple[Quote, ...] = ()
    literal: tuple[tuple[int, int], ...] = ()
    warnings: tuple[Notice, ...] = ()
    failed: tuple[tuple[int, int], ...] = ()
    """Spans of quotes that are not verified."""


NO_QUOTES = Quotes()
MAX_CITED = 1000
"""Greatest number of a cited source."""
_PUNCTUATION = re.compile(r"[\s.,;:!?)\]}\"'”’»“*_]*")


def check_quotes(answer: str, sources: Sequence[Visible], locate: Locate) -> Quotes:
    """Find every quote of an answer in its sources."""
    lookup = _Lookup(sources, join_sources(sources), locate)
    found: list[Quote] = []
    literal: list[tuple[int, int]] = []
    failed: list[tuple[int, int]] = []
    for start, end, text in quotes_in(answer):
        # Some models put the number of the source inside the marks.
        shorter = _without_citations(text)
        cited = _cited_behind(answer, end) or _cited_behind(text, len(shorter))
        quote = lookup.check(text, cited)
        if quote.verified:
            literal.append((start, end))
        elif shorter != text:
            quote = lookup.check(shorter, cited)
        if not quote.verified:
            quote = lookup.explain(shorter, quote)
            failed.append((start, end))
        found.append(quote)
    return Quotes(tuple(found), tuple(literal), tuple(_warnings(found)), tuple(failed))


def _warnings(quotes: Sequence[Quote]) -> Iterator[Notice]:
    wrong = sum(not quote.verified for quote in quotes)
    if wrong:
        count = "1 quote was" if wrong == 1 else f"{wrong} quotes were"
        yield Notice("unverified_quote", f"{count} not found verbatim in the sources.")
    elsewhere = sum(quote.verdict is QuoteVerdict.MISATTRIBUTED for quote in quotes)
    if elsewhere:
        count = "1 quote stands" if elsewhere == 1 else f"{elsewhere} quotes stand"
        yield Notice("misattributed_quote", f"{count} in another source than the cited one.")


def _cited_behind(text: str, place: int) -> list[int]:
    """Return the numbers cited directly behind a place; only punctuation may stand between."""
    punctuation = _PUNCTUATION.match(text, place)
    group = GROUP.match(text, punctuation.end() if punctuation else place)
    return [*citation_numbers(group[1], MAX_CITED)] if group else []


class _Lookup(Struct, frozen=True):
    """Search for quotes in the sources of an answer."""

    sources: Sequence[Visible]
    runs: Sequence[Run]
    locate: Locate

    def check(self, text: str, cited: Sequence[int]) -> Quote:
        """Find a quote, in the cited sources first."""
        quote = self._find(text, text, cited)
        if not quote.verified and "|" in text:
            # Models get tables in Markdown, where each row has all cells.
            rows = unformat_rows(text)
            quote = self._find(rows, text, cited)
            if not quote.verified:
                quote = self._find(drop_empty_cells(rows), text, cited)
        return quote

    def _find(self, text: str, shown: str, cited: Sequence[int]) -> Quote:
        shown = " ".join(shown.split())
        wanted, _ = fold(trim(text))
        if not wanted:
            return Quote(shown, False)
        named = [self.sources[number - 1] for number in cited if 1 <= number <= len(self.sources)]
        alone = (run for source in named for run in join_sources([source]))
        for run in (*alone, *self.runs):
            span = run.find(wanted)
            if span is not None:
                return self._found(shown, run, span, named)
        return Quote(shown, False)

    def _found(
        self, shown: str, run: Run, span: tuple[int, int], named: Sequence[Visible]
    ) -> Quote:
        source = run.source_of(*span)
        touched = {part.chunk_id for part in run.sources if run.overlaps(part, *span)}
        elsewhere = bool(named) and touched.isdisjoint(part.chunk_id for part in named)
        quote = _verified(shown, source, run.last_sid, span, self.locate)
        return replace(quote, verdict=QuoteVerdict.MISATTRIBUTED) if elsewhere else quote

    def explain(self, text: str, quote: Quote) -> Quote:
        """Return a failed quote with the corresponding words of the sources."""
        failure = explain_failure(text, self.runs)
        if failure is None:
            return quote
        parts = tuple(
            _place_quote(
                part.text, part.run.source_of(*part.span), part.run.last_sid, part.span, self.locate
            )
            for part in failure.parts
        )
        if failure.verdict is QuoteVerdict.STITCHED:
            return replace(quote, verdict=failure.verdict, parts=parts)
        [part] = parts
        own = {"text": quote.text, "verdict": failure.verdict, "difference": failure.difference}
        return copy_fields(Quote, part, quote, **own)


def _verified(
    text: str, source: Visible, last_sid: int, span: tuple[int, int], locate: Locate
) -> Quote:
    part = _place_quote(text, source, last_sid, span, locate)
    return Quote(**asdict(part), verified=True, verdict=QuoteVerdict.VERBATIM)


def _place_quote(
    text: str, source: Visible, last_sid: int, span: tuple[int, int], locate: Locate
) -> QuotePart:
    """Return a quote from a span of a source with its place, searching up to `last_sid`."""
    # The description of a figure is not part of the text of its document.
    if source.kind is ChunkKind.TEXT:
        sentences = locate(source, last_sid, *span)
    else:
        sentences = SentenceRange(source.first_sid, source.last_sid)
    return QuotePart(
        text=text,
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
        at = escape_label(f"{place} ({source.source_url}{others})")
        paragraphs.append(f"[{number}] {at}")
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


MIN_PART_WORDS = 3
"""Minimum number of words of a part of a stitched quote; shorter ones occur by chance."""
MAX_PARTS = 6
MIN_ALIKE = 0.6
"""Minimum share of a quote's words that a changed quote has in common with its source."""
MOSTLY_ALIKE = 0.8
"""Share from which a quote counts as changed even if it could also be put together from parts."""
MAX_WORDS = 600
"""Maximum number of words of a quote that is compared word by word."""
_OMISSION = re.compile(r"\[?(?:\.\.\.|…)\]?")
_WORD = re.compile(rf"{UNSPACED}|[^\W_]+(?:['’_-][^\W_]+)*|\S")


class Part(Struct, frozen=True):
    """Words of a quote, and their span in a text of the sources."""

    text: str
    run: Run
    span: tuple[int, int]


class Failure(Struct, frozen=True):
    """The verdict on a quote, with the words that the sources have instead."""

    verdict: QuoteVerdict
    parts: tuple[Part, ...]
    difference: tuple[Difference, ...] = ()


def explain_failure(text: str, runs: Sequence[Run]) -> Failure | None:
    """Return why a quote does not occur in the sources; None if they have nothing similar."""
    text = trim(text)
    if not text or len(_WORD.findall(text)) > MAX_WORDS:
        return None
    omits = _OMISSION.search(text) is not None
    share, changed = _find_changed(text, runs)
    if changed is not None and share >= MOSTLY_ALIKE and not omits:
        return changed
    return _find_parts(text, runs) or changed


def _find_parts(text: str, runs: Sequence[Run]) -> Failure | None:
    """Return the quote as parts of several places; None if one of its words is in none of them."""
    parts: list[Part] = []
    for segment in _OMISSION.split(text):
        words = [*_WORD.finditer(segment)]
        begin = 0
        while begin < len(words):
            part = _longest_part(segment, words[begin:], runs)
            if part is None or len(parts) == MAX_PARTS:
                return None
            begin += part[0]
            parts.append(part[1])
    return Failure(QuoteVerdict.STITCHED, tuple(parts)) if len(parts) > 1 else None


def _longest_part(
    text: str, words: Sequence[re.Match[str]], runs: Sequence[Run]
) -> tuple[int, Part] | None:
    """Return the longest beginning of some words that occurs in a source, and its word count."""
    best: tuple[int, Part] | None = None
    least, most = min(MIN_PART_WORDS, len(words)), len(words)
    # A text that is found has all of its beginnings, so that the longest can be found by halving.
    while least <= most:
        count = (least + most) // 2
        part = _find_part(text[words[0].start() : words[count - 1].end()], runs)
        if part is None:
            most = count - 1
        else:
            best, least = (count, part), count + 1
    return best


def _find_part(text: str, runs: Sequence[Run]) -> Part | None:
    wanted, _ = fold(text)
    for run in runs:
        span = run.find(wanted) if wanted else None
        if span is not None:
            return Part(" ".join(text.split()), run, span)
    return None


def _find_changed(text: str, runs: Sequence[Run]) -> tuple[float, Failure | None]:
    """Return the place whose words are most like a quote, and the share of common words."""
    quote = [*_WORD.finditer(text)]
    best: tuple[float, Failure | None] = 0.0, None
    for run in runs:
        source = [*_WORD.finditer(run.text)]
        begin, end = _most_alike(quote, source)
        edits = [*_edits(quote, source[begin:end])]
        common = sum(last - first for kind, first, last, *_ in edits if kind == "equal")
        longer = max(len(quote), sum(last - first for *_, first, last in edits))
        share = common / longer
        if common >= min(MIN_PART_WORDS, len(quote) - 1) and share >= max(MIN_ALIKE, best[0]):
            difference = tuple(_differences(text, quote, run.text, source[begin:end], edits))
            used = source[begin + edits[0][3] : begin + edits[-1][4]]
            span = run.start + used[0].start(), run.start + used[-1].end()
            failure = Failure(QuoteVerdict.CHANGED, (Part(text, run, span),), difference)
            best = share, failure
    return best


def _keys(words: Sequence[re.Match[str]]) -> list[str]:
    return [fold(word[0])[0].casefold() for word in words]


def _most_alike(quote: Sequence[re.Match[str]], source: Sequence[re.Match[str]]) -> tuple[int, int]:
    """Return the span of source words that the quote can come from, around the longest match."""
    matcher = SequenceMatcher(None, _keys(source), _keys(quote), autojunk=False)
    match = matcher.find_longest_match()
    room = len(quote) // 4 + 2
    begin = match.a - match.b - room
    return max(0, begin), match.a + len(quote) - match.b + room


def _edits(
    quote: Sequence[re.Match[str]], source: Sequence[re.Match[str]]
) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the edits that make the source words of the quote, without those at both ends.

    Words are equal if they have the same letters.
    """
    spelt = [[fold(word[0])[0] for word in words] for words in (quote, source)]
    edits = SequenceMatcher(None, *spelt, autojunk=False).get_opcodes()
    last = len(edits) - 1
    for place, (kind, first, end, source_first, source_end) in enumerate(edits):
        count = end - first
        if place == 0 and kind != "equal":
            source_first = max(source_first, source_end - count)
        if place == last and kind != "equal":
            source_end = min(source_end, source_first + count)
        yield kind, first, end, source_first, source_end


def _differences(
    text: str,
    quote: Sequence[re.Match[str]],
    source_text: str,
    source: Sequence[re.Match[str]],
    edits: Sequence[tuple[str, int, int, int, int]],
) -> Iterator[Difference]:
    for kind, first, end, source_first, source_end in edits:
        if kind == "equal":
            yield Difference("", _words(text, quote[first:end]))
            continue
        if source_first < source_end:
            yield Difference("source", _words(source_text, source[source_first:source_end]))
        if first < end:
            yield Difference("quote", _words(text, quote[first:end]))


def _words(text: str, words: Sequence[re.Match[str]]) -> str:
    return " ".join(text[words[0].start() : words[-1].end()].split())
