"""National identity numbers: what they look like, how they are checked, which words go with them.

A number is known by its shape and its check digits. Where a random number of the same shape would
pass in more than about one of two hundred cases, and the shape itself is an everyday one, a word
that names the number must stand before it.
"""

from __future__ import annotations

from typing import NamedTuple

from truespan.ingest.sanitize.validators import (
    Check,
    belgian,
    by_stdnum,
    french,
    korean,
    norwegian,
    south_african,
    swedish,
)


class NationalId(NamedTuple):
    """A kind of number. In a shape 9 is a digit and A a letter; all else stands for itself.

    `check` gets the letters and digits alone, unless it is `whole`. Without `words` the number is
    believed wherever it stands.
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
"""Numbers that are known by themselves."""

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
"""Numbers that count only after one of their words. The American one has no check digit at all."""
