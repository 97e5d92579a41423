"""Rows as numbers, so that training needs neither texts nor a tokenizer: word pieces and places.

A passage is stored once. A row names a question and a window of a passage, and where in the window
the answer begins and ends.
"""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from training.rows import Row

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

ROWS_FILE = "rows.npz.xz"
MAX_TOKENS = 384
MAX_QUESTION_TOKENS = 64
SPECIAL_TOKENS = 3
"""[CLS] before the question, [SEP] after it and after the passage."""
_NONE = -1
_COLUMNS = ("question", "passage", "window", "width", "start", "end", "origin", "stretch")
"""Arrays with a number for each row."""


class Packed(NamedTuple):
    """Arrays of a training set: pieces of questions and passages one after the other, and rows."""

    question_pieces: NDArray[np.uint16]
    question_ends: NDArray[np.int32]
    passage_pieces: NDArray[np.uint16]
    passage_ends: NDArray[np.int32]
    question: NDArray[np.int32]
    passage: NDArray[np.int32]
    window: NDArray[np.int32]
    """First piece of the passage that a row shows."""
    width: NDArray[np.int32]
    start: NDArray[np.int32]
    """First piece of the answer within the window; -1 if there is none."""
    end: NDArray[np.int32]
    origin: NDArray[np.int32]
    stretch: NDArray[np.int32]
    origins: NDArray[np.str_]

    def save(self, path: Path) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **self._asdict())
        path.write_bytes(lzma.compress(buffer.getvalue(), preset=6))

    @classmethod
    def load(cls, path: Path) -> Packed:
        arrays = np.load(io.BytesIO(lzma.decompress(path.read_bytes())))
        return cls(**{name: arrays[name] for name in cls._fields})

    def lengths(self) -> NDArray[np.int32]:
        """Return the number of tokens of each row."""
        sizes = np.diff(self.question_ends, prepend=0)
        return sizes[self.question] + self.width + SPECIAL_TOKENS

    def keep(self, chosen: NDArray[np.bool_]) -> Packed:
        """Return the chosen rows."""
        return self._replace(**{name: getattr(self, name)[chosen] for name in _COLUMNS})


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    return tokenizer.encode_batch(list(texts), add_special_tokens=False)


def find_pieces(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """Return the first and last piece of a span of characters; None if it covers no piece."""
    inside = [i for i, (begin, stop) in enumerate(offsets) if stop > start and begin < end]
    return (inside[0], inside[-1]) if inside else None


def choose_window(size: int, room: int, answer: tuple[int, int] | None) -> tuple[int, int]:
    """Return first piece and width of the part of a passage that is read.

    It is the beginning, unless the answer stands beyond it; then the answer is in its middle.
    """
    if size <= room or answer is None or answer[1] < room:
        return 0, min(size, room)
    return max(0, min(answer[0] - room // 2, size - room)), room


def pack(rows: Iterable[Row], tokenizer: Tokenizer) -> Packed:
    """Turn rows into numbers; a row whose answer covers no piece, or too many, is left out."""
    rows = list(rows)
    questions, question_of = _number(row.question for row in rows)
    passages, passage_of = _number(row.passage for row in rows)
    origins, origin_of = _number(row.origin.split()[0] for row in rows)
    asked = [encoding.ids[:MAX_QUESTION_TOKENS] for encoding in encode(tokenizer, questions)]
    shown = encode(tokenizer, passages)
    table = []
    for row in rows:
        question, passage = question_of[row.question], passage_of[row.passage]
        encoding = shown[passage]
        answer = None
        if row.start is not None and row.end is not None:
            answer = find_pieces(encoding.offsets, row.start, row.end)
            if answer is None:
                continue
        room = MAX_TOKENS - SPECIAL_TOKENS - len(asked[question])
        first, width = choose_window(len(encoding.ids), room, answer)
        start, end = (_NONE, _NONE) if answer is None else (answer[0] - first, answer[1] - first)
        if end >= width:
            continue
        origin = origin_of[row.origin.split()[0]]
        table.append((question, passage, first, width, start, end, origin, row.stretch))
    columns = np.ascontiguousarray(np.array(table, np.int32).reshape(-1, len(_COLUMNS)).T)
    question_pieces, question_ends = _join(asked)
    passage_pieces, passage_ends = _join([encoding.ids for encoding in shown])
    return Packed(
        question_pieces=question_pieces,
        question_ends=question_ends,
        passage_pieces=passage_pieces,
        passage_ends=passage_ends,
        origins=np.array(origins),
        **dict(zip(_COLUMNS, columns, strict=True)),
    )


def _number(texts: Iterable[str]) -> tuple[list[str], dict[str, int]]:
    """Return the different texts, and the place of each."""
    places: dict[str, int] = {}
    for text in texts:
        places.setdefault(text, len(places))
    return list(places), places


def _join(parts: Sequence[Sequence[int]]) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    pieces = np.concatenate([np.array(part, np.uint16) for part in parts])
    return pieces, np.cumsum([len(part) for part in parts]).astype(np.int32)
