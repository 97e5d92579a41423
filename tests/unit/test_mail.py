"""E-mail: text, headers, attachments and mailboxes."""

from base64 import b64encode
from email.message import EmailMessage

import pytest

from tests.support.failures import raises_code
from tests.support.rows import each_row
from truespan.errors import SourceRefused
from truespan.extensions.formats.mail import MAX_ATTACHMENTS, MAX_MESSAGES
from truespan.parsing import load
from truespan.parsing.members import list_members, read_members
from truespan.types.metadata import check_metadata
from truespan.types.source import DocumentOptions, Member, Refusal

HEAD = (
    b"Message-ID: <lamp.7@quay.example>\nIn-Reply-To: <lamp.6@quay.example>\n"
    b"From: =?utf-8?q?Ida_Qu=C3=AFll?= <ida@quay.example>\n"
    b'To: "Ell, Bo" <bo@quay.example>,\n cy@quay.example\nCc: di@quay.example\n'
    b"Date: Mon, 16 Nov 2026 09:30:00 +0100\n"
    b"Subject: =?iso-8859-1?Q?The_l=E2mp?=\n =?utf-8?B?4oCm?=\n"
)
SHOWN = (
    "From: Ida Quïll <ida@quay.example>\nTo: Ell, Bo <bo@quay.example>, cy@quay.example\n"
    "Cc: di@quay.example\nDate: Mon, 16 Nov 2026 09:30:00 +0100\nSubject: The lâmp…"
)


def texts_of(data: bytes) -> list[str]:
    return [block.text for block in load("a.eml", data).blocks]


def body_of(headers: bytes, body: bytes) -> list[tuple[str, str]]:
    """Return the blocks of a message after the line with its sender."""
    first, *blocks = load("a.eml", b"From: a@b.example\n" + headers + b"\n" + body).blocks
    assert first.text.startswith("From: a@b.example")
    return [(block.kind.value, block.text) for block in blocks]


def members_of(name: str, data: bytes) -> list[Member]:
    return list(list_members(name, data, DocumentOptions()).members)


def test_headers_are_shown_and_stated() -> None:
    loaded = load("a.eml", HEAD + b"\nThe lamp is lit.\n")

    assert [block.text for block in loaded.blocks] == [SHOWN, "The lamp is lit."]
    assert loaded.title == loaded.properties.title == "The lâmp…"
    assert loaded.properties.authors == ("Ida Quïll",)
    assert loaded.properties.created == "2026-11-16T09:30:00+01:00"
    [message] = members_of("a.eml", HEAD + b"\nThe lamp is lit.\n")
    assert (message.name, message.declared["metadata"]) == (
        "",
        {
            "from": "ida@quay.example", "from_name": "Ida Quïll",
            "to": ["bo@quay.example", "cy@quay.example"], "cc": "di@quay.example",
            "date": "2026-11-16T09:30:00+01:00", "subject": "The lâmp…",
            "message_id": "lamp.7@quay.example", "in_reply_to": "lamp.6@quay.example",
        },
    )  # fmt: skip


TEXT = b"Content-Type: text/plain; charset="
HTML = b"Content-Type: text/html; charset="
FLOWED = b"Content-Type: text/plain; format=flowed"


@each_row("headers, body, expected", [
    (TEXT + b"iso-8859-1\n", b"caf\xe9 \x93so\x94", [("paragraph", "café “so”")]),
    (TEXT + b"utf-8\n", b"caf\xe9", [("paragraph", "café")]),
    (TEXT + b"us-ascii\n", b"caf\xc3\xa9", [("paragraph", "café")]),
    (TEXT + b"no-such-thing\n", b"caf\xc3\xa9", [("paragraph", "café")]),
    (TEXT + b"hex\n", b"616263", [("paragraph", "616263")]),
    (TEXT + b"koi8-r\n", "лампа".encode("koi8-r"), [("paragraph", "лампа")]),
    (TEXT + b"utf-8\nContent-Transfer-Encoding: quoted-printable\n", b"a=C3=A9=\nb",
     [("paragraph", "aéb")]),
    (TEXT + b"utf-8\nContent-Transfer-Encoding: base64\n", b64encode("aé".encode()),
     [("paragraph", "aé")]),
    (TEXT + b"utf-8\nContent-Transfer-Encoding: strange\n", b"kept", [("paragraph", "kept")]),
    (b"", b"One\n goes on.\n\n> Said\n>> twice\n>\n> more\nMine\n-- \nIda\n",
     [("paragraph", "One\n goes on."), ("quote", "Said\ntwice"), ("quote", "more"),
      ("paragraph", "Mine\n-- \nIda")]),
    (FLOWED + b"\n", b"One \ngoes on.\n> Said \n> so \n>> deeper\n-- \nIda\n",
     [("paragraph", "One goes on."), ("quote", "Said so \ndeeper"), ("paragraph", "-- \nIda")]),
    (FLOWED + b"; delsp=yes\n", b"wo \nrd\n", [("paragraph", "word")]),
    (HTML + b"utf-8\n",
     b"<meta charset=utf-16><footer><a href=x>All</a></footer>"
     b"<table><tr><th>a<th>b<tr><td>1<td>2</table>"
     b"<blockquote>Said</blockquote><img src='cid:1' alt=x>",
     [("paragraph", "All"), ("table", "a | b\n1 | 2"), ("quote", "Said")]),
    (b"Content-Type: multipart/mixed; boundary=x\n", b"no parts at all",
     [("paragraph", "no parts at all")]),
    (b"Content-Type: multipart/mixed\n", b"no boundary", [("paragraph", "no boundary")]),
])  # fmt: skip
def test_text_is_decoded_and_divided(headers: bytes, body: bytes, expected: object) -> None:
    assert body_of(headers, body) == expected


def alternative(plain: str, page: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "a@b.example"
    message.set_content(plain)
    message.add_alternative(page, subtype="html")
    return message


def test_plain_text_is_preferred_unless_html_has_far_more_words() -> None:
    page = "<p>The lamp is lit on Fridays.</p>"
    equal = alternative("The lamp is lit on Fridays.", page)
    stub = alternative("See HTML.", page + "<p>And the bell is rung at noon.</p>" * 3)
    empty = alternative("\n", page)
    # What is between these signs is text, also for whoever counts its words without parsing it.
    signs = alternative("See HTML.", "<p>1 < 2 and so on, said the keeper, whenever 3 > 2</p>")
    assert texts_of(bytes(equal))[1:] == ["The lamp is lit on Fridays."]
    assert len(texts_of(bytes(stub))) == 5
    assert "said the keeper" in texts_of(bytes(signs))[1]
    assert texts_of(bytes(empty))[1:] == ["The lamp is lit on Fridays."]


def with_attachments() -> EmailMessage:
    inner = alternative("Forwarded words.", "<p>Forwarded words.</p>")
    inner["Subject"] = "Inner"
    inner.add_attachment(b"<p>page</p>", maintype="text", subtype="html", filename="page.html")
    message = alternative("See the plan.", "<p>See the plan.<img src='cid:1'></p>")
    message["Subject"] = "Outer"
    message["Message-ID"] = "<1@x.example>"
    message.add_attachment(b"..", "image", "png", disposition="inline", filename="shown.png")
    message.add_attachment(b"..", "image", "png", filename="photo.png")
    message.add_attachment(b"%PDF-1.7", maintype="application", subtype="pdf", filename="../plän")
    message.add_attachment("One", filename="notes.txt")
    message.add_attachment("Two", filename="notes.txt")
    message.add_attachment(inner)
    return message


def test_attachments_are_separate_documents() -> None:
    data = bytes(with_attachments())
    loaded = load("a.eml", data)

    assert [(block.text, block.chapter) for block in loaded.blocks] == [
        (
            "From: a@b.example\nSubject: Outer\nAttachments: photo.png, plän, notes.txt, notes.txt",
            None,
        ),
        ("See the plan.", None),
        ("Inner", "Inner"),
        ("From: a@b.example\nSubject: Inner\nAttachments: page.html", "Inner"),
        ("Forwarded words.", "Inner"),
    ]
    found = list_members("a.eml", data, DocumentOptions())
    assert found.unsupported == 1
    assert [(member.name, member.ending, member.parent) for member in found.members] == [
        ("", "", None), ("plän", ".pdf", ""), ("notes.txt", "", ""), ("notes (2).txt", "", ""),
        ("page.html", "", ""),
    ]  # fmt: skip
    attached = found.members[1].declared["metadata"]
    assert attached == {"from": "a@b.example", "subject": "Outer", "message": "1@x.example"}
    [second, *_] = read_members("a.eml", data, DocumentOptions(), "notes (2).txt").members
    assert second.data.strip() == b"Two"


def test_metadata_of_very_many_addresses_is_shortened() -> None:
    to = ", ".join(f"Person {number} <p{number}@{'x' * 60}.example>" for number in range(5000))
    [message] = members_of("a.eml", f"To: {to}\nSubject: {'s' * 9000}\n\nText".encode())
    assert check_metadata(message.declared["metadata"])


@each_row("date, expected", [
    (b"16 Nov 2026 09:30:00 -0000", "2026-11-16T09:30:00+00:00"),
    (b"Mon, 16 Nov 26 09:30 EST", "2026-11-16T09:30:00-05:00"), (b"yesterday", None),
    (b"32 Nov 2026 09:30:00 +0100", None), (b"16 Nov 2026 09:30:00 +9999", None),
])  # fmt: skip
def test_dates_are_typed(date: bytes, expected: str | None) -> None:
    assert load("a.eml", b"Date: " + date + b"\n\nText").properties.created == expected


def test_raw_letters_and_broken_words_in_headers_are_read() -> None:
    head = "From: Jürgen <j@x.example>\nSubject: =?utf-8?b?!!!?= =?x-y?q?caf=E9?=\n\nText"
    assert load("a.eml", head.encode()).properties.authors == ("Jürgen",)
    assert load("a.eml", head.encode("latin-1")).properties.authors == ("Jürgen",)
    assert "café" in str(load("a.eml", head.encode()).title)


def test_messages_that_cannot_be_read_are_refused() -> None:
    encrypted = b"Content-Type: multipart/encrypted; boundary=x\n\n--x\n\nVersion: 1\n--x--\n"
    with raises_code("source_encrypted"):
        load("a.eml", b"From: a@b\n" + encrypted)
    with pytest.raises(SourceRefused):
        load("a.eml", bytes(range(256)) * 10)
    with raises_code("source_unsupported", match="eml"):
        load("a.msg", b"\xd0\xcf\x11\xe0" + bytes(64))
    nested = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(2000)
    )
    with raises_code("source_unsafe"):
        load("a.eml", b"From: a@b\n" + nested)


FROM = b"From ida@quay.example Mon Nov 16 09:30:00 2026\n"


def test_a_mailbox_has_a_document_for_each_message() -> None:
    first = b"Message-ID: <a/1@x.example>\nSubject: One\n\nText\n\n"
    first += b"From here on.\n>From there.\n>>From\n\n"
    other = b"Subject: None\nDate: Mon, 16 Nov 2026 09:30:00 +0100\n\nNo id.\n\n"
    attached = bytes(with_attachments()) + b"\n"
    again = b"Message-ID: <a/1@x.example>\nSubject: One\n\nOther text.\n"
    box = FROM.join([b"", first, other, first, attached, again])

    found = list_members("a.mbox", box, DocumentOptions())

    names = [member.name for member in found.members]
    assert names[0] == "a_1@x.example.eml"
    assert names[1].startswith("message-")
    assert names[2:7] == [
        "1@x.example.eml",
        *(f"1@x.example/{name}" for name in ("plän", "notes.txt", "notes (2).txt", "page.html")),
    ]
    assert names[7].startswith("a_1@x.example-")
    assert found.members[3].parent == "1@x.example.eml"
    # A picture, and a copy.
    assert found.unsupported == 2
    [read, *_] = read_members("a.mbox", box, DocumentOptions(), names[0]).members
    assert texts_of(read.data)[1:] == ["Text", "From here on.\nFrom there.", "From"]
    # Its name does not depend on the others.
    assert names[1] in [each.name for each in members_of("a.mbox", FROM + other)]


def test_mailboxes_with_other_separators_and_line_ends_are_read() -> None:
    crlf = FROM.join([b"", b"Subject: 1\n\nText\n\n", b"Subject: 2\n\nText\n"]).replace(
        b"\n", b"\r\n"
    )
    undated = b"From ida\nSubject: 1\n\nText\n\nFrom bo\nSubject: 2\n\nText\n"
    quoted = FROM + b">From old\nSubject: 1\n\nText\n" + FROM + b"Subject: 2\n\nText\n"
    for box in (crlf, undated, quoted):
        titles = [load("a.eml", read.data).title for read in _read_all(box)]
        assert titles == ["1", "2"]
    with pytest.raises(SourceRefused):
        list_members("a.mbox", b"Just text.", DocumentOptions())


def _read_all(box: bytes) -> list[Member]:
    first = members_of("a.mbox", box)[0].name
    return list(read_members("a.mbox", box, DocumentOptions(), first).members)


def test_broken_messages_do_not_stop_the_others() -> None:
    nested = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(2000)
    )
    box = FROM.join(
        [b"", b"Subject: 1\n\nText\n", b"Subject: 2\n" + nested, b"Subject: 3\n\nText\n"]
    )
    refused = [member.refusal is not None for member in members_of("a.mbox", box)]
    assert refused == [False, True, False]


def test_attachments_and_messages_are_limited() -> None:
    message = alternative("See below.", "<p>See below.</p>")
    for number in range(MAX_ATTACHMENTS + 3):
        message.add_attachment("Text", filename=f"{number}.txt")
    data = bytes(message)

    found = list_members("a.eml", data, DocumentOptions()).members
    assert len(found) == 1 + MAX_ATTACHMENTS + 1
    last = found[-1]
    assert (last.name, last.data) == ("3 further attachments", b"")
    assert last.refusal == Refusal(
        "source_too_large", "The message has 203; the first 200 are read."
    )
    assert texts_of(data)[0].endswith("199.txt, and 3 more")
    mailbox = b"From a@b.example Mon Nov 16 09:30:00 2026\nFrom: a@b.example\n\nText\n\n"
    with raises_code("source_too_large", match="100001 messages"):
        list_members("a.mbox", mailbox * (MAX_MESSAGES + 1), DocumentOptions())
