"""Numbers of list items in the letters and digits of several scripts.

Number formats have the names of DOCX; the parsers of other formats translate theirs.
"""

from __future__ import annotations

from typing import NamedTuple

from truespan.text.headings import MAX_ROMAN, format_roman

_MAX_REPEATS = 20
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳㉑㉒㉓㉔㉕㉖㉗㉘㉙㉚㉛㉜㉝㉞㉟㊱㊲㊳㊴㊵㊶㊷㊸㊹㊺㊻㊼㊽㊾㊿"
_LETTERS = {
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "lowerGreek": "αβγδεζηθικλμνξοπρστυφχψω",
    "hebrew2": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabicAlpha": "أبتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "thaiLetters": "กขคงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮ",
    "aiueoFullWidth": (
        "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
    ),
    "ganada": "가나다라마바사아자차카타파하",
}
"""Alphabets whose letters are doubled after the last: 27 is "aa"."""
_LETTERS |= {
    "upperLetter": _LETTERS["lowerLetter"].upper(),
    "russianUpper": _LETTERS["russianLower"].upper(),
}
_IDEOGRAPHS = "〇一二三四五六七八九"
_DIGITS = {
    "ideographDigital": _IDEOGRAPHS,
    "decimalFullWidth": "０１２３４５６７８９",
    "hindiNumbers": "०१२३४५६७८९",
    "thaiNumbers": "๐๑๒๓๔๕๖๗๘๙",
    "arabicNumbers": "٠١٢٣٤٥٦٧٨٩",
    "persianNumbers": "۰۱۲۳۴۵۶۷۸۹",
}


class _Counting(NamedTuple):
    """Numerals below 10,000 with characters for ten, hundred and thousand.

    `ones` is the first power of ten before which a one is written: with 2, 十 but 一百.
    """

    digits: str
    powers: str
    ones: int
    zero: str = ""
    below: int = 10_000


_COUNTING = {
    "japaneseCounting": _Counting(_IDEOGRAPHS, "十百千", 9),
    "chineseCounting": _Counting(_IDEOGRAPHS.replace("〇", "○"), "十", 2, below=100),
    "taiwaneseCounting": _Counting(_IDEOGRAPHS.replace("〇", "○"), "十", 2, below=100),
    "chineseCountingThousand": _Counting(_IDEOGRAPHS, "十百千", 2, "零"),
    "taiwaneseCountingThousand": _Counting(_IDEOGRAPHS, "十百千", 2, "零"),
    "koreanCounting": _Counting("영일이삼사오육칠팔구", "십백천", 9),
}


def format_number(count: int, form: str) -> str:
    """Return a number in a format; in digits if the format is unknown or has too many letters."""
    text = str(count)
    if letters := _LETTERS.get(form):
        repeats, letter = divmod(count - 1, len(letters))
        return letters[letter] * (repeats + 1) if 0 <= repeats < _MAX_REPEATS else text
    if digits := _DIGITS.get(form):
        return "".join(digits[int(char)] for char in text) if count >= 0 else text
    if form in _COUNTING:
        return _spell(count, _COUNTING[form])
    match form:
        case "lowerRoman" | "upperRoman" if 1 <= count <= MAX_ROMAN:
            text = format_roman(count)
        case "decimalZero":
            text = f"{count:02}"
        case "decimalEnclosedCircle" if 1 <= count <= len(_CIRCLED):
            text = _CIRCLED[count - 1]
        case "ordinal":
            suffix = {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
            text += "th" if count % 100 in (11, 12, 13) else suffix
        case "none" | "bullet":
            text = ""
    return text.upper() if form == "upperRoman" else text


def _spell(count: int, counting: _Counting) -> str:
    digits, powers, ones, zero, below = counting
    if not 0 < count < below:
        shown = str(count)
        return "".join(digits[int(char)] for char in shown) if count >= 0 else shown
    text, gap = "", False
    for power in range(len(powers), -1, -1):
        digit = count // 10**power % 10
        if not digit:
            gap = bool(text)
            continue
        text += zero if gap else ""
        # A one before ten is written within a longer number: 一百一十.
        spelled = digit > 1 or power == 0 or power >= ones or (bool(text) and bool(zero))
        text += (digits[digit] if spelled else "") + (powers[power - 1] if power else "")
        gap = False
    return text
