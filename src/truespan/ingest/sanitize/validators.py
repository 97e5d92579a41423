"""Checks of candidates: check digits, and how random a string looks. All of them are pure.

Most check digits are computed by python-stdnum. Some of its modules ask what day it is, to tell a
birth date in the future; those are not used, for the same text must always give the same findings.
What they check is checked here without the clock.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module

Check = Callable[[str], bool]

_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def by_stdnum(name: str) -> Check:
    """Return the check of a module of python-stdnum, which is imported when it is first needed."""

    def check(value: str) -> bool:
        try:
            return bool(_module_check(name)(value))
        except (LookupError, ValueError, TypeError, ArithmeticError):
            # A few modules stumble over a number that is none, instead of saying so.
            return False

    return check


@cache
def _module_check(name: str) -> Check:
    return import_module(f"stdnum.{name}").is_valid


def luhn(digits: str) -> bool:
    """Say whether the last digit is the check digit of those before, as on payment cards."""
    if not (digits.isascii() and digits.isdigit()):
        return False
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


def is_day(month: str, day: str) -> bool:
    """Say whether a month and a day name a day of some year."""
    return 1 <= int(month) <= 12 and 1 <= int(day) <= _DAYS[int(month) - 1]


# Payment cards

_ISSUERS = re.compile(
    r"4(?:\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d|9\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}"
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}|62\d{14,17}|220[0-4]\d{12}"
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{12,15}"
)


def card(digits: str) -> bool:
    """Say whether digits are the number of a payment card: issuer, length and check digit."""
    return _ISSUERS.fullmatch(digits) is not None and luhn(digits)


# Bank accounts


def iban(value: str) -> bool:
    """Say whether a value is an IBAN: the form of its country, and the check digits.

    Which banks a country has is not asked; that changes faster than a library is updated.
    """
    from stdnum.iban import is_valid

    return is_valid("".join(filter(str.isalnum, value)), check_country=False)


# National numbers that python-stdnum checks with the help of the clock


def belgian(digits: str) -> bool:
    """Say whether digits are a Belgian national number, of either century."""
    body, rest = digits[:9], 97 - int(digits[9:])
    return is_day(digits[2:4], digits[4:6]) and rest in (int(body) % 97, int(f"2{body}") % 97)


def korean(digits: str) -> bool:
    """Say whether digits are a Korean resident registration number."""
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    total = sum(weight * int(digit) for weight, digit in zip(weights, digits, strict=False))
    return is_day(digits[2:4], digits[4:6]) and (11 - total % 11) % 10 == int(digits[12])


def norwegian(digits: str) -> bool:
    """Say whether digits are a Norwegian birth number."""
    numbers = [int(digit) for digit in digits]
    first = (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)
    second = (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)
    return is_day(digits[2:4], digits[:2]) and not any(
        sum(weight * number for weight, number in zip(weights, numbers, strict=False)) % 11
        for weights in (first, second)
    )


def swedish(digits: str) -> bool:
    """Say whether digits are a Swedish personal number, with its century or without."""
    short = digits[-10:]
    century = len(digits) == 10 or digits[:2] in ("18", "19", "20")
    return century and is_day(short[2:4], short[4:6]) and luhn(short)


def south_african(digits: str) -> bool:
    """Say whether digits are a South African identity number."""
    return is_day(digits[2:4], digits[4:6]) and digits[10] in "01" and luhn(digits)


def french(digits: str) -> bool:
    """Say whether digits are a French social security number: sex, month and check digits."""
    shape = re.fullmatch(r"[12]\d\d(?:0[1-9]|1[0-2]|[2-9]\d)\d{10}", digits)
    return shape is not None and (97 - int(digits[:13]) % 97) == int(digits[13:])


# Keys


def looks_random(value: str) -> bool:
    """Say whether a string looks drawn by lot rather than written: a key, not a name in code."""
    mixed = any(
        re.search("[0-9]", part) and re.search("[A-Za-z]", part)
        for part in re.split("[-_.]", value)
        if len(part) >= 4
    )
    return mixed and entropy(value) >= 3.0


def entropy(value: str) -> float:
    """Return the bits of surprise in a character of `value`."""
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
