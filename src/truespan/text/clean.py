"""Cleaning: line ends and invisible characters.

Invisible characters must not affect search, and they must not carry messages: tag characters,
variation selectors and zero-width characters have all been used to hide instructions for models.
"""

from __future__ import annotations

import re

CLEANING_VERSION = 1
"""Increased whenever the result for some text changes."""

_INVISIBLE = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls; tab and the line ends are not among them
    "\xad"  # soft hyphen
    "\u034f"  # combining grapheme joiner
    "\u061c"  # Arabic letter mark
    "\u115f\u1160\u3164\uffa0"  # Hangul fillers
    "\u17b4\u17b5"  # Khmer inherent vowels
    "\u200b\u200e\u200f"  # zero-width space, direction marks
    "\u202a-\u202e"  # direction embeddings and overrides
    "\u2060-\u206f"  # word joiner, invisible operators, direction isolates
    "\ufe00-\ufe0f"  # variation selectors
    "\ufeff"  # byte order mark
    "\ufff0-\ufffc"  # interlinear marks, object replacement
    "\ud800-\udfff"  # surrogates, always lone in a Python string
    "\ufdd0-\ufdef\ufffe\uffff"  # noncharacters
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # shorthand and musical format controls
    "\U000e0000-\U000e0fff"  # tags, more variation selectors
)
_SHAPING = "\u180b-\u180f\u200c\u200d"

_JOINING = (
    "\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff"  # Arabic
    "\u0710-\u074a\u074d-\u077f"  # Syriac, more Arabic
    "\u07ca-\u07f5\u0840-\u085b\u0860-\u08e1\u08e3-\u08ff"  # N'Ko, Mandaic, more Arabic
    "\u0900-\u0dff"  # the scripts of India and Sri Lanka
    "\u1000-\u109f\u1780-\u17b3\u17b6-\u17d3"  # Myanmar, Khmer
    "\u1807\u1820-\u18aa"  # Mongolian
    "\ua840-\ua871\ua8e0-\ua8ff\ua980-\ua9df\uaa60-\uaa7f"  # Phags-pa, Javanese and others
    "\ufb50-\ufbb1\ufbd3-\ufd3d\ufe70-\ufefc"  # Arabic presentation forms
    "\U00010ac0-\U00010ae6\U00010d00-\U00010d27"  # Manichaean, Hanifi Rohingya
    "\U00011000-\U000114ff"  # Brahmi and its descendants
    "\U0001e900-\U0001e94b"  # Adlam
)
_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u1039\u17d2\ua9c0"
_EMOJI = "\xa9\xae\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"

# Most text has only these, and checking that is four times as fast as searching for the others.
_PLAIN = re.compile(
    "[\t\n -~\xa0-\xac\xae-\u034e\u0370-\u05ff\u1e00-\u200a\u2010-\u2027\u2030-\u205f\u2070-\u2fff"
    "\u3000-\u3163\u3190-\ud7ff\uff01-\uff9f\U0001f000-\U0001faff]*"
)
_PLAIN_ASCII = bytes([*b"\t\n", *range(0x20, 0x7F)])
_LINE_ENDS = re.compile("[\x0b\x0c\x85\u2028\u2029]")
_UNSEEN = re.compile(f"[{_INVISIBLE}]+")
# Characters that shape the letters beside them are kept only there: a joiner between
# two letters of a joining script, after the sign that silences an Indian vowel (where it may end a
# word) and between two emoji; a Mongolian selector or separator after a Mongolian letter.
_OUT_OF_PLACE = re.compile(
    f"[{_SHAPING}]"
    f"(?!(?<=[{_JOINING}][\u200c\u200d])[{_JOINING}])"
    f"(?<![{_VIRAMA}][\u200c\u200d])"
    f"(?!(?<=[{_EMOJI}]\u200d)[{_EMOJI}])"
    "(?<![\u1820-\u18aa][\u180b-\u180f])"
)


def clean(text: str) -> str:
    """Return `text` with LF as its only line end and without invisible characters.

    Cleaning clean text changes nothing. A literal `[FIGURE:` becomes `[ FIGURE:`, so that a marker
    can only come from a parser.
    """
    # Most text has none; searching for one character is many times as fast as for two.
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        plain = not text.encode().translate(None, _PLAIN_ASCII)
    else:
        plain = _PLAIN.fullmatch(text) is not None
    if not plain:
        text = _OUT_OF_PLACE.sub("", _UNSEEN.sub("", _LINE_ENDS.sub("\n", text)))
    # Last, because removing characters can join the parts of a marker.
    return text.replace("[FIGURE:", "[ FIGURE:") if "[" in text else text
