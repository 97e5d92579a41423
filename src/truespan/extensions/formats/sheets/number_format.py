"""Numbers as a spreadsheet program shows them: `#,##0.00`, `0%`, `"$"0`, `yyyy-mm-dd` and so on.

A format code has up to three sections, for positive and negative numbers and for zero. Dates are
written in ISO 8601, as in XLS files, because their order depends on the locale. Colours, fill
characters and widths are ignored. Codes with conditions, exponents, fractions or literals between
digits have the general format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

Show = Callable[[float], str]

_DATE, _TIME = "yyyy-mm-dd", "h:mm"
_CURRENCY = '"$"#,##0;("$"#,##0)'
_CENTS = '"$"#,##0.00;("$"#,##0.00)'
BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: _CURRENCY, 6: _CURRENCY, 7: _CENTS, 8: _CENTS,
    9: "0%", 10: "0.00%", **dict.fromkeys((14, 15, 16), _DATE), 17: "mmm yyyy",
    **dict.fromkeys((18, 20, 32), _TIME), **dict.fromkeys((19, 21, 33), "h:mm:ss"),
    22: f"{_DATE} {_TIME}", **dict.fromkeys((*range(27, 32), *range(34, 37)), _DATE),
    37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)", 41: '#,##0;(#,##0);"-"', 42: '"$"#,##0;("$"#,##0);"$-"',
    43: '#,##0.00;(#,##0.00);"-"', 44: '"$"#,##0.00;("$"#,##0.00);"$-"',
    **dict.fromkeys((45, 46, 47), "[h]:mm:ss"), **dict.fromkeys(range(50, 59), _DATE),
}  # fmt: skip
"""Built-in formats by number. Others are General."""

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.?)|_.?|\*.?|\[\$(?P<symbol>[^\]-]*)[^\]]*\]'
    r"|\[(?P<elapsed>h+|m+|s+)\]|(?P<test>\[[<>=][^\]]*\])|\[[^\]]*\]"
    r"|(?P<general>general|standard)|(?P<noon>am/pm|a/p)|(?P<exponent>e[+-])"
    r"|(?P<date>y+|m+|d+|h+|s+|b+|g+|e+)|(?P<digit>[0#?])|(?P<sign>[.,%/@])|(?P<end>;)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_MAX_CODE_LENGTH = 255
_LAST_DAY = 2958466
"""The first day after the year 9999."""
_NUDGE = 4.5e-16
"""Half of the last significant digit, so that 2.675 is rounded to 2.68."""
_PLAIN = re.compile(r"-?[0-9]{1,15}|-?[0-9]{1,7}\.[0-9]{0,3}[1-9]")


class Token(NamedTuple):
    kind: str
    text: str


_COMMA, _POINT, _PERCENT = Token("sign", ","), Token("sign", "."), Token("sign", "%")


def show_general(value: float) -> str:
    """Return a number in the general format: all digits of an integer, up to ten of others."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.10g}".replace("e", "E")


def show_plain(value: str) -> str:
    """Return a stored number in the general format."""
    if _PLAIN.fullmatch(value):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return show_general(number) if math.isfinite(number) else value


# Shared by threads: an `lru_cache` of functions without state of their own, which locks.
@lru_cache(maxsize=512)
def compile_format(code: str, from_1904: bool = False) -> Show | None:
    """Return a function that formats numbers; None for the general format."""
    if not code or len(code) > _MAX_CODE_LENGTH or code.lower() in ("general", "standard"):
        return None
    sections = _read_sections(code)[:3]
    if any(token.kind in ("date", "elapsed", "noon") for token in sections[0]):
        return _compile_date(sections[0], from_1904)
    if len(sections) > 1 and Token("sign", "@") in sections[-1]:
        sections.pop()
    compiled = [_compile_number(tokens) for tokens in sections]
    shows = [show for show in compiled if show is not None]
    if len(shows) < len(sections):
        return None
    positive, negative, zero = shows[0], shows[1:2], shows[2:]

    def show(value: float) -> str:
        if value < 0:
            return negative[0](-value) if negative else f"-{positive(-value)}"
        return zero[0](value) if zero and not value else positive(value)

    return show


def _read_sections(code: str) -> list[list[Token]]:
    sections: list[list[Token]] = [[]]
    for found in _TOKEN.finditer(code):
        kind = found.lastgroup
        if kind == "end":
            sections.append([])
        elif kind in ("quoted", "escaped", "symbol", "other"):
            sections[-1].append(Token("literal", found[kind]))
        elif kind:
            sections[-1].append(Token(kind, found[kind].lower()))
        elif found[0].startswith("_"):
            # A space with the width of a character.
            sections[-1].append(Token("literal", " "))
    return sections


def _compile_number(tokens: Sequence[Token]) -> Show | None:
    """Return a function for the numbers of a section; None if they have the general format."""
    if any(token.kind in ("test", "exponent") or token.text == "@" for token in tokens):
        return None
    for place, token in enumerate(tokens):
        if token.kind == "general":
            prefix, suffix = _literals(tokens[:place]), _literals(tokens[place + 1 :])
            return lambda value: f"{prefix}{show_general(value)}{suffix}".strip()
    places = [index for index, token in enumerate(tokens) if token.kind == "digit"]
    if not places:
        text = "".join(token.text for token in tokens).strip()
        return lambda _: text
    first, last = places[0], places[-1]
    if any(token.kind == "literal" or token.text == "/" for token in tokens[first:last]):
        return None
    point = tokens.index(_POINT) if _POINT in tokens else len(tokens)
    first = min(first, point)
    decimals = "".join(tokens[index].text for index in places if index > point)
    zeros = sum(tokens[index].text == "0" for index in places if index < point)
    end = last
    while end + 1 < len(tokens) and tokens[end + 1] == _COMMA:
        # Each comma after the digits divides by a thousand.
        end += 1
    scale = 10.0 ** (2 * tokens.count(_PERCENT) - 3 * (end - last))
    before, after = _literals(tokens[:first]), _literals(tokens[end + 1 :])
    most, least = len(decimals), len(decimals.rstrip("#?"))
    spec = f",.{most}f" if _COMMA in tokens[first:last] else f".{most}f"

    def show(value: float) -> str:
        value *= scale
        text = format(value + value * _NUDGE, spec)
        if least < most:
            text = text[: len(text) - (most - least)] + text[least - most :].rstrip("0")
        whole, dot, rest = text.partition(".")
        digits = whole.rjust(zeros, "0") if zeros or whole != "0" else ""
        return f"{before}{digits}{dot}{rest}{after}".strip()

    return show


def _literals(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens if token.kind == "literal" or token == _PERCENT)


def _compile_date(tokens: Sequence[Token], from_1904: bool) -> Show:
    """Return a function that writes the parts of a date or time that a format shows."""
    parts = [token for token in tokens if token.kind in ("date", "elapsed")]
    elapsed = any(token.kind == "elapsed" for token in parts)
    letters = [token.text[0] for token in parts]
    # An `m` after hours or before seconds is a minute.
    months = any(
        letter == "m" and letters[:at][-1:] != ["h"] and letters[at + 1 : at + 2] != ["s"]
        for at, letter in enumerate(letters)
    )
    days, years = "d" in letters, bool({"y", "b", "g", "e"} & {*letters})
    times, seconds = "h" in letters or "s" in letters, "s" in letters

    def show(value: float) -> str:
        if from_1904 and not elapsed:
            value += 1462
        if not 0 <= value < _LAST_DAY:
            return show_general(value)
        total = min(round(value * 86_400), _LAST_DAY * 86_400 - 1)
        day, rest = divmod(total, 86_400)
        shown: list[str] = []
        if not elapsed and (days or months or years):
            # Before March 1900, days are off by one in Excel.
            moment = date(1899, 12, 30) + timedelta(days=day + (day < 60))
            if days or times:
                shown.append(moment.isoformat())
            else:
                shown += [f"{moment:%B}"] if months else []
                shown += [str(moment.year)] if years else []
        if times or elapsed:
            hours = str(total // 3600) if elapsed else f"{rest // 3600:02}"
            clock = f"{hours}:{rest // 60 % 60:02}"
            shown.append(f"{clock}:{rest % 60:02}" if seconds else clock)
        return " ".join(shown)

    return show
