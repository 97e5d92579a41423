"""Email addresses, IP addresses and phone numbers.

Phone numbers in international and in North American form are found anywhere. Others are found after
a word such as "Tel.", or if a profile names their region. A cheap pattern finds candidates; the
library of numbering plans decides.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from truespan.extensions.checks.sanitize.findings import (
    EMAIL,
    HIDDEN,
    IP_ADDRESS,
    PHONE,
    Finding,
    find_words,
    text_before,
    to_lower,
)

_LOCAL_WIDTH = 64
_LABELS = 9
_LETTERS = "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u024f\u0370-\u03ff\u0400-\u052f"
_LABEL = f"[0-9{_LETTERS}-]{{1,63}}"
# Labels cannot contain the dot between them, so the pattern never backtracks.
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{1,{_LABELS}}}")
_WIDE_DOMAIN = re.compile(rf"[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,{_LABELS}}}")
_LOCAL = re.compile(rf"[0-9{_LETTERS}._%+'!#$*~^-]")
_SIGNS = {"": ("@", "%40")}
_EDGE = "._%+'!#$*~^-"
_ENDINGS = (
    "png jpg jpeg gif svg webp bmp tif tiff ico heic css js jsx tsx json html htm xml yaml toml"
    " txt pdf docx xlsx pptx csv mp3 mp4 wav exe dll"
)
_NO_TOP_LEVEL = frozenset(_ENDINGS.split())
"""File extensions: `logo@2x.png` is a picture. None of them is a top-level domain."""

_SPELLED = re.compile(
    rf"(?<![0-9A-Za-z._%+-])([0-9A-Za-z][0-9A-Za-z._%+-]{{0,63}}) ?[\[({{] ?at ?[\])}}] ?"
    rf"([0-9A-Za-z-]{{1,63}}(?:(?: ?[\[({{] ?dot ?[\])}}] ?|\.)[0-9A-Za-z-]{{1,63}})"
    rf"{{1,{_LABELS}}})",
    re.IGNORECASE,
)
_SPELLED_AT = re.compile(r"[\[({] ?at ?[\])}]", re.IGNORECASE)


def scan_emails(view: str) -> Iterator[Finding]:
    """Yield email addresses, also with `%40` and spelled as `[at]` and `[dot]`."""
    for at, sign in find_words(view, _SIGNS):
        start, end = _local_start(view, at), _domain_end(view, at + len(sign))
        if start < at and end:
            yield Finding(start, end, EMAIL, "email")
    if _SPELLED_AT.search(view):
        for found in _SPELLED.finditer(view):
            yield Finding(found.start(), found.end(), EMAIL, "email.spelled")


def _local_start(view: str, at: int) -> int:
    """Return the start of the local part before the at sign; `at` if it is empty."""
    if view[at - 1 : at] == '"':
        opening = view.rfind('"', max(at - _LOCAL_WIDTH, 0), at - 1)
        between = view[opening:at] if opening >= 0 else "\n"
        return at if "\n" in between or HIDDEN in between else opening
    start = at
    while at - start < _LOCAL_WIDTH and start and _LOCAL.match(view, start - 1):
        start -= 1
    if start == at:
        while at - start < _LOCAL_WIDTH and start and view[start - 1].isalnum():
            start -= 1
    while start < at and view[start] in _EDGE:
        start += 1
    return start


def _domain_end(view: str, start: int) -> int:
    """Return the end of the longest domain that begins at `start`; 0 if there is none."""
    found = _DOMAIN.match(view, start) or _WIDE_DOMAIN.match(view, start)
    labels = found[0].split(".") if found else []
    while len(labels) > 1:
        label = labels.pop()
        last = label.rstrip("-")
        if not label.lower().startswith("xn--") or len(last) <= 4:
            last = label.split("-")[0]
            if not (2 <= len(last) <= 24 and last.isalpha()) or last.lower() in _NO_TOP_LEVEL:
                continue
        if all(label.strip("-") for label in labels):
            return start + sum(map(len, labels)) + len(labels) + len(last)
    return 0


# Patterns that begin with a fixed character are fast on prose, so the lookbehind comes after it.
_V4 = re.compile(
    r"[0-9](?<![0-9A-Za-z_.][0-9])[0-9]{0,2}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}"
    r"(?![0-9A-Za-z_]|[.-][0-9])"
)
_COLONS = re.compile(":[0-9A-Fa-f]{0,4}:")
_V6 = re.compile(
    r"(?<![0-9A-Za-z_:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f.]{0,15}(?![0-9A-Za-z_:])"
)
_FIRST_GROUP, _WIDEST = 4, 48
_BEFORE = 32
_OTHER_NUMBER = re.compile(
    r"(?:(?<![a-z])(?:v|vs|ver|versions?|releases?|rel|rev|revision|build|firmware|driver|patch|"
    r"update|sections?|sect|sec|chapters?|chap|clauses?|paragraphs?|para|articles?|art|items?|"
    r"figures?|fig|tables?|steps?|rules?|requirements?|appendix|annex|kapitel|abschnitte?|ziffer|"
    r"absatz|punkt|abb|tabelle|versión|sección|capítulo|versione|sezione|versão|seção|wersja|"
    r"versie|no|nr|oid|ec)|§|версия|раздел|版本|バージョン)"
    r"[.:]?[ \t\n]{0,2}(?:#|is|ist|=)?[ \t]?$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\.?[ \t]{1,8}[^\W\d_]")
_PLAIN_NUMBER = range(1, 31)
_LEAD = 12
"""The longest run of marks and spaces at the beginning of a heading."""


def scan_addresses(view: str) -> Iterator[Finding]:
    """Yield IP addresses of both versions, except loopback addresses and masks."""
    for found in _V4.finditer(view):
        if _is_v4(view, found.start(), found.end()):
            yield Finding(found.start(), found.end(), IP_ADDRESS, "ip_address.v4")
    for colons in _COLONS.finditer(view):
        # Only the first colons of an address are checked.
        first = max(colons.start() - _FIRST_GROUP, 0)
        found = _V6.search(view, first, colons.end() + _WIDEST)
        if found and found.start() <= colons.start() and _is_v6(value := found[0].rstrip(".")):
            yield Finding(found.start(), found.start() + len(value), IP_ADDRESS, "ip_address.v6")


def _is_v4(view: str, start: int, end: int) -> bool:
    try:
        address = ipaddress.IPv4Address(view[start:end])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified or address.packed[:2] == b"\xff\xff":
        return False
    if _OTHER_NUMBER.search(text_before(view, start, _BEFORE)):
        return False
    # A package version, as in `zlib-1.2.3.4`.
    follows_name = start > 1 and view[start - 1] in "-_" and view[start - 2].isalpha()
    if follows_name and address.packed[0] < 10:
        return False
    # A section number: small numbers before a capital letter, as in `1.2.3.4 Scope`.
    lead = f"\n{view[:start]}" if start < _LEAD else view[start - _LEAD : start]
    heading = _HEADING.match(view, end) if lead.rstrip(" \t#*").endswith("\n") else None
    small = all(number in _PLAIN_NUMBER for number in address.packed)
    return not (heading is not None and small and heading[0][-1].isupper())


def _is_v6(value: str) -> bool:
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return False
    groups = [group for group in value.split(":") if group]
    written = any(char.isdigit() for char in value) and len(groups) > 1
    return written and len(max(groups, key=len)) >= 3 and not address.is_loopback


_RUN = re.compile(
    r"[+(0-9](?<![0-9A-Za-z_+./@$€£-][+(0-9])(?<![0-9]:[+(0-9])"
    r"(?:(?<=[0-9])|(?<=\()\+?[0-9]|(?<=\+)[0-9])"
    r"(?:[ ().\-/]{0,3}[0-9]){6,17}"
    r"(?![0-9A-Za-z_%@]|[.,:/-][0-9])"
)
_EXTENSION = re.compile(r",? ?(?:x|ext\.?|extension|durchwahl|poste) ?[0-9]{1,6}(?![0-9])", re.I)
_NORTH_AMERICAN = re.compile(
    r"(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[ .-][0-9]{4}"
)
_DATE = re.compile(
    r"(?:19|20)[0-9]{2}[-./ ][01]?[0-9][-./ ][0-3]?[0-9]"
    r"|[0-3]?[0-9][./-][0-3]?[0-9][./-](?:19|20)[0-9]{2}"
)
_PHONES_LABEL = re.compile(
    r"(?<![a-z])(?:phone|telephone|tel|mobile|cell|cellphone|fax|whatsapp|sms|hotline|telefon|handy|"
    r"mobil|mobilnummer|rufnummer|fon|tél|téléphone|portable|teléfono|telefono|móvil|cellulare|"
    r"telefone|celular|telefoon|puhelin|телефон|тел|τηλ|電話|电话|手机|携帯|전화)"
    r"(?: ?(?:no|nr|number|numbers|nummer|num|n°|#))?[.]?(?: is| at| on)?[ \t]?[:#=]?"
    r"[ \t\n]{0,2}\(?$"
    r"|(?:call|text|ring|reach)(?: me| us| him| her| them)? (?:at|on)[: ]{1,2}\(?$"
)
_DECIMAL = re.compile(r"[0-9]{5}\.[0-9]$")
_LAST_GROUP = re.compile(r"(.{1,80}[0-9)])[ ().\-/]{1,3}[0-9]{1,20}")
_PHONES_BEFORE = 40
_TRIES = 3
_MIN_DIGITS, _MAX_DIGITS = 7, 15


def scan_phones(view: str, regions: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield phone numbers; numbers of `regions` also in national form."""
    for run in _RUN.finditer(view):
        if found := _find_number(view, run.start(), run[0], regions):
            end, rule = found
            extension = _EXTENSION.match(view, end)
            yield Finding(run.start(), extension.end() if extension else end, PHONE, rule)


def _find_number(view: str, start: int, run: str, regions: Sequence[str]) -> tuple[int, str] | None:
    """Return the end of the number at the start of a run, and the rule that found it.

    A run may contain more than the number, such as an amount after it, so its last groups are
    dropped one by one.
    """
    if _DATE.match(run) or _DECIMAL.search(run):
        return None
    labelled = _PHONES_LABEL.search(to_lower(text_before(view, start, _PHONES_BEFORE))) is not None
    for _ in range(_TRIES):
        if _MIN_DIGITS <= sum(map(str.isdigit, run)) <= _MAX_DIGITS:
            rule = _rule_for(run, regions) or ("phone.labelled" if labelled else "")
            if rule:
                return start + len(run), rule
        groups = _LAST_GROUP.fullmatch(run)
        if groups is None:
            return None
        run = groups[1]
    return None


def _rule_for(value: str, regions: Sequence[str]) -> str:
    """Return the rule by which a value is a phone number; "" if it needs a label."""
    import phonenumbers

    def is_valid(number: str, region: str | None) -> bool:
        try:
            return phonenumbers.is_valid_number(phonenumbers.parse(number, region))
        except phonenumbers.NumberParseException:
            return False

    plain = value.lstrip("(")
    if plain.startswith(("+", "00")):
        international = plain if plain.startswith("+") else f"+{plain[2:]}"
        return "phone.international" if is_valid(international, None) else ""
    if _NORTH_AMERICAN.fullmatch(value) and is_valid(value, "US"):
        return "phone.north_american"
    for region in regions:
        metadata = phonenumbers.PhoneMetadata.metadata_for_region(region)
        # The library accepts numbers without the leading zero. In regions that dial a zero, most
        # numbers without one are not phone numbers.
        as_dialled = metadata and (metadata.national_prefix != "0" or plain.startswith("0"))
        if as_dialled and is_valid(value, region):
            return "phone.national"
    return ""
