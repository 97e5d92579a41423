"""Numbers with check digits: payment cards, national identity numbers and IBANs.

A text is scanned once, number by number. The groups after a number are read only while they match
the beginning of a known shape, so a long column of numbers costs a few steps for each.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from string import ascii_letters, digits
from typing import NamedTuple

from truespan.sanitize.findings import CREDIT_CARD, IBAN, NATIONAL_ID, Finding, before, lowered

Check = Callable[[str], bool]

_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def by_stdnum(name: str) -> Check:
    """Return the check of a module of python-stdnum, imported on first use."""

    def check(value: str) -> bool:
        try:
            return bool(_module_check(name)(value))
        except (LookupError, ValueError, TypeError, ArithmeticError):
            # A few modules raise other errors for invalid numbers.
            return False

    return check


@cache
def _module_check(name: str) -> Check:
    return import_module(f"stdnum.{name}").is_valid


def luhn(digits: str) -> bool:
    """Return whether the last digit is the check digit of those before, as on payment cards."""
    if not (digits.isascii() and digits.isdigit()):
        return False
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


def is_day(month: str, day: str) -> bool:
    """Return whether a month and a day name a day of some year."""
    return 1 <= int(month) <= 12 and 1 <= int(day) <= _DAYS[int(month) - 1]


# Payment cards

_ISSUERS = re.compile(
    r"4(?:\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d|9\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}"
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}|62\d{14,17}|220[0-4]\d{12}"
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{12,15}"
)


def card(digits: str) -> bool:
    """Return whether digits are the number of a payment card: issuer, length and check digit."""
    return _ISSUERS.fullmatch(digits) is not None and luhn(digits)


# Bank accounts


def iban(value: str) -> bool:
    """Return whether a value is an IBAN: the form of its country, and the check digits.

    Bank codes are not checked: they change faster than the library is updated.
    """
    from stdnum.iban import is_valid

    return is_valid("".join(filter(str.isalnum, value)), check_country=False)


# National numbers that python-stdnum checks with the help of the clock


def belgian(digits: str) -> bool:
    """Return whether digits are a Belgian national number, of either century."""
    body, rest = digits[:9], 97 - int(digits[9:])
    return is_day(digits[2:4], digits[4:6]) and rest in (int(body) % 97, int(f"2{body}") % 97)


def korean(digits: str) -> bool:
    """Return whether digits are a Korean resident registration number."""
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    total = sum(weight * int(digit) for weight, digit in zip(weights, digits, strict=False))
    return is_day(digits[2:4], digits[4:6]) and (11 - total % 11) % 10 == int(digits[12])


def norwegian(digits: str) -> bool:
    """Return whether digits are a Norwegian birth number."""
    numbers = [int(digit) for digit in digits]
    first = (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)
    second = (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)
    return is_day(digits[2:4], digits[:2]) and not any(
        sum(weight * number for weight, number in zip(weights, numbers, strict=False)) % 11
        for weights in (first, second)
    )


def swedish(digits: str) -> bool:
    """Return whether digits are a Swedish personal number, with its century or without."""
    short = digits[-10:]
    century = len(digits) == 10 or digits[:2] in ("18", "19", "20")
    return century and is_day(short[2:4], short[4:6]) and luhn(short)


def south_african(digits: str) -> bool:
    """Return whether digits are a South African identity number."""
    return is_day(digits[2:4], digits[4:6]) and digits[10] in "01" and luhn(digits)


def french(digits: str) -> bool:
    """Return whether digits are a French social security number: sex, month and check digits."""
    shape = re.fullmatch(r"[12]\d\d(?:0[1-9]|1[0-2]|[2-9]\d)\d{10}", digits)
    return shape is not None and (97 - int(digits[:13]) % 97) == int(digits[13:])


# Keys


def looks_random(value: str) -> bool:
    """Return whether a string looks random: a key, not a name in code."""
    mixed = any(
        re.search("[0-9]", part) and re.search("[A-Za-z]", part)
        for part in re.split("[-_.]", value)
        if len(part) >= 4
    )
    return mixed and entropy(value) >= 3.0


def entropy(value: str) -> float:
    """Return the entropy of `value` in bits per character."""
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares)


NAMED: dict[str, Check] = {
    "luhn": luhn,
    "card": card,
    "verhoeff": by_stdnum("verhoeff"),
    "damm": by_stdnum("damm"),
    "mod_11_2": by_stdnum("iso7064.mod_11_2"),
    "mod_11_10": by_stdnum("iso7064.mod_11_10"),
    "mod_37_2": by_stdnum("iso7064.mod_37_2"),
    "mod_37_36": by_stdnum("iso7064.mod_37_36"),
    "mod_97_10": by_stdnum("iso7064.mod_97_10"),
    "iban": iban,
    "ean": by_stdnum("ean"),
    "imei": by_stdnum("imei"),
    "isin": by_stdnum("isin"),
    "lei": by_stdnum("lei"),
    "eu_vat": by_stdnum("eu.vat"),
}
"""The validators that a profile can name. They get a value without spaces and dashes."""


class NationalId(NamedTuple):
    """A kind of number. In a shape, 9 is a digit and A a letter.

    `check` gets letters and digits only, unless `whole` is set. With `words`, one of them must
    precede the number.
    """

    name: str
    shapes: tuple[str, ...]
    check: Check
    words: tuple[str, ...] = ()
    whole: bool = False


_ELEVEN = "9" * 11
_THIRTEEN = "9" * 13

DISTINCTIVE = (
    NationalId("ar.cuit", ("99-99999999-9",), by_stdnum("ar.cuit")),
    NationalId("be.nn", (_ELEVEN, "99.99.99-999.99", "999999-999.99"), belgian),
    NationalId("br.cpf", ("999.999.999-99",), by_stdnum("br.cpf")),
    NationalId("ch.ssn", (_THIRTEEN, "999.9999.9999.99"), by_stdnum("ch.ssn")),
    NationalId("cl.rut", ("99.999.999-9", "99.999.999-A"), by_stdnum("cl.rut")),
    NationalId("cn.ric", ("9" * 18, "9" * 17 + "A"), by_stdnum("cn.ric")),
    NationalId("cz.rc", ("999999/9999",), by_stdnum("cz.rc")),
    NationalId("de.idnr", (_ELEVEN, "99 999 999 999"), by_stdnum("de.idnr")),
    NationalId("es.dni", ("99999999A", "99999999-A", "99.999.999-A"), by_stdnum("es.dni")),
    NationalId("es.nie", ("A9999999A", "A-9999999-A", "A9999999-A"), by_stdnum("es.nie")),
    NationalId("fi.hetu", ("999999-999A", "999999-9999"), by_stdnum("fi.hetu"), (), True),
    NationalId("fr.nir", ("9" * 15, "9 99 99 99 999 999 99"), french),
    NationalId("is.kennitala", ("999999-9999",), by_stdnum("is_.kennitala")),
    NationalId("it.codicefiscale", ("AAAAAA99A99A999A",), by_stdnum("it.codicefiscale")),
    NationalId("kr.rrn", ("999999-9999999",), korean),
    NationalId("mx.curp", ("AAAA999999AAAAAA99", "AAAA999999AAAAAAA9"), by_stdnum("mx.curp")),
    NationalId("no.fodselsnummer", (_ELEVEN, "999999 99999"), norwegian),
    NationalId("pt.cc", ("99999999 9 AA9", "999999999AA9"), by_stdnum("pt.cc")),
    NationalId("ro.cnp", (_THIRTEEN,), by_stdnum("ro.cnp")),
    NationalId("se.personnummer", ("999999-9999", "99999999-9999", "9" * 12), swedish),
    NationalId("si.emso", (_THIRTEEN,), by_stdnum("si.emso")),
    NationalId("th.pin", ("9-9999-99999-99-9",), by_stdnum("th.pin")),
    NationalId("za.idnr", (_THIRTEEN, "999999 9999 999"), south_african),
)
"""Numbers that are found without context."""

INTRODUCED = (
    NationalId(
        "at.vnr",
        ("9999999999", "9999 999999"),
        by_stdnum("at.vnr"),
        ("svnr", "sv-nr", "sv-nummer", "sozialversicherung", "versicherungsnummer"),
    ),
    NationalId(
        "au.tfn", ("999999999", "999 999 999"), by_stdnum("au.tfn"), ("tfn", "tax file number")
    ),
    NationalId("bg.egn", ("9999999999",), by_stdnum("bg.egn"), ("егн", "egn")),
    NationalId("br.cpf", (_ELEVEN,), by_stdnum("br.cpf"), ("cpf",)),
    NationalId(
        "ca.sin",
        ("999999999", "999 999 999", "999-999-999"),
        by_stdnum("ca.sin"),
        ("social insurance", "sin:", "sin ", "numéro d'assurance sociale"),
    ),
    NationalId(
        "cz.rc",
        ("9999999999", "999999 9999"),
        by_stdnum("cz.rc"),
        ("rodné číslo", "rodne cislo", "r.č.", "r. č."),
    ),
    NationalId("ee.ik", (_ELEVEN,), by_stdnum("ee.ik"), ("isikukood",)),
    NationalId(
        "gb.nhs", ("9999999999", "999 999 9999", "999-999-9999"), by_stdnum("gb.nhs"), ("nhs",)
    ),
    NationalId("gr.amka", (_ELEVEN,), by_stdnum("gr.amka"), ("αμκα", "amka")),
    NationalId("hr.oib", (_ELEVEN,), by_stdnum("hr.oib"), ("oib",)),
    NationalId("ie.pps", ("9999999A", "9999999AA"), by_stdnum("ie.pps"), ("pps", "ppsn")),
    NationalId(
        "il.idnr",
        ("999999999", "99999999-9"),
        by_stdnum("il.idnr"),
        ("teudat zehut", "israeli id", "תעודת זהות", 'ת"ז', "ת.ז"),
    ),
    NationalId(
        "in.aadhaar",
        ("9" * 12, "9999 9999 9999", "9999-9999-9999"),
        by_stdnum("in_.aadhaar"),
        ("aadhaar", "aadhar", "आधार", "uidai"),
    ),
    NationalId(
        "jp.in",
        ("9" * 12, "9999 9999 9999", "9999-9999-9999"),
        by_stdnum("jp.in_"),
        ("my number", "個人番号", "マイナンバー"),
    ),
    NationalId("lt.asmens", (_ELEVEN,), by_stdnum("lt.asmens"), ("asmens kod",)),
    NationalId(
        "lv.pvn", (_ELEVEN, "999999-99999"), by_stdnum("lv.pvn"), ("personas kod", "pers. kods")
    ),
    NationalId(
        "nl.bsn",
        ("999999999", "9999.99.999", "999 999 999"),
        by_stdnum("nl.bsn"),
        ("bsn", "burgerservicenummer", "sofinummer"),
    ),
    NationalId("pl.pesel", (_ELEVEN,), by_stdnum("pl.pesel"), ("pesel",)),
    NationalId("ru.inn", ("9" * 12,), by_stdnum("ru.inn"), ("инн",)),
    NationalId("se.personnummer", ("9999999999",), swedish, ("personnummer", "personnr")),
    NationalId(
        "tr.tckimlik",
        (_ELEVEN,),
        by_stdnum("tr.tckimlik"),
        ("kimlik", "tckn", "t.c. no", "tc no"),
    ),
    NationalId(
        "us.ssn",
        ("999-99-9999", "999 99 9999", "999999999"),
        by_stdnum("us.ssn"),
        ("ssn", "social security", "soc. sec"),
    ),
)
"""Numbers that are found only after one of their words. `us.ssn` has no check digit."""


CONTEXT = 48
"""The number of characters before a number in which its word may be."""

_ALNUM = frozenset(ascii_letters + digits)
_SIGNS = str.maketrans(digits + ascii_letters, "9" * 10 + "A" * 52)
_GAPS = {" ": " ", "\n": " ", "-": "-", ".": ".", "/": "/"}
_LEADING = 6
"""The largest number of letters at the beginning of a shape."""
_START = re.compile("[0-9][0-9A-Za-z]{0,18}(?![0-9A-Za-z])")
_GROUP = re.compile("[0-9A-Za-z]{1,18}(?![0-9A-Za-z])")
_OTHER_NUMBER = re.compile(
    r"(?<![a-z])(?:isbn|issn|ismn|ean|gtin|upc|doi|asin|imei|sku)(?:-?1[03])?[ :#.]{0,3}$",
    re.IGNORECASE,
)


class _Kind(NamedTuple):
    label: str
    rule: str
    check: Check
    words: tuple[str, ...]
    whole: bool
    edges: str
    """Characters that join a number to a digit next to it, which makes both part of another."""


_CARD = _Kind(CREDIT_CARD, "credit_card", card, (), False, ".")
_CARD_SHAPES = (
    *("9" * length for length in range(14, 20)),
    *(
        gap.join("9" * size for size in sizes)
        for gap in " -"
        for sizes in ((4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4))
    ),
)


@cache
def _shapes() -> dict[str, tuple[_Kind, ...]]:
    """Return the kinds of each shape; beginnings of shapes are included without kinds."""
    kinds: dict[str, list[_Kind]] = {shape: [_CARD] for shape in _CARD_SHAPES}
    for number in (*DISTINCTIVE, *INTRODUCED):
        kind = _Kind(
            NATIONAL_ID,
            f"national_id.{number.name}",
            number.check,
            number.words,
            number.whole,
            ".-/",
        )
        for shape in number.shapes:
            kinds.setdefault(shape, []).append(kind)
    for shape in tuple(kinds):
        for gap in re.finditer("[^9A]", shape):
            kinds.setdefault(shape[: gap.start()], [])
    return {shape: tuple(found) for shape, found in kinds.items()}


def scan_numbers(view: str) -> Iterator[Finding]:
    """Yield the cards and identity numbers of a text, which may overlap."""
    shapes = _shapes()
    for found in _START.finditer(view):
        for start in _starts(view, found.start()):
            yield from _walk(view, start, shapes)


def _starts(view: str, start: int) -> Iterator[int]:
    """Yield where a number with this first digit may begin: letters can precede it."""
    first = start
    while first and start - first <= _LEADING and view[first - 1] in ascii_letters:
        first -= 1
    if first and (view[first - 1] in _ALNUM or view[first - 1] == "_"):
        return
    yield first
    # The Spanish number of foreigners may have a dash after its letter.
    if first > 1 and view[first - 1] == "-" and view[first - 2] in "XYZxyz":
        yield first - 2


def _walk(view: str, start: int, shapes: dict[str, tuple[_Kind, ...]]) -> Iterator[Finding]:
    """Read groups from `start` while they begin a known shape, and check each whole shape."""
    shape, at, lines = "", start, 0
    while group := _GROUP.match(view, at):
        shape += group[0].translate(_SIGNS)
        kinds = shapes.get(shape)
        if kinds is None:
            return
        for kind in kinds:
            if _holds(view, start, group.end(), kind):
                yield Finding(start, group.end(), kind.label, kind.rule)
                break
        gap = view[group.end() : group.end() + 1]
        lines += gap == "\n"
        # A number may continue on the next line. Numbers on several lines are a column.
        if gap not in _GAPS or lines > 1:
            return
        shape += _GAPS[gap]
        at = group.end() + 1


def _holds(view: str, start: int, end: int, kind: _Kind) -> bool:
    """Return whether a value with the right shape is valid; cheap checks come first."""
    if _goes_on(view, start - 1, -1, kind.edges) or _goes_on(view, end, 1, kind.edges):
        return False
    context = before(view, start, CONTEXT)
    if kind.words and not _names(lowered(context), kind.words):
        return False
    value = view[start:end] if kind.whole else _compact(view[start:end])
    # A single repeated digit passes many checks but is always made up.
    return len(set(value)) > 1 and kind.check(value) and not _OTHER_NUMBER.search(context)


def _compact(value: str) -> str:
    return "".join(filter(_ALNUM.__contains__, value)).upper()


def _goes_on(view: str, at: int, step: int, edges: str) -> bool:
    """Return whether the character at `at` joins the number to another one."""
    if not 0 <= at < len(view):
        return False
    beyond = at + step
    joined = view[at] in edges and 0 <= beyond < len(view) and view[beyond] in digits
    return view[at] == "_" or joined


def _names(context: str, words: tuple[str, ...]) -> bool:
    """Return whether one of the words is in a context, not as the end of a longer word."""
    return any(
        word in context and re.search(rf"(?<!\w){re.escape(word)}", context) for word in words
    )


# IBANs

# Patterns that begin with a digit run fast over prose, so the lookbehind comes after it.
_IBAN_START = re.compile("[0-9](?<=[A-Za-z]{2}[0-9])[0-9](?=[ -]?[0-9A-Za-z])")


def scan_ibans(view: str) -> Iterator[Finding]:
    """Yield the IBANs of a text. The country decides their length."""
    for found in _IBAN_START.finditer(view):
        start = found.start() - 2
        if start and (view[start - 1] in _ALNUM or view[start - 1] == "_"):
            continue
        length = _iban_length(view[start : start + 2].upper())
        end = _take(view, start, length) if length else 0
        if end and iban(view[start:end]):
            yield Finding(start, end, IBAN, "iban")


@cache
def _iban_length(country: str) -> int:
    """Return the number of letters and digits of an IBAN; 0 if the country has none."""
    from stdnum import numdb

    (_, properties), *_ = numdb.get("iban").info(country)
    return 4 + sum(map(int, re.findall(r"\d+", properties["bban"]))) if properties else 0


def _take(view: str, start: int, length: int) -> int:
    """Return where `length` letters and digits end, with single gaps between them; else 0.

    Gaps are spaces or dashes, and at most one line break.
    """
    at, lines = start, 0
    for _ in range(length):
        if view[at : at + 1] in (" ", "-", "\n"):
            lines += view[at] == "\n"
            at += 1
        if view[at : at + 1] not in _ALNUM or lines > 1:
            return 0
        at += 1
    return 0 if view[at : at + 1] in _ALNUM else at
