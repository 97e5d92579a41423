"""Detection of boilerplate: Project Gutenberg headers and licences, lists of chapters, page
numbers.

The result depends on the text alone, so unread text does not matter for a reader, and stored
documents need not be ingested again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from truespan.text.contents import is_list_of_chapters

_STARTS = re.compile(r"start\s+of\s+(?:the|this)\s+project\s+gutenberg\s+e-?(?:book|text)", re.I)
_ENDS = re.compile(
    r"end\s+of\s+(?:the\s+|this\s+)?project\s+gutenberg(?:['’]s\b|\s+e-?(?:book|text))"
    r"|(?:start:\s+|the\s+)full\s+(?:project\s+gutenberg\S*\s+)?licen[sc]e",
    re.I,
)
_HEADER = re.compile(r"\W*(?:the\s+)?project\s+gutenberg\s+e-?(?:book|text)\s+of\b", re.I)
_STRONG = re.compile(
    r"project\s+gutenberg(?:\W{0,3}\(?tm\)?|\W{0,2}™|['’”\"]*\s+(?:licen[sc]e|literary\s+archive|"
    r"electronic\s+works?|trademark|is\s+a\s+registered|appears|is\s+associated))"
    r"|\bgutenberg\.org/(?:licen[sc]e|donate|contact)|\bpglaf\b|plain\s+vanilla\s+ascii",
    re.I,
)
_NUMBERED = re.compile(r"\b1\.[A-F]\.(?:[1-9]\b|\s|$)")
_WEAK = re.compile(
    r"terms\s+of\s+(?:this|the)\s+(?:agreement|full|licen[sc]e)|copyright|public\s+domain|refund|"
    r"replacement\s+copy|physical\s+medium|written\s+explanation|the\s+foundation|donations?|"
    r"tax\s+exempt|solicit|warrant(?:y|ies)|disclaim|liab(?:le|ility)|derivative\s+works|"
    r"in\s+lieu\s+of|defect|indemnif|compliance|trademark|electronic\s+works?|electronically|"
    r"provisions?\b|this\s+agreement|royalt(?:y|ies)|volunteers|e-?books?\b",
    re.I,
)
_MIN_WEAK = 2
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:pages?|p\.|seite|página|pagina|стр\.?)\s*)?(?:[0-9]{1,5}|[ivxlc]{1,7})"
    r"(?:\s*(?:/|of|von|de|di|из)\s*[0-9]{1,5})?\W*",
    re.I,
)
_LONG_LINE = 60
"""Maximum length of the first line, or of the average line, of a list."""
_MIN_SHARE = 0.5
"""Minimum share of boilerplate characters in a text that counts as boilerplate."""


# Shared by threads: an `lru_cache` of judgements of texts, which locks.
@lru_cache(maxsize=2048)
def is_boilerplate(text: str) -> bool:
    """Return whether a text is mostly licence, list of chapters or page numbers."""
    # Cached, because a request checks the same texts whenever it needs more hits. Quick checks come
    # first, since nearly all texts are prose.
    named = "utenberg" in text or "UTENBERG" in text
    if (named or ("1." in text and _NUMBERED.search(text))) and _is_licence(text):
        return True
    if len(text) > _LONG_LINE * (text.count("\n") + 1) and text.find("\n", 0, _LONG_LINE) < 0:
        return False
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if lines and all(map(_PAGE_NUMBER.fullmatch, lines)):
        return True
    return is_list_of_chapters(lines)


def _is_licence(text: str) -> bool:
    paragraphs = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
    marks = _mark(paragraphs)
    marked = sum(len(part) for part, mark in zip(paragraphs, marks, strict=True) if mark)
    return marked > _MIN_SHARE * sum(map(len, paragraphs))


def _mark(paragraphs: Sequence[str]) -> list[bool]:
    """Return for each paragraph whether it is part of a header or a licence."""
    marks: list[bool] = []
    around = False
    """Whether a header has started or the work has ended."""
    for text in paragraphs:
        if _STARTS.search(text):
            # All paragraphs before it are the header.
            marks = [True] * (len(marks) + 1)
            around = False
            continue
        around = around or bool(_ENDS.search(text) or _HEADER.match(text))
        weak = len(_WEAK.findall(text))
        numbered = weak >= _MIN_WEAK and _NUMBERED.search(text) is not None
        marks.append(around or numbered or _STRONG.search(text) is not None)
    if any(marks):
        # Paragraphs of a licence that do not name it are next to paragraphs that do.
        return [
            mark or len(_WEAK.findall(text)) >= _MIN_WEAK
            for mark, text in zip(marks, paragraphs, strict=True)
        ]
    return marks
