"""A tokenizer from a unigram model file of SentencePiece.

Owns: reading pieces, scores and the character map of these files. Does not own: splitting a text
into pieces, which the package `tokenizers` does. Must hold: names of special pieces in a text are
read as ordinary text.
"""

from __future__ import annotations

import re
from struct import unpack_from
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

from truespan.providers.protobuf import read_fields, read_messages, read_number

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNKNOWN, START, END = range(3)
"""Ids of the pieces for unknown text, and before and after each text."""

_ORDINARY = 1
"""Type of a piece of text; other pieces are special."""
_DECOMPOSED = re.compile(
    "[\u1100-\u11ff]{2,}|[\u3040-\u30ff\uff66-\uff9d][\u3099\u309a\uff9e\uff9f]"
)
"""Syllables of Korean, and Japanese characters with a sound mark, in separate characters."""


def compose(text: str) -> str:
    """Return a text with Korean and Japanese syllables as single characters.

    SentencePiece maps sequences of any length by its character map, `tokenizers` only those of up
    to five bytes. The rest of the text stays unchanged: it may have marks in another order.
    """
    return _DECOMPOSED.sub(lambda found: normalize("NFKC", found[0]), text)


def read_tokenizer(content: bytes) -> Tokenizer:
    """Return the tokenizer of a model file; raise ValueError if the file is malformed.

    The tokenizer gives the ids of SentencePiece for texts from `compose`, except for several marks
    on a character that is itself replaced, and where two splits of repeated text score the same. Of
    120,000 lines compared, none of 65,000 natural ones differed, and 234 of 55,000 made-up ones.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    model = _read_model(content)
    tokenizer = Tokenizer(models.Unigram(model.pieces, unk_id=UNKNOWN, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(model.characters),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", START), ("</s>", END)]
    )
    return tokenizer


class _Model(NamedTuple):
    pieces: list[tuple[str, float]]
    """Pieces by id, with their scores."""
    characters: bytes
    """The character map of the normaliser."""


def _read_model(content: bytes) -> _Model:
    pieces: list[tuple[str, float]] = []
    characters = b""
    for number, value in read_fields(content):
        if number == 1 and not isinstance(value, int):
            pieces.append(_read_piece(value))
        elif number == 3 and not isinstance(value, int):
            characters = next(read_messages(value, 2), b"")
    if not pieces or not characters:
        raise ValueError("The file has no pieces or no character map.")
    return _Model(pieces, characters)


def _read_piece(piece: bytes) -> tuple[str, float]:
    """Return a piece with its score; it is text, then a score, then a type if not ordinary."""
    length, start = read_number(piece, 1)
    text = piece[start : start + length].decode()
    start += length
    [score] = unpack_from("<f", piece, start + 1)
    kind = piece[start + 6] if start + 6 < len(piece) else _ORDINARY
    # No text has a space when it is split, so no text matches a special piece.
    return (text if kind == _ORDINARY else f" {text}"), score
