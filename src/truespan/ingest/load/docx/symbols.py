"""Symbols that a document names by a font and a number: the characters that they stand for."""

from __future__ import annotations

_PRIVATE = 0xF000
_LARGEST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

_GREEK = dict(
    zip(
        range(0x41, 0x5B),
        "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ",
        strict=True,
    )
) | dict(zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True))
_MATHS = {
    **dict(zip((0x22, 0x24, 0x27, 0x2A, 0x2D, 0x40, 0x5C, 0x5E, 0x7E), "∀∃∋∗−≅∴⊥∼", strict=True)),
    **dict(zip(range(0xA1, 0xBD), "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…", strict=True)),
    **dict(zip(range(0xC0, 0xE6), "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑", strict=True)),
    0xF1: "〉",
    0xF2: "∫",
}
_SYMBOL = {code: chr(code) for code in range(0x20, 0x7F)} | _GREEK | _MATHS
_WINGDINGS = {
    0x20: " ",
    0x22: "✂",
    0x28: "☎",
    0x2A: "✉",
    0x4A: "☺",
    0x4C: "☹",
    0x58: "✠",
    0x9F: "•",
    **dict(zip(range(0x45, 0x49), "☜☞☝☟", strict=True)),
    **dict(zip(range(0x6C, 0x7A), "●❍■□◻❑❒⬧⧫◆❖⬥⌧⍓", strict=True)),
    **dict(zip(range(0x80, 0x96), "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿", strict=True)),
    0xA7: "▪",
    0xA8: "◻",
    0xAB: "★",
    0xD8: "➢",
    0xE8: "➔",
    0xF0: "⇨",
    **dict(zip(range(0xDF, 0xE3), "←→↑↓", strict=True)),
    **dict(zip(range(0xFB, 0xFF), "✗✓☒☑", strict=True)),
}
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS}


def symbol(font: str, code: str) -> str:
    """Return the character that a symbol stands for.

    One of a font that is not known here keeps its number, which fonts for symbols have in the
    private area of Unicode: it is better than nothing in its place.
    """
    try:
        number = int(code, 16)
    except ValueError:
        return ""
    known = _FONTS.get(font.strip().lower(), {})
    place = number - _PRIVATE if number >= _PRIVATE else number
    if place in known:
        return known[place]
    plain = 0x20 <= number <= _LARGEST and number not in _SURROGATES
    return chr(number) if plain else ""
