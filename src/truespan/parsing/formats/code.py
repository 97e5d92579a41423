"""Source code and configuration: the lines of a file, with their numbers as places."""

from __future__ import annotations

import re

from truespan.parsing.detect import require_text
from truespan.text.clean import clean
from truespan.types.text import Block, BlockKind, Loaded, PageStart

_OTHER_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Line separators that editors do not count."""


def load_code_file(name: str, data: bytes) -> Loaded:
    text = require_text(name, data).replace("\r\n", "\n").replace("\r", "\n")
    lines = clean(_OTHER_LINE_ENDS.sub(" ", text)).split("\n")
    shown = [number for number, line in enumerate(lines) if line.strip()]
    if not shown:
        return Loaded(())
    lines = lines[: shown[-1] + 1]
    marks: list[PageStart] = []
    offset = 0
    for number, line in enumerate(lines[shown[0] :], shown[0] + 1):
        if line.strip():
            marks.append(PageStart(offset, number, "line"))
        offset += len(line) + 1
    text = "\n".join(lines[shown[0] :])
    return Loaded((Block(BlockKind.CODE, text, name, pages=tuple(marks)),))
