"""The pages of a PDF file on which the sentences of a document stand.

The PDF file was made from a document of another format, so its text is in almost the same order.
Letters and digits are compared, as in `picture`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import pypdfium2 as pdfium

from truespan.errors import SourceBroken
from truespan.parsing.formats.pdf.lines import read_characters, read_lines, sort_lines
from truespan.parsing.formats.pdf.picture import fold_letters
from truespan.types.picture import PlacedPart, PlacesRequest

_MAX_PAGES = 1000
_AHEAD = 4000
"""Maximum number of letters between a sentence and the one before it."""
_NEAR = 200
"""Maximum number of letters between sentences that follow each other."""
_MIN_UNIQUE = 24
"""Minimum number of letters of a sentence that is searched everywhere, such as a footnote."""
_MIN_START = 12
"""Minimum number of letters of a sentence before an interruption."""
_BETWEEN_PAGES = 400
"""Maximum number of letters of running heads and footnotes between two pages."""
_MARK = 3
"""Maximum number of digits of a mark inside a sentence, such as that of a footnote."""

_Spans = Sequence[tuple[int, int]]


def find_places(data: bytes, request: PlacesRequest) -> tuple[PlacedPart, ...]:
    """Return the parts of sentences on each page; a sentence that is not found has none.

    Raises:
        SourceBroken: The file is broken.
    """
    try:
        text = _PageText(_read_letters(data))
    except pdfium.PdfiumError:
        raise SourceBroken(request.name) from None
    found: list[PlacedPart] = []
    for sid, (sentence, page) in enumerate(zip(request.sentences, request.pages, strict=True)):
        wanted = fold_letters(sentence)
        if not wanted:
            continue
        for start, end in text.find_on(page, wanted) if page else text.find(wanted):
            found += text.split(sid, start, end)
    return tuple(found)


def _read_letters(data: bytes) -> list[str]:
    """Return the letters and digits of each page in reading order."""
    document = pdfium.PdfDocument(data)
    pages: list[str] = []
    try:
        for number in range(min(len(document), _MAX_PAGES)):
            page = document[number]
            textpage = page.get_textpage()
            characters = read_characters(textpage)
            spans = [span for line in sort_lines(read_lines(page)[0]) for span in line.spans]
            pages.append("".join(fold_letters(characters[start:end]) for start, end in spans))
            textpage.close()
            page.close()
    finally:
        document.close()
    return pages


class _PageText:
    """The letters of all pages, and the place after the sentence that was found last.

    A sentence far ahead, such as a footnote, becomes that place only if the next sentence follows
    it.
    """

    def __init__(self, pages: Sequence[str]) -> None:
        self._letters = "".join(pages)
        self._ends = list(accumulate(map(len, pages)))
        self._last = 0
        self._ahead: int | None = None

    def find_on(self, page: int, wanted: str) -> _Spans:
        """Return the span of a sentence on a page, after the sentence before it if possible."""
        if page > len(self._ends):
            return ()
        first, end = self._ends[page - 2] if page > 1 else 0, self._ends[page - 1]
        for start in (max(first, self._last), first):
            at = self._letters.find(wanted, start, end)
            if at >= 0:
                self._last = at + len(wanted)
                return ((at, self._last),)
        return ()

    def find(self, wanted: str) -> _Spans:
        """Return the spans of a sentence: one, two around an interruption, or none."""
        if self._ahead is not None:
            at = self._letters.find(wanted, self._ahead, self._ahead + _NEAR + len(wanted))
            if at >= 0:
                self._last, self._ahead = at + len(wanted), None
                return ((at, self._last),)
        spans = self._find_after(wanted)
        if spans and spans[0][0] >= self._last:
            end = spans[-1][1]
            if spans[0][0] - self._last <= _NEAR:
                self._last, self._ahead = end, None
            else:
                self._ahead = end
        return spans

    def _find_after(self, wanted: str) -> _Spans:
        at = self._letters.find(wanted, self._last, self._last + _AHEAD + len(wanted))
        if at < 0 and len(wanted) >= _MIN_UNIQUE:
            if spans := self._find_interrupted(wanted):
                return spans
            at = self._letters.find(wanted)
        return ((at, at + len(wanted)),) if at >= 0 else ()

    def _find_interrupted(self, wanted: str) -> _Spans:
        """Return the spans of a sentence that the end of a page or a mark divides in two."""
        letters = self._letters
        start = letters.find(wanted[:_MIN_START], self._last, self._last + _AHEAD)
        if start < 0:
            return ()
        pairs = zip(letters[start : start + len(wanted)], wanted, strict=False)
        same = next((at for at, (has, wants) in enumerate(pairs) if has != wants), 0)
        end, rest = start + same, wanted[same:]
        at = letters.find(rest, end, end + _BETWEEN_PAGES + len(rest))
        if at < 0 or (at - end > _MARK and self._page_of(end - 1) == self._page_of(at)):
            return ()
        return (start, end), (at, at + len(rest))

    def _page_of(self, place: int) -> int:
        return bisect_right(self._ends, place)

    def split(self, sid: int, start: int, end: int) -> Iterator[PlacedPart]:
        """Yield the parts of a span by page."""
        while start < end:
            page = self._page_of(start)
            stop = min(end, self._ends[page])
            yield PlacedPart(sid, page + 1, self._letters[start:stop])
            start = stop
