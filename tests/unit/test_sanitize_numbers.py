"""Numbers found by their check digits, and numbers that only resemble them."""

from tests.support.rows import each_row
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.profile import Profile, parse_profile
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer

SHADOW = Sanitizer(Mode.SHADOW)
WITHOUT_PHONES = Profile(without=frozenset({"PHONE"}))


def found_in(text: str, sanitizer: Sanitizer = SHADOW) -> list[tuple[str, str]]:
    return [(each.label, text[each.start : each.end]) for each in sanitizer.findings(text)]


def rules_in(text: str) -> set[str]:
    return {each.rule for each in SHADOW.findings(text)}


def with_other_digit(text: str, place: int) -> str:
    """Return a text in which one digit is the next one."""
    places = [at for at, char in enumerate(text) if char.isdigit()]
    at = places[place]
    return text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]


# Payment cards


@each_row("number", [
    "4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "4111 1111 1111\n1111",
    "4012888888881881", "5555555555554444", "5105 1051 0510 5100", "2223003122003222",
    "378282246310005", "3782 822463 10005", "6011111111111117", "6011 0009 9013 9424",
    "30569309025904", "3056 930902 5904", "3530111333300000", "6200000000000005",
    "2200700000000009", "6759649826438453", "４１１１ １１１１ １１１１ １１１１",
    "٤١١١ ١١١١ ١١١١ ١١١١",
    "4111\u00a01111\u00a01111\u00a01111", "4111\u20111111\u20111111\u20111111",
])  # fmt: skip
@each_row("frame", ["{}", "Card {} expires 12/29.", "卡号{}。", "a,{},737", "({})"])
def test_card_number_is_found_in_any_spelling(number: str, frame: str) -> None:
    assert found_in(frame.format(number)) == [("CREDIT_CARD", number)]


@each_row("place", range(16))
def test_card_number_with_a_wrong_digit_is_not_found(place: int) -> None:
    assert found_in(with_other_digit("4012888888881881", place)) == []


def test_card_number_is_found_among_other_numbers() -> None:
    assert found_in("1 4111 1111 1111 1111 737") == [("CREDIT_CARD", "4111 1111 1111 1111")]


@each_row("text", [
    "Order 1234567890123456", "Order 1234567812345670", "IMEI 378282246310005",
    "0000 0000 0000 0000", "0.4111111111111111 of it", "41111111111111110", "x4111111111111111",
    "4111111111111111x", "4111_1111_1111_1111", "4111  1111  1111  1111", "4111\n1111\n1111\n1111",
    "ISBN 9783161484100", "EAN 4006381333931", "4006381333931", "IMEI 490154203237518",
    "2023-11-14 12:30:45.123456", "550e8400-e29b-41d4-a716-446655440000", "1 234 567 890 123 EUR",
    "1995 1996 1997 1998", "pi is 3.1415926535897932384626",
])  # fmt: skip
def test_other_long_numbers_are_not_card_numbers(text: str) -> None:
    assert found_in(text) == []


# IBANs


@each_row("number", [
    "DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "de89 3704 0044 0532 0130 00",
    "DE89-3704-0044-0532-0130-00", "DE89 3704 0044 0532\n0130 00", "GB82 WEST 1234 5698 7654 32",
    "FR14 2004 1010 0505 0001 3M02 606", "ES91 2100 0418 4502 0005 1332",
    "IT60 X054 2811 1010 0000 0123 456", "NL91 ABNA 0417 1643 00", "BE68 5390 0754 7034",
    "AT61 1904 3002 3457 3201", "CH93 0076 2011 6238 5295 7",
    "PL61 1090 1014 0000 0712 1981 2874", "SE45 5000 0000 0583 9825 7466", "NO93 8601 1117 947",
    "MT84 MALT 0110 0001 2345 MTLC AST0 01S", "ＤＥ８９ ３７０４ ００４４ ０５３２ ０１３０ ００",
])  # fmt: skip
@each_row("frame", ["{}", "IBAN: {} BIC COBADEFFXXX", "帐号{}，", "to {}."])
def test_iban_has_the_length_of_its_country(number: str, frame: str) -> None:
    assert found_in(frame.format(number)) == [("IBAN", number)]


@each_row("text", [
    *(with_other_digit("DE89370400440532013000", place) for place in range(0, 20, 3)),
    "GB82 WEST 1234 5698 7654 33", "XX89370400440532013000", "DE89 3704 0044 0532 0130",
    "DE893704004405320130000", "ADE89370400440532013000", "DE89\n3704\n0044\n0532\n0130\n00",
    "GB82 of the code", "AB12 CD34 EF56 GH78 IJ90", "BIC COBADEFFXXX",
    "SHA1 da39a3ee5e6b4b0d3255bfef95601890afd80709",
])  # fmt: skip
def test_other_numbers_are_not_found_as_iban(text: str) -> None:
    assert "IBAN" not in dict(found_in(text))


# National identity numbers

DISTINCTIVE = [
    ("ar.cuit", "34-75639052-1"), ("be.nn", "630309-763.49"), ("be.nn", "85.07.30-033.28"),
    ("br.cpf", "785.339.968-53"), ("ch.ssn", "756.1465.0747.37"), ("ch.ssn", "7561465074737"),
    ("cl.rut", "45.550.015-K"), ("cn.ric", "11010519510607432X"), ("cz.rc", "520601/5760"),
    ("de.idnr", "70 488 625 891"), ("de.idnr", "70488625891"), ("es.dni", "30.236.681-F"),
    ("es.dni", "12345678Z"), ("es.nie", "Z7595702-A"), ("es.nie", "X-1234567-L"),
    ("fi.hetu", "170227-621K"), ("fr.nir", "2 38 07 97 248 185 31"),
    ("fr.nir", "238079724818531"), ("is.kennitala", "671049-0120"),
    ("it.codicefiscale", "RSSMRA43A04A095Z"), ("kr.rrn", "371211-6295231"),
    ("mx.curp", "DAGD961023HJCCCF08"), ("no.fodselsnummer", "010722 89311"),
    ("pt.cc", "50714887 6 UA9"), ("ro.cnp", "8990721705129"), ("se.personnummer", "205412031154"),
    ("se.personnummer", "541203-1154"), ("si.emso", "2801353340824"),
    ("th.pin", "5-0085-78948-08-5"), ("za.idnr", "0505179195035"),
]  # fmt: skip
INTRODUCED = [
    ("at.vnr", "SVNR 1112 635697"), ("au.tfn", "TFN: 377 578 373"), ("bg.egn", "ЕГН 8601198197"),
    ("br.cpf", "CPF 75048251580"), ("ca.sin", "Social insurance number 550-955-785"),
    ("cz.rc", "rodné číslo: 468014 6405"), ("ee.ik", "isikukood 54307152778"),
    ("gb.nhs", "NHS number 926 232 9563"), ("gr.amka", "ΑΜΚΑ 30119546684"),
    ("hr.oib", "OIB: 75726080711"), ("ie.pps", "PPS number 2879216PB"),
    ("il.idnr", "teudat zehut 73212504-2"), ("in.aadhaar", "Aadhaar 8999 3633 6815"),
    ("jp.in", "マイナンバー：5686-0336-4100"), ("lt.asmens", "asmens kodas 95118009954"),
    ("lv.pvn", "personas kods 497131-75223"), ("nl.bsn", "BSN: 715141442"),
    ("pl.pesel", "PESEL 20061505560"), ("ru.inn", "ИНН 084555909296"),
    ("se.personnummer", "Personnummer 8307048242"), ("tr.tckimlik", "T.C. Kimlik No: 99457198248"),
    ("us.ssn", "SSN 378-67-8868"),
]  # fmt: skip


@each_row(("kind", "number"), DISTINCTIVE)
@each_row("frame", ["{}", "His number is {}.", "编号{}。", "a,{},b"])
def test_distinctive_identity_number_is_found_without_a_label(kind: str, number: str, frame: str):
    assert rules_in(frame.format(number)) == {f"national_id.{kind}"}


@each_row(("kind", "text"), INTRODUCED)
def test_common_number_is_an_identity_number_after_its_label(kind: str, text: str) -> None:
    number = text[next(at for at, char in enumerate(text) if char.isdigit()) :]
    assert rules_in(text) == {f"national_id.{kind}"}
    assert "NATIONAL_ID" not in dict(found_in(f"Order {number}"))


@each_row(("kind", "text"), [*DISTINCTIVE, *INTRODUCED[:-1]])
def test_identity_number_with_a_wrong_digit_is_not_found(kind: str, text: str) -> None:
    last = with_other_digit(text, -1)
    assert f"national_id.{kind}" not in rules_in(last)


@each_row("text", [
    "Order 12345678901", "Invoice 2023-000123456", "ISBN 0306406152", "EAN 8990721705129",
    "ISBN-13: 978-0-306-40615-7", "no. 0123456789012", "14.11.2023-001.99", "2023-11-14",
    "12345678A", "999.999.999-99", "85.07.30-033.29", "756.1465.0747.38", "1.785.339.968-53",
    "785.339.968-53/7", "abc785.339.968-53", "_30236681F", "part 30236681FX", "1990 1991 1992 1993",
    "the basin 550955785 holds", "commit 1234567890abcdef1234567890abcdef12345678",
])  # fmt: skip
def test_order_numbers_dates_and_codes_are_not_identity_numbers(text: str) -> None:
    assert found_in(text) == []


# Phone numbers


@each_row(("text", "number"), [
    ("call +49 30 901820 now", "+49 30 901820"), ("+49 (0)30 901820", "+49 (0)30 901820"),
    ("+4930901820", "+4930901820"), ("0049 30 901820", "0049 30 901820"),
    ("+1 212 736 5000", "+1 212 736 5000"), ("+1-212-736-5000", "+1-212-736-5000"),
    ("+44 20 7946 0958", "+44 20 7946 0958"), ("+33 1 44 05 44 05", "+33 1 44 05 44 05"),
    ("+81 3-3224-5000", "+81 3-3224-5000"), ("+91 11 2301 2113", "+91 11 2301 2113"),
    ("+86 10 6529 9639", "+86 10 6529 9639"), ("+41 44 668 18 00 12 people", "+41 44 668 18 00"),
    ("(212) 736-5000", "(212) 736-5000"), ("212-736-5000", "212-736-5000"),
    ("212.736.5000", "212.736.5000"), ("1-212-736-5000", "1-212-736-5000"),
    ("(212) 736-5000 ext. 12", "(212) 736-5000 ext. 12"), ("Tel. 030 1234567", "030 1234567"),
    ("Telefon: 030/1234567", "030/1234567"), ("Phone number: 555 1234", "555 1234"),
    ("Call us at 555-1234.", "555-1234"), ("Mobil 0171 2345678", "0171 2345678"),
    ("тел. 8 495 123-45-67", "8 495 123-45-67"), ("fax: +31-20-914-738", "+31-20-914-738"),
    ("电话：010 65299639", "010 65299639"),
    ("＋４９ ３０ ９０１８２０", "＋４９ ３０ ９０１８２０"),
])  # fmt: skip
def test_phone_number_is_found(text: str, number: str) -> None:
    assert found_in(text) == [("PHONE", number)]


@each_row("text", [
    "Order 12345678", "2023-11-14", "14.11.2023", "Tel Aviv 1948", "Phone sales 2023-11-14",
    "Fax: 2023-11-14", "1 234 567.89", "$1234567", "1,234,567", "ISBN 978-3-16-148410-0", "+1",
    "+12 345", "+49 30 9018201234567890", "v1.2345678", "12:30:45", "1999-2003 2004-2008",
    "#1234567", "id=12345678", "x+1234567890", "pp. 1234-1241, 1301-1312", "030 1234567",
    "+35236450.6",
])  # fmt: skip
def test_other_numbers_are_not_phone_numbers(text: str) -> None:
    assert found_in(text) == []


def test_phone_numbers_can_be_disabled() -> None:
    assert found_in("call +49 30 901820", Sanitizer(Mode.SHADOW, profile=WITHOUT_PHONES)) == []
    german = Sanitizer(Mode.SHADOW, profile=parse_profile('phone_regions = ["DE"]'))
    assert found_in("ring 030 901820", german) == [("PHONE", "030 901820")]
    assert found_in("on 14.11.2023 at 12", german) == []
    assert found_in("order 715141442", german) == []
    spanish = Sanitizer(Mode.SHADOW, profile=parse_profile('phone_regions = ["DE", "ES"]'))
    assert found_in("llama al 912 345 678", spanish) == [("PHONE", "912 345 678")]
