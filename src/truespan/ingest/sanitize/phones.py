"""Phone numbers. A cheap pattern finds what could be one; the library of numbering plans decides.

Numbers in international form are known anywhere, and so are those in North American form. Others
count after a word such as "Tel.", or where a profile names the regions they are from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from truespan.ingest.sanitize.audit import PHONE, Finding
from truespan.ingest.sanitize.fold import before, lowered

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
_LABEL = re.compile(
    r"(?<![a-z])(?:phone|telephone|tel|mobile|cell|cellphone|fax|whatsapp|sms|hotline|telefon|handy|"
    r"mobil|mobilnummer|rufnummer|fon|tél|téléphone|portable|teléfono|telefono|móvil|cellulare|"
    r"telefone|celular|telefoon|puhelin|телефон|тел|τηλ|電話|电话|手机|携帯|전화)"
    r"(?: ?(?:no|nr|number|numbers|nummer|num|n°|#))?[.]?(?: is| at| on)?[ \t]?[:#=]?"
    r"[ \t\n]{0,2}\(?$"
    r"|(?:call|text|ring|reach)(?: me| us| him| her| them)? (?:at|on)[: ]{1,2}\(?$"
)
_DECIMAL = re.compile(r"[0-9]{5}\.[0-9]$")
_LAST_GROUP = re.compile(r"(.{1,80}[0-9)])[ ().\-/]{1,3}[0-9]{1,20}")
_BEFORE = 40
_TRIES = 3
_FEWEST, _MOST = 7, 15


def scan_phones(view: str, regions: Sequence[str] = ()) -> Iterator[Finding]:
    """Give the phone numbers of a text; those of `regions` also in their national form."""
    for run in _RUN.finditer(view):
        found = _number_in(view, run.start(), run[0], regions)
        if found is not None:
            end, rule = found
            extension = _EXTENSION.match(view, end)
            yield Finding(run.start(), extension.end() if extension else end, PHONE, rule)


def _number_in(view: str, start: int, run: str, regions: Sequence[str]) -> tuple[int, str] | None:
    """Return where the number ends that a run begins with, and how it was known.

    A run may hold more than the number, such as an amount that follows it. So its last groups are
    given up one by one.
    """
    if _DATE.match(run) or _DECIMAL.search(run):
        return None
    labelled = _LABEL.search(lowered(before(view, start, _BEFORE))) is not None
    for value in _shorter(run):
        digits = sum(map(str.isdigit, value))
        if not _FEWEST <= digits <= _MOST:
            continue
        if rule := _rule_for(value, regions):
            return start + len(value), rule
        if labelled:
            return start + len(value), "phone.labelled"
    return None


def _shorter(run: str) -> Iterator[str]:
    for _ in range(_TRIES):
        yield run
        groups = _LAST_GROUP.fullmatch(run)
        if groups is None:
            return
        run = groups[1]


def _rule_for(value: str, regions: Sequence[str]) -> str:
    """Return the rule by which a value is a phone number; empty when it is none by itself."""
    plain = value.lstrip("(")
    if plain.startswith("+"):
        return "phone.international" if _is_valid(plain, None) else ""
    if plain.startswith("00"):
        return "phone.international" if _is_valid(f"+{plain[2:]}", None) else ""
    if _NORTH_AMERICAN.fullmatch(value) and _is_valid(value, "US"):
        return "phone.north_american"
    national = any(_fits(plain, region) and _is_valid(value, region) for region in regions)
    return "phone.national" if national else ""


def _fits(plain: str, region: str) -> bool:
    """Say whether a number begins as it would be dialled in a region.

    The library takes numbers without their leading zero, too. Where one is dialled, most numbers
    without it are no phone numbers.
    """
    import phonenumbers

    metadata = phonenumbers.PhoneMetadata.metadata_for_region(region)
    return metadata is not None and (metadata.national_prefix != "0" or plain.startswith("0"))


def _is_valid(value: str, region: str | None) -> bool:
    import phonenumbers

    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(value, region))
    except phonenumbers.NumberParseException:
        return False
