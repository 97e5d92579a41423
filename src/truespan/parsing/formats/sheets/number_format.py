"""Numbers as a spreadsheet program shows them: `#,##0.00`, `0%`, `yyyy-mm-dd`, `[h]:mm` and so on.

A format code has up to four sections, for positive and negative numbers, zero and text. Dates whose
order depends on the locale (format 14 of Excel) are written in ISO 8601. Colours, fill characters
and widths are ignored. A number with an invalid code, or with a fraction, has the general format.
"""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

Show = Callable[[float], str]

_DATE, _TIME = "yyyy-mm-dd", "h:mm"
_CURRENCY = '"$"#,##0_);("$"#,##0)'
BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: _CURRENCY, 6: _CURRENCY,
    7: _CURRENCY.replace("0_", "0.00_").replace("0)", "0.00)"),
    8: _CURRENCY.replace("0_", "0.00_").replace("0)", "0.00)"),
    9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 14: _DATE, 15: "d-mmm-yy",
    16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: _TIME, 21: "h:mm:ss",
    22: f"{_DATE} {_TIME}", **dict.fromkeys((*range(27, 32), *range(34, 37)), _DATE),
    32: _TIME, 33: "h:mm:ss", 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)", 41: '#,##0;(#,##0);"-"', 42: '"$"#,##0;("$"#,##0);"$-"',
    43: '#,##0.00;(#,##0.00);"-"', 44: '"$"#,##0.00;("$"#,##0.00);"$-"', 45: "mm:ss",
    46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
    **dict.fromkeys(range(50, 59), _DATE),
}  # fmt: skip
"""Built-in formats by number. Others are General."""

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.?)|_.?|\*.?|\[\$(?P<symbol>[^\]-]*)[^\]]*\]'
    r"|\[(?P<elapsed>h+|m+|s+)\]|\[(?P<test><=|>=|<>|<|>|=)(?P<bound>-?[0-9.]+)\]|\[[^\]]*\]"
    r"|(?P<general>general|standard)|(?P<noon>am/pm|a/p)|(?P<exponent>e[+-])"
    r"|(?P<date>y+|m+|d+|h+|s+|b+|g+|e+)|(?P<digit>[0#?])|(?P<sign>[.,%/@])|(?P<end>;)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_MAX_CODE_LENGTH = 255
_TESTS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "=": operator.eq, "<>": operator.ne,
}  # fmt: skip
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LAST_DAY = 2958466
"""The first day after the year 9999."""
_NUDGE = 4.5e-16
"""Half of the last significant digit, so that 2.675 is rounded to 2.68."""
_PLAIN = re.compile(r"-?[0-9]{1,15}|-?[0-9]{1,7}\.[0-9]{0,3}[1-9]")


class Token(NamedTuple):
    kind: str
    text: str


class Section(NamedTuple):
    """A section of a format code, with the condition of its numbers, if any."""

    show: Show
    test: Callable[[float], bool] | None = None
    keeps_sign: bool = True


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


def is_date_format(code: str) -> bool:
    """Return whether a format shows dates or times."""
    return any(token.kind in ("date", "elapsed") for part in _read_sections(code) for token in part)


# Shared by threads: an `lru_cache` of functions without state of their own, which locks.
@lru_cache(maxsize=512)
def compile_format(code: str, from_1904: bool = False) -> Show | None:
    """Return a function that formats numbers; None for the general format."""
    if not code or len(code) > _MAX_CODE_LENGTH or code.lower() in ("general", "standard", "@"):
        return None
    read = _read_sections(code)[:4]
    if len(read) > 1 and Token("sign", "@") in read[-1]:
        read.pop()
    sections = [_compile_section(tokens, from_1904) for tokens in read]
    if not sections:
        return None
    first = sections[0]
    if len(sections) == 1 and first.test is None:
        show = first.show
        if not first.keeps_sign:
            return show
        return lambda value: show(value) if value >= 0 else f"-{show(-value)}"
    if all(section.test is None for section in sections[:2]):
        return _by_sign(sections)
    return _by_test(sections)


def text_format(code: str) -> tuple[str, str] | None:
    """Return the literals before and after text in a format; None if there are none."""
    if "@" not in code or len(code) > _MAX_CODE_LENGTH:
        return None
    before = after = ""
    seen = False
    for token in next((read for read in _read_sections(code) if Token("sign", "@") in read), ()):
        if token == Token("sign", "@"):
            seen = True
        elif token.kind == "literal":
            before, after = (before, after + token.text) if seen else (before + token.text, after)
    return (before, after) if seen and (before.strip() or after.strip()) else None


def _by_sign(sections: Sequence[Section]) -> Show:
    positive, negative = sections[0].show, sections[1].show
    zero = sections[2].show if len(sections) > 2 else positive

    def show(value: float) -> str:
        return positive(value) if value > 0 else negative(-value) if value < 0 else zero(0.0)

    return show


def _by_test(sections: Sequence[Section]) -> Show:
    def show(value: float) -> str:
        for section in sections:
            if section.test is None or section.test(value):
                text = section.show(abs(value) if section.keeps_sign else value)
                return f"-{text}" if value < 0 and section.keeps_sign else text
        return show_general(value)

    return show


def _read_sections(code: str) -> list[list[Token]]:
    sections: list[list[Token]] = [[]]
    for found in _TOKEN.finditer(code):
        kind = found.lastgroup
        if kind == "end":
            sections.append([])
        elif kind in ("quoted", "escaped", "symbol", "other"):
            sections[-1].append(Token("literal", found[kind]))
        elif kind == "bound":
            sections[-1].append(Token("test", f"{found['test']} {found['bound']}"))
        elif kind:
            text = found[kind] if kind == "noon" else found[kind].lower()
            sections[-1].append(Token(kind, text))
        elif found[0].startswith("_"):
            # A space with the width of a character.
            sections[-1].append(Token("literal", " "))
    return sections


def _compile_section(tokens: Sequence[Token], from_1904: bool) -> Section:
    test = None
    for token in tokens:
        if token.kind == "test":
            name, _, bound = token.text.partition(" ")
            test = _make_test(name, bound)
    rest = [token for token in tokens if token.kind != "test"]
    kinds = {token.kind for token in rest}
    if kinds & {"date", "elapsed", "noon"}:
        return Section(_compile_date(rest, from_1904), test, keeps_sign=False)
    if "general" in kinds or Token("sign", "@") in rest:
        return Section(_compile_general(rest), test)
    if "exponent" in kinds:
        return Section(_compile_exponent(rest), test)
    if Token("sign", "/") in rest and "digit" in kinds:
        return Section(show_general, test)
    return Section(_compile_number(rest), test)


def _make_test(name: str, bound: str) -> Callable[[float], bool] | None:
    try:
        limit = float(bound)
    except ValueError:
        return None
    compare = _TESTS[name]
    return lambda value: compare(value, limit)


def _compile_general(tokens: Sequence[Token]) -> Show:
    place = next(
        index for index, token in enumerate(tokens) if token.kind == "general" or token.text == "@"
    )
    before, after = _literals(tokens[:place]), _literals(tokens[place + 1 :])
    return lambda value: f"{before}{show_general(value)}{after}".strip()


def _literals(tokens: Sequence[Token]) -> str:
    return "".join(
        token.text for token in tokens if token.kind == "literal" or token.text in ("%", "/")
    )


def _compile_number(tokens: Sequence[Token]) -> Show:
    places = [index for index, token in enumerate(tokens) if token.kind == "digit"]
    if not places:
        text = "".join(token.text for token in tokens if token.kind != "digit").strip()
        return lambda _: text
    first, last = places[0], places[-1]
    point = next((n for n, token in enumerate(tokens) if token == Token("sign", ".")), len(tokens))
    point_first = point < first
    whole = [tokens[index].text for index in places if index < point]
    decimals = [tokens[index].text for index in places if index > point]
    comma = Token("sign", ",")
    last_whole = max((index for index in places if index < point), default=-1)
    grouped = any(tokens[index] == comma for index in range(first, max(last_whole, first)))
    end = last
    while end + 1 < len(tokens) and tokens[end + 1] == comma:
        end += 1
    scale = 10.0 ** (
        2 * sum(token == Token("sign", "%") for token in tokens)
        - 3 * (end - last)
        - 3 * (_commas_before(tokens, point) if decimals else 0)
    )
    start = point if point_first else first
    before, after = _literals(tokens[:start]), _literals(tokens[end + 1 :])
    most, least = len(decimals), len("".join(decimals).rstrip("#?"))
    zeros = whole.count("0")
    inner = any(token.kind == "literal" for token in tokens[first:last])
    dotted = point < len(tokens) and not decimals
    spec = f",.{most}f" if grouped else f".{most}f"

    def show(value: float) -> str:
        value *= scale
        text = format(value + value * _NUDGE, spec)
        if least < most:
            kept = text[len(text) - (most - least) :].rstrip("0")
            text = text[: len(text) - (most - least)] + kept
        if zeros != 1:
            text = _pad(text, zeros)
        return f"{before}{text}{'.' if dotted else ''}{after}".strip()

    if not inner:
        return show

    def show_with_literals(value: float) -> str:
        value *= scale
        text = format(value + value * _NUDGE, f".{most}f")
        digits, _, rest = text.partition(".")
        digits = digits.lstrip("0").rjust(zeros, "0") if zeros < len(whole) else digits
        digits = digits.rjust(len(whole), "0" if zeros == len(whole) else "\0")
        pieces: list[str] = []
        extra = len(digits) - len(whole)
        supply = [digits[: extra + 1], *digits[extra + 1 :], *rest] if whole else [*rest]
        left = iter(supply)
        for token in tokens[first : last + 1]:
            if token.kind == "digit":
                pieces.append(next(left, ""))
            elif token.kind == "literal" or token.text == ".":
                pieces.append(token.text)
        return f"{before}{''.join(pieces)}{after}".replace("\0", "").strip()

    return show_with_literals


def _commas_before(tokens: Sequence[Token], point: int) -> int:
    """Return the number of commas directly before the decimal point; each divides by 1000."""
    count = 0
    while point - count > 0 and tokens[point - count - 1] == Token("sign", ","):
        count += 1
    return count


def _pad(text: str, zeros: int) -> str:
    """Pad the digits before the point with zeros; without `zeros`, drop a lone zero."""
    whole, point, rest = text.partition(".")
    if not zeros:
        return ("" if whole == "0" else whole) + point + rest
    return whole.rjust(zeros, "0") + point + rest


def _compile_exponent(tokens: Sequence[Token]) -> Show:
    place = next(index for index, token in enumerate(tokens) if token.kind == "exponent")
    head, tail = tokens[:place], tokens[place + 1 :]
    point = next((n for n, token in enumerate(head) if token.text == "."), len(head))
    whole = max(1, sum(token.kind == "digit" for token in head[:point]))
    decimals = [token.text for token in head[point:] if token.kind == "digit"]
    most, least = len(decimals), len("".join(decimals).rstrip("#?"))
    width = sum(token.text == "0" for token in tail if token.kind == "digit")
    always = tokens[place].text == "e+"
    after = _literals(tail)

    def show(value: float) -> str:
        power = int(f"{value:.{most + whole - 1}e}".partition("e")[2])
        power = power // whole * whole
        text = f"{value / 10.0**power if abs(power) < 300 else value:.{most}f}"
        if least < most:
            text = text[: len(text) - (most - least)] + text[least - most :].rstrip("0")
        sign = "-" if power < 0 else "+" if always else ""
        return f"{text.rstrip('.')}E{sign}{abs(power):0{max(width, 1)}}{after}".strip()

    return show


def _compile_date(tokens: Sequence[Token], from_1904: bool) -> Show:
    steps = _mark_minutes(tokens)
    noon = any(kind == "noon" for kind, _ in steps)
    fraction = max((len(text) for kind, text in steps if kind == "fraction"), default=0)
    seconds = any(text.startswith("s") for kind, text in steps if kind in ("date", "elapsed"))
    elapsed = any(kind == "elapsed" for kind, _ in steps)
    write = "".join(_date_field(kind, text, noon) for kind, text in steps).strip().format

    def show(value: float) -> str:
        if from_1904 and not elapsed:
            value += 1462
        if not -_LAST_DAY < value < _LAST_DAY or (value < 0 and not elapsed):
            return show_general(value)
        sign, value = ("-", -value) if value < 0 else ("", value)
        thousandths = round(value * 86_400_000)
        if seconds and not fraction:
            thousandths = (thousandths + 500) // 1000 * 1000
        elif fraction and fraction < 3:
            unit = 10 ** (3 - fraction)
            thousandths = (thousandths + unit // 2) // unit * unit
        days, rest = divmod(thousandths, 86_400_000)
        if days >= _LAST_DAY:
            return show_general(value)
        year, month, day, weekday = _date_of(days)
        hours, minutes, left = rest // 3_600_000, rest // 60_000 % 60, rest % 60_000
        return sign + write(
            y=year, yy=year % 100, b=year + 543, bb=(year + 543) % 100, m=month, d=day,
            mmm=_MONTHS[month - 1], ddd=_DAYS[weekday], h=hours, hh=hours % 12 or 12, n=minutes,
            s=left // 1000, f=f"{left % 1000:03}000000", noon="PM" if hours >= 12 else "AM",
            hs=thousandths // 3_600_000, ns=thousandths // 60_000, ss=thousandths // 1000,
        )  # fmt: skip

    return show


def _date_field(kind: str, text: str, noon: bool) -> str:
    """Return the template field of a part of a date."""
    size = len(text)
    first = "y" if text[:1] == "e" else text[:1]
    if kind == "date" and first in "yb":
        return f"{{{first}:04}}" if size > 2 or text[0] == "e" else f"{{{first * 2}:02}}"
    if kind == "date" and first in "md" and size > 2:
        return f"{{{first * 3}{':.3' if size == 3 else ':.1' if text == 'mmmmm' else ''}}}"
    if kind == "date" and first in "mdhns":
        return f"{{{'hh' if first == 'h' and noon else first}:0{min(size, 2)}}}"
    if kind == "elapsed":
        return f"{{{'n' if first == 'm' else first}s:0{size}}}"
    if kind == "noon":
        return "{noon:.1}" if size < 5 else "{noon}"
    if kind == "fraction":
        return f"{{f:.{min(size, 9)}}}"
    return "" if kind == "date" else text.replace("{", "{{").replace("}", "}}")


def _date_of(days: int) -> tuple[int, int, int, int]:
    """Return year, month, day and weekday of an Excel day number."""
    if days == 60:
        return (1900, 2, 29, 2)
    if days == 0:
        return (1900, 1, 0, 5)
    base = datetime.date(1899, 12, 31) if days < 60 else datetime.date(1899, 12, 30)
    date = base + datetime.timedelta(days=days)
    # Before March 1900, weekdays in Excel are off by one.
    return (date.year, date.month, date.day, (date.weekday() - (days < 60)) % 7)


def _mark_minutes(tokens: Sequence[Token]) -> list[Token]:
    """Return the parts of a date, with `n` for minutes: an `m` after hours or before seconds."""
    steps: list[Token] = []
    previous = ""
    for index, (kind, text) in enumerate(tokens):
        if kind == "sign" or kind == "digit":
            after_point = bool(steps) and steps[-1].text == "."
            if kind == "digit" and (after_point or (steps and steps[-1].kind == "fraction")):
                if after_point:
                    steps.append(Token("fraction", text))
                else:
                    steps[-1] = Token("fraction", steps[-1].text + text)
            else:
                steps.append(Token("literal", text))
            continue
        if kind in ("date", "elapsed"):
            if text[0] == "m" and len(text) < 3:
                later = (t.text for t in tokens[index + 1 :] if t.kind in ("date", "elapsed"))
                following = next(later, "")
                if previous.startswith("h") or following.startswith("s"):
                    text = "n" * len(text)
            previous = text
        steps.append(Token(kind, text))
    return steps
