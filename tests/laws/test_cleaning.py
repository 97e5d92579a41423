"""Cleaning: removed and kept characters, and idempotence."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.texts import often
from tests.promises import proves
from truespan.ingest.canonical import assemble
from truespan.text.clean import clean
from truespan.types.text import Block, BlockKind, Place

ZWNJ, ZWJ = "\u200c", "\u200d"
SUSPECTS = (
    "\r\n\t\x00\x07\x0b\x0c\x1b\x7f\x85\x90\xad\u034f\u061c\u115f\u180b\u180e\u200b\u200c\u200d\u200e"
    "\u2028\u2029\u202e\u2060\u2066\u3164\ufe0e\ufe0f\ufeff\ufff9\ufffc\U000e0041\U000e0100\ud800\udfff"
)
COMPANY = "ab [FIGURE:لنی\u094dकषᠨᠠ👩❤🔥漢"
DIRTY = st.text(st.sampled_from(SUSPECTS + COMPANY) | st.characters(), max_size=40)


@often
@given(DIRTY)
def test_cleaning_is_idempotent(text: str):
    once = clean(text)

    assert clean(once) == once


@proves("sanitise.invisible-characters")
@often
@given(DIRTY)
def test_no_control_surrogate_or_foreign_line_end_remains(text: str):
    left = {char for char in clean(text) if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")}

    assert left <= {"\n", "\t"}


@often
@given(DIRTY)
def test_visible_characters_keep_their_order(text: str):
    seen = [
        char for char in text if unicodedata.category(char)[0] in "LNS" and char not in SUSPECTS
    ]

    kept = iter(clean(text))

    assert all(char in kept for char in seen)


@proves("chunking.no-crlf")
@pytest.mark.parametrize("end", ["\r\n", "\r", "\n", "\x85", "\u2028", "\u2029", "\x0b", "\x0c"])
def test_every_line_end_becomes_a_line_feed(end: str):
    assert clean(f"one{end}two{end}{end}three") == "one\ntwo\n\nthree"


@proves("sanitise.invisible-characters")
@pytest.mark.parametrize("char", sorted(set(SUSPECTS) - set("\r\n\t\x0b\x0c\x85\u2028\u2029")))
def test_invisible_character_between_letters_is_removed(char: str):
    assert clean(f"a{char}b") == "ab"


@proves("sanitise.invisible-characters")
def test_tag_character_message_is_removed():
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey me")

    assert clean(f"Dear reader{hidden}.") == "Dear reader."


@pytest.mark.parametrize(
    "word",
    [
        f"می{ZWNJ}خواهم",  # Persian: both forms of the letter are read differently
        f"क्{ZWJ}ष",  # Devanagari: a half form
        f"അവന്{ZWJ}",  # Malayalam: a letter that ends the word
        f"👩{ZWJ}💻",
        f"❤{ZWJ}🔥",
        "ᠨᠠ\u180eᠭ\u180b",  # Mongolian: separator and selector
    ],
)
def test_joiner_is_kept_where_the_script_needs_it(word: str):
    assert clean(f"{word} end") == f"{word} end"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (f"ab{ZWJ}cd{ZWNJ}", "abcd"),
        (f"{ZWJ}👩", "👩"),
        (f"👩{ZWJ}{ZWJ}💻", "👩💻"),
        (f"می{ZWNJ} خواهم", "می خواهم"),
        (f"👩{ZWNJ}💻", "👩💻"),
        (f"❤\ufe0f{ZWJ}🔥", f"❤{ZWJ}🔥"),
        ("ᠨ\u180b\u180b", "ᠨ\u180b"),
    ],
)
def test_joiner_without_effect_is_removed(text: str, cleaned: str):
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    "literal", ["[FIGURE:", "[FIG\u200bURE:", "[\x00FIGURE:", "[FIGURE\ufeff:"]
)
def test_cleaning_defuses_figure_markers(literal: str):
    assert clean(f"see {literal}fig_1] there") == "see [ FIGURE:fig_1] there"


def test_clean_text_is_unchanged():
    text = "Plain “prose” – with\ttabs,\n\nünïcödé and 漢字."

    assert clean(text) == text


# Assembling, which cleans once more


@often
@given(st.lists(st.text("a \n\t\r\u200b", max_size=12), max_size=6))
def test_blocks_are_joined_by_a_blank_line(texts: list[str]):
    canonical = assemble([Block(BlockKind.PARAGRAPH, text) for text in texts])

    bounds = [*canonical.block_starts, len(canonical.text) + 2]
    pieces = [canonical.text[start : end - 2] for start, end in pairwise(bounds)]

    assert all(piece.strip() and not piece[-1].isspace() for piece in pieces)
    assert "\n\n".join(pieces) == canonical.text
    assert canonical.text.split() == clean(" ".join(texts)).split()


def test_block_keeps_leading_spaces_and_loses_blank_lines():
    canonical = assemble([Block(BlockKind.CODE, "\n \n    x = 1\n\n    y = 2\n  \n")])

    assert canonical.text == "    x = 1\n\n    y = 2"


def test_place_begins_with_its_first_block():
    canonical = assemble(
        [
            Block(BlockKind.PARAGRAPH, "front"),
            Block(BlockKind.HEADING, "One", "One"),
            Block(BlockKind.PARAGRAPH, "text", "One"),
            Block(BlockKind.PARAGRAPH, " \n ", "Empty"),
            Block(BlockKind.PARAGRAPH, "more", "One"),
            Block(BlockKind.HEADING, "First", "One", "First"),
        ]
    )

    assert canonical.text == "front\n\nOne\n\ntext\n\nmore\n\nFirst"
    assert canonical.starts == (7, 24)
    assert canonical.places == (Place("One", None), Place("One", "First"))
    assert canonical.block_starts == (0, 7, 12, 18, 24)
    assert canonical.place_at(6) == Place(None, None)


def test_each_row_of_a_table_begins_like_a_block():
    canonical = assemble([Block(BlockKind.TABLE, "a | b\n1 | 2\n3 | 4")])

    assert canonical.block_starts == (0, 6, 12)
