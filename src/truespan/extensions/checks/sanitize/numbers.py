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

from truespan.extensions.checks.sanitize.findings import (
    CREDIT_CARD,
    IBAN,
    NATIONAL_ID,
    Finding,
    compact,
    text_before,
    to_lower,
)

Check = Callable[[str], bool]

_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def by_stdnum(name: str) -> Check:
    """Return the check of a module of python-stdnum, imported on first use."""

    def check(value: str) -> bool:
        try:
            return bool(import_module(f"stdnum.{name}").is_valid(value))
        except (LookupError, ValueError, TypeError, ArithmeticError):
            # Some modules raise other errors for invalid numbers.
            return False

    return check


def luhn(digits: str) -> bool:
    """Return whether the last digit is the check digit of those before, as on payment cards."""
    if not (digits.isascii() and digits.isdigit()):
        return False
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


_ISSUERS = re.compile(
    r"4(?:\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d|9\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}"
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}|62\d{14,17}|220[0-4]\d{12}"
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{12,15}"
)


def card(digits: str) -> bool:
    """Return whether digits are the number of a payment card: issuer, length and check digit."""
    return _ISSUERS.fullmatch(digits) is not None and luhn(digits)


def iban(value: str) -> bool:
    """Return whether a value is an IBAN: the form of its country, and the check digits.

    Bank codes are not checked: they change faster than the library is updated.
    """
    from stdnum.iban import is_valid

    return is_valid("".join(filter(str.isalnum, value)), check_country=False)


def looks_random(value: str) -> bool:
    """Return whether a string looks random, like a key and unlike a name in code."""
    parts = [part for part in re.split("[-_.]", value) if len(part) >= 4]
    if not any(re.search("[0-9]", part) and re.search("[A-Za-z]", part) for part in parts):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    bits_per_character = -sum(share * math.log2(share) for share in shares)
    return bits_per_character >= 3.0


_ISO_7064 = ("mod_11_2", "mod_11_10", "mod_37_2", "mod_37_36", "mod_97_10")
NAMED: dict[str, Check] = {
    "luhn": luhn,
    "card": card,
    **{name: by_stdnum(name) for name in ("verhoeff", "damm")},
    **{name: by_stdnum(f"iso7064.{name}") for name in _ISO_7064},
    "iban": iban,
    **{name: by_stdnum(name) for name in ("ean", "imei", "isin", "lei")},
    "eu_vat": by_stdnum("eu.vat"),
}
"""The validators that a profile can name. They get a value without spaces and dashes."""


# National numbers that python-stdnum validates with the current date


def _is_day(month: str, day: str) -> bool:
    return 1 <= int(month) <= 12 and 1 <= int(day) <= _DAYS[int(month) - 1]


def _weigh(weights: tuple[int, ...], digits: str) -> int:
    return sum(weight * int(digit) for weight, digit in zip(weights, digits, strict=False))


def _is_belgian(digits: str) -> bool:
    body, rest = digits[:9], 97 - int(digits[9:])  # The check digits depend on the century.
    return _is_day(digits[2:4], digits[4:6]) and rest in (int(body) % 97, int(f"2{body}") % 97)


def _is_korean(digits: str) -> bool:
    rest = (11 - _weigh((2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5), digits) % 11) % 10
    return _is_day(digits[2:4], digits[4:6]) and rest == int(digits[12])


def _is_norwegian(digits: str) -> bool:
    first, second = (3, 7, 6, 1, 8, 9, 4, 5, 2, 1), (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)
    rests = (_weigh(first, digits) % 11, _weigh(second, digits) % 11)
    return _is_day(digits[2:4], digits[:2]) and not any(rests)


def _is_swedish(digits: str) -> bool:
    short = digits[-10:]
    century = len(digits) == 10 or digits[:2] in ("18", "19", "20")
    return century and _is_day(short[2:4], short[4:6]) and luhn(short)


def _is_south_african(digits: str) -> bool:
    return _is_day(digits[2:4], digits[4:6]) and digits[10] in "01" and luhn(digits)


def _is_french(digits: str) -> bool:
    shape = re.fullmatch(r"[12]\d\d(?:0[1-9]|1[0-2]|[2-9]\d)\d{10}", digits)
    return shape is not None and (97 - int(digits[:13]) % 97) == int(digits[13:])


class NumberKind(NamedTuple):
    """A kind of number. In a shape, 9 is a digit and A a letter.

    `check` gets letters and digits only, unless `whole` is set. With `words`, one of them must
    precede the number.
    """

    name: str
    shapes: tuple[str, ...]
    check: Check
    words: tuple[str, ...] = ()
    whole: bool = False


def _national(
    name: str, shapes: str, words: str = "", *, check: Check | None = None, whole: bool = False
) -> NumberKind:
    """Define a national number that python-stdnum checks unless there is another `check`."""
    listed = tuple(words.split("|")) if words else ()
    return NumberKind(name, tuple(shapes.split("|")), check or by_stdnum(name), listed, whole)


_ELEVEN, _TWELVE, _THIRTEEN = "9" * 11, "9" * 12, "9" * 13

DISTINCTIVE = (
    _national("ar.cuit", "99-99999999-9"),
    _national("be.nn", f"{_ELEVEN}|99.99.99-999.99|999999-999.99", check=_is_belgian),
    _national("br.cpf", "999.999.999-99"),
    _national("ch.ssn", f"{_THIRTEEN}|999.9999.9999.99"),
    _national("cl.rut", "99.999.999-9|99.999.999-A"),
    _national("cn.ric", "999999999999999999|99999999999999999A"),
    _national("cz.rc", "999999/9999"),
    _national("de.idnr", f"{_ELEVEN}|99 999 999 999"),
    _national("es.dni", "99999999A|99999999-A|99.999.999-A"),
    _national("es.nie", "A9999999A|A-9999999-A|A9999999-A"),
    _national("fi.hetu", "999999-999A|999999-9999", whole=True),
    _national("fr.nir", "999999999999999|9 99 99 99 999 999 99", check=_is_french),
    _national("is.kennitala", "999999-9999", check=by_stdnum("is_.kennitala")),
    _national("it.codicefiscale", "AAAAAA99A99A999A"),
    _national("kr.rrn", "999999-9999999", check=_is_korean),
    _national("mx.curp", "AAAA999999AAAAAA99|AAAA999999AAAAAAA9"),
    _national("no.fodselsnummer", f"{_ELEVEN}|999999 99999", check=_is_norwegian),
    _national("pt.cc", "99999999 9 AA9|999999999AA9"),
    _national("ro.cnp", _THIRTEEN),
    _national("se.personnummer", f"999999-9999|99999999-9999|{_TWELVE}", check=_is_swedish),
    _national("si.emso", _THIRTEEN),
    _national("th.pin", "9-9999-99999-99-9"),
    _national("za.idnr", f"{_THIRTEEN}|999999 9999 999", check=_is_south_african),
)
"""Numbers that are found without context."""

_AT_WORDS = "svnr|sv-nr|sv-nummer|sozialversicherung|versicherungsnummer"
_CA_WORDS = "social insurance|sin:|sin |numéro d'assurance sociale"
_IL_WORDS = 'teudat zehut|israeli id|תעודת זהות|ת"ז|ת.ז'
_GROUPS_OF_FOUR = f"{_TWELVE}|9999 9999 9999|9999-9999-9999"
_IN_CHECK, _JP_CHECK = by_stdnum("in_.aadhaar"), by_stdnum("jp.in_")

INTRODUCED = (
    _national("at.vnr", "9999999999|9999 999999", _AT_WORDS),
    _national("au.tfn", "999999999|999 999 999", "tfn|tax file number"),
    _national("bg.egn", "9999999999", "егн|egn"),
    _national("br.cpf", _ELEVEN, "cpf"),
    _national("ca.sin", "999999999|999 999 999|999-999-999", _CA_WORDS),
    _national("cz.rc", "9999999999|999999 9999", "rodné číslo|rodne cislo|r.č.|r. č."),
    _national("ee.ik", _ELEVEN, "isikukood"),
    _national("gb.nhs", "9999999999|999 999 9999|999-999-9999", "nhs"),
    _national("gr.amka", _ELEVEN, "αμκα|amka"),
    _national("hr.oib", _ELEVEN, "oib"),
    _national("ie.pps", "9999999A|9999999AA", "pps|ppsn"),
    _national("il.idnr", "999999999|99999999-9", _IL_WORDS),
    _national("in.aadhaar", _GROUPS_OF_FOUR, "aadhaar|aadhar|आधार|uidai", check=_IN_CHECK),
    _national("jp.in", _GROUPS_OF_FOUR, "my number|個人番号|マイナンバー", check=_JP_CHECK),
    _national("lt.asmens", _ELEVEN, "asmens kod"),
    _national("lv.pvn", f"{_ELEVEN}|999999-99999", "personas kod|pers. kods"),
    _national("nl.bsn", "999999999|9999.99.999|999 999 999", "bsn|burgerservicenummer|sofinummer"),
    _national("pl.pesel", _ELEVEN, "pesel"),
    _national("ru.inn", _TWELVE, "инн"),
    _national("se.personnummer", "9999999999", "personnummer|personnr", check=_is_swedish),
    _national("tr.tckimlik", _ELEVEN, "kimlik|tckn|t.c. no|tc no"),
    _national("us.ssn", "999-99-9999|999 99 9999|999999999", "ssn|social security|soc. sec"),
)
"""Numbers that are found only after one of their keywords. `us.ssn` has no check digit."""

_CARD = NumberKind(
    "credit_card",
    (
        *("9" * length for length in range(14, 20)),
        *(
            gap.join("9" * size for size in sizes)
            for gap in " -"
            for sizes in ((4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4))
        ),
    ),
    card,
)

CONTEXT = 48
"""The number of characters before a number in which its word may be."""

_ALNUM, _DIGITS = frozenset(ascii_letters + digits), frozenset(digits)
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


# Shared by threads: caches of compiled patterns and of tables that are only read.
@cache
def _kinds_by_shape() -> dict[str, list[NumberKind]]:
    """Return the kinds of each shape; beginnings of shapes are included without kinds."""
    kinds: dict[str, list[NumberKind]] = {}
    for kind in (_CARD, *DISTINCTIVE, *INTRODUCED):
        for shape in kind.shapes:
            kinds.setdefault(shape, []).append(kind)
    for shape in tuple(kinds):
        for gap in re.finditer("[^9A]", shape):
            kinds.setdefault(shape[: gap.start()], [])
    return kinds


def scan_numbers(view: str) -> Iterator[Finding]:
    """Yield the cards and identity numbers of a text, which may overlap."""
    for found in _START.finditer(view):
        # Letters may precede the first digit.
        start = found.start()
        while start and found.start() - start <= _LEADING and view[start - 1] in ascii_letters:
            start -= 1
        if start and (view[start - 1] in _ALNUM or view[start - 1] == "_"):
            continue
        yield from _read_numbers(view, start)
        # The Spanish number of foreigners may have a dash after its letter.
        if start > 1 and view[start - 1] == "-" and view[start - 2] in "XYZxyz":
            yield from _read_numbers(view, start - 2)


def _read_numbers(view: str, start: int) -> Iterator[Finding]:
    """Read groups from `start` while they begin a known shape, and check each whole shape."""
    shape, at, lines = "", start, 0
    while group := _GROUP.match(view, at):
        shape += group[0].translate(_SIGNS)
        kinds = _kinds_by_shape().get(shape)
        if kinds is None:
            return
        for kind in kinds:
            if _is_valid(view, start, group.end(), kind):
                label, prefix = NATIONAL_ID, "national_id."
                if kind is _CARD:
                    label, prefix = CREDIT_CARD, ""
                yield Finding(start, group.end(), label, f"{prefix}{kind.name}")
                break
        gap = view[group.end() : group.end() + 1]
        lines += gap == "\n"
        # A number may continue on the next line, but numbers on several lines are a column.
        if gap not in _GAPS or lines > 1:
            return
        shape += _GAPS[gap]
        at = group.end() + 1


def _is_valid(view: str, start: int, end: int, kind: NumberKind) -> bool:
    """Return whether a value with the right shape is valid; cheap checks come first."""
    # These characters join a number to an adjacent digit, so that both are part of another number.
    edges = (".",) if kind is _CARD else (".", "-", "/")
    for beside in (view[max(start - 2, 0) : start][::-1], view[end : end + 2]):
        if beside[:1] == "_" or (beside[:1] in edges and beside[1:] in _DIGITS):
            return False
    context = text_before(view, start, CONTEXT)
    if kind.words:
        text = to_lower(context)
        # A keyword must not be the end of a longer word.
        if not any(w in text and re.search(rf"(?<!\w){re.escape(w)}", text) for w in kind.words):
            return False
    value = view[start:end] if kind.whole else compact(view[start:end])
    # A single repeated digit passes many checks but is never a real number.
    return len(set(value)) > 1 and kind.check(value) and not _OTHER_NUMBER.search(context)


# Patterns that begin with a digit are fast on prose, so the lookbehind comes after it.
_IBAN_START = re.compile("[0-9](?<=[A-Za-z]{2}[0-9])[0-9](?=[ -]?[0-9A-Za-z])")


def scan_ibans(view: str) -> Iterator[Finding]:
    """Yield the IBANs of a text. The country decides their length."""
    for found in _IBAN_START.finditer(view):
        start = found.start() - 2
        if start and (view[start - 1] in _ALNUM or view[start - 1] == "_"):
            continue
        pattern = _iban_pattern(view[start : start + 2].upper())
        value = pattern.match(view, start) if pattern else None
        if value and value[0].count("\n") <= 1 and iban(value[0]):
            yield Finding(start, value.end(), IBAN, "iban")


# Shared by threads: as above.
@cache
def _iban_pattern(country: str) -> re.Pattern[str] | None:
    """Return the pattern of a country: letters and digits with single gaps between them."""
    from stdnum import numdb

    (_, properties), *_ = numdb.get("iban").info(country)
    if not properties:
        return None
    length = 4 + sum(map(int, re.findall(r"\d+", properties["bban"])))
    return re.compile(rf"(?:[ \n-]?[0-9A-Za-z]){{{length}}}(?![0-9A-Za-z])")
