"""The sanitizer: modes, markers, pseudonyms, digest and documents."""

import re
from collections import Counter

import pytest

from tests.promises import proves
from truespan.errors import InvalidConfiguration
from truespan.extensions.checks.sanitize.findings import Mode, Style, move_offsets
from truespan.extensions.checks.sanitize.profile import Profile, parse_profile
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer, sanitize_document
from truespan.ingest.canonical import assemble
from truespan.text.sentences import split_sentences
from truespan.types.text import (
    Block,
    BlockKind,
    Figure,
    Loaded,
    PageStart,
    PlacedFigure,
    Properties,
)

TEXT = "Write to ann@example.com or call +49 30 901820."
KEY = b"a key that nobody knows"
WITHOUT_PHONES = Profile(without=frozenset({"PHONE"}))
ON = Sanitizer(Mode.ON)
PSEUDONYMS = Sanitizer(Mode.ON, Style.PSEUDONYM, KEY)


@proves("sanitise.audit-and-off")
def test_sanitizer_off_changes_and_records_nothing() -> None:
    done = Sanitizer(Mode.OFF).apply(TEXT)
    assert (done.text, done.edits, done.counts) == (TEXT, (), {})


@proves("sanitise.audit-and-off")
def test_sanitizer_shadow_mode_only_records() -> None:
    done = Sanitizer(Mode.SHADOW).apply(TEXT)
    assert (done.text, done.edits) == (TEXT, ())
    assert done.counts == {("EMAIL", "email"): 1, ("PHONE", "phone.international"): 1}


def test_sanitizer_on_replaces_values_with_labels() -> None:
    done = ON.apply(TEXT)
    assert done.text == "Write to [EMAIL] or call [PHONE]."
    assert [(TEXT[edit.start : edit.end], edit.replacement) for edit in done.edits] == [
        ("ann@example.com", "[EMAIL]"),
        ("+49 30 901820", "[PHONE]"),
    ]
    assert done.counts == Sanitizer(Mode.SHADOW).apply(TEXT).counts


def test_pseudonym_is_a_keyed_hash_of_ten_digits() -> None:
    assert re.fullmatch(r"\[EMAIL:[0-9a-f]{10}\]", PSEUDONYMS.apply("ann@example.com").text)


@pytest.mark.parametrize(("one", "other"), [
    ("ann@example.com", "Ann@EXAMPLE.com"), ("ann@example.com", "ann%40example.com"),
    ("ann@example.com", "ann [at] example [dot] com"),
    ("4111 1111 1111 1111", "4111-1111-1111-1111"),
    ("4111111111111111", "４１１１１１１１１１１１１１１１"),
    ("DE89 3704 0044 0532 0130 00", "de89370400440532013000"), ("+49 30 901820", "0049 30/901820"),
    ("2001:db8::1", "2001:0DB8:0:0:0:0:0:1"), ("756.1465.0747.37", "7561465074737"),
])  # fmt: skip
def test_equal_values_get_equal_pseudonyms(one: str, other: str) -> None:
    assert PSEUDONYMS.apply(one).text == PSEUDONYMS.apply(other).text != one


def test_pseudonyms_differ_by_value_label_and_key() -> None:
    other_key = Sanitizer(Mode.ON, Style.PSEUDONYM, KEY + b"!")
    texts = [
        PSEUDONYMS.apply("ann@example.com").text,
        PSEUDONYMS.apply("bob@example.com").text,
        PSEUDONYMS.apply("password: 'ann@example.com'").text,
        other_key.apply("ann@example.com").text,
    ]
    assert len({mark for text in texts for mark in re.findall(":([0-9a-f]{10})]", text)}) == 4


@pytest.mark.parametrize("key", [b"", b"short"])
def test_pseudonyms_without_a_key_are_refused(key: bytes) -> None:
    with pytest.raises(InvalidConfiguration):
        Sanitizer(Mode.ON, Style.PSEUDONYM, key)


def test_earlier_markers_are_kept_and_the_key_is_hidden() -> None:
    assert KEY.decode() not in repr(PSEUDONYMS)
    assert KEY.hex() not in PSEUDONYMS.digest
    text = "password: [PASSWORD] [PHONE:1234567890] [EMAIL:4111111111] [CREDIT_CARD]"
    assert PSEUDONYMS.apply(text).text == ON.apply(text).text == text


def test_digest_changes_with_every_setting_that_changes_texts() -> None:
    digests = [
        sanitizer.digest
        for sanitizer in (
            Sanitizer(Mode.OFF), ON, PSEUDONYMS, Sanitizer(Mode.ON, Style.PSEUDONYM, KEY + b"!"),
            Sanitizer(Mode.ON, profile=WITHOUT_PHONES),
            Sanitizer(Mode.ON, profile=parse_profile('allow = ["x"]')),
            Sanitizer(Mode.ON, profile=parse_profile('allow_domains = ["x"]')),
            Sanitizer(Mode.ON, profile=parse_profile('without = ["EMAIL"]')),
            Sanitizer(Mode.ON, profile=parse_profile('phone_regions = ["DE"]')),
            Sanitizer(Mode.ON, profile=parse_profile("[[rule]]\nlabel='AB'\npattern='x'")),
            Sanitizer(Mode.ON, profile=parse_profile("[[rule]]\nlabel='AB'\npattern='y'")),
        )
    ]  # fmt: skip

    assert len(set(digests)) == len(digests)
    assert Sanitizer(Mode.SHADOW, profile=WITHOUT_PHONES).digest == Sanitizer(Mode.OFF).digest
    assert Sanitizer(Mode.ON, key=KEY).digest == ON.digest


# Overlaps


@pytest.mark.parametrize(("text", "expected"), [
    ("https://ann:pa55@example.com", "https://ann:[PASSWORD]@example.com"),
    ("4111111111111111@example.com", "[EMAIL]"),
    ("password: ann@example.com", "password: [PASSWORD]"),
    ("ann@example.com,bob@example.com", "[EMAIL],[EMAIL]"),
    ("10.0.0.5,ann@example.com", "[IP_ADDRESS],[EMAIL]"),
    ("Tel. 4111 1111 1111 1111", "Tel. [CREDIT_CARD]"),
])  # fmt: skip
def test_overlapping_findings_have_a_priority(text: str, expected: str) -> None:
    assert ON.apply(text).text == expected


def test_sanitizer_finds_values_that_a_finding_uncovers() -> None:
    key = "sk-aB3dE5fG7hI9jK1lM3nO5pQ7"
    assert ON.apply(f"10.0.0.5/{key}").text == "[IP_ADDRESS]/[API_KEY]"
    assert ON.apply(f"10.0.0.5eyJabcdefgh1.eyJabcdefgh1.x {key}").text.endswith("[API_KEY]")


# Offsets


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, 0), (9, 9), (10, 9), (23, 9), (24, 16), (33, 25), (34, 25), (47, 33)],
)
def test_sanitizer_moves_offsets_with_the_text(offset: int, expected: int) -> None:
    assert move_offsets([offset], ON.apply(TEXT).edits) == [expected]


# Documents


def block(text: str, **fields: object) -> Block:
    return Block(BlockKind.PARAGRAPH, text, **fields)  # type: ignore[arg-type]


DOCUMENT = Loaded(
    blocks=(
        block(
            TEXT,
            chapter="Ask ann@example.com",
            section="Only ann@example.com",
            figures=(PlacedFigure(0, Figure("By ann@example.com")), PlacedFigure(28, Figure("x"))),
            pages=(PageStart(0, 1), PageStart(12, 2), PageStart(46, 3)),
        ),
        block("ann@example.\u200bcom", chapter="Ask ann@example.com"),
        block("and nothing"),
    ),
    title="Letters to ann@example.com",
    properties=Properties(
        title="ann@example.com", authors=("Ann <ann@example.com>",), language="en",
        created="2023-11-14", keywords=("10.0.0.5",), description="password: hunter2",
        publisher="ann@example.com",
    ),
)  # fmt: skip


def test_every_text_of_a_document_is_sanitised() -> None:
    kept, counts = sanitize_document(DOCUMENT, ON)

    assert not re.search("ann@|hunter2|10.0.0.5|901820", repr(kept))
    assert [each.text for each in kept.blocks] == [
        "Write to [EMAIL] or call [PHONE].", "[EMAIL]", "and nothing",
    ]  # fmt: skip
    assert (kept.blocks[0].chapter, kept.blocks[0].section) == ("Ask [EMAIL]", "Only [EMAIL]")
    assert kept.blocks[0].figures[0].figure.alt == "By [EMAIL]"
    assert kept.title == "Letters to [EMAIL]"
    assert kept.properties == Properties(
        title="[EMAIL]", authors=("Ann <[EMAIL]>",), language="en", created="2023-11-14",
        keywords=("[IP_ADDRESS]",), description="password: [PASSWORD]", publisher="[EMAIL]",
    )  # fmt: skip
    by_label: Counter[str] = Counter()
    for (label, _), count in counts.items():
        by_label[label] += count
    assert by_label == {"EMAIL": 8, "IP_ADDRESS": 1, "PASSWORD": 1, "PHONE": 1}


def test_figures_and_pages_move_with_the_text() -> None:
    kept, _ = sanitize_document(DOCUMENT, ON)
    first = kept.blocks[0]
    assert [placed.offset for placed in first.figures] == [0, 20]
    assert first.text[20:] == "call [PHONE]."
    assert first.pages == (PageStart(0, 1), PageStart(9, 2), PageStart(32, 3))


def test_offsets_move_with_removed_invisible_characters() -> None:
    text = "\u200b\u200bSee ann@exa\u200bmple.com\u200b now"
    kept, _ = sanitize_document(
        Loaded((block(text, pages=(PageStart(2, 1), PageStart(24, 2))),)), ON
    )
    assert kept.blocks[0].text == "See [EMAIL] now"
    assert kept.blocks[0].pages == (PageStart(0, 1), PageStart(12, 2))


@proves("sanitise.audit-and-off")
def test_documents_and_blocks_without_changes_stay_the_same() -> None:
    off, nothing = sanitize_document(DOCUMENT, Sanitizer(Mode.OFF))
    shadow, counts = sanitize_document(DOCUMENT, Sanitizer(Mode.SHADOW))
    assert off is shadow is DOCUMENT
    assert not nothing
    assert counts == sanitize_document(DOCUMENT, ON)[1]
    untouched = block("a\r\nb\u200b", pages=(PageStart(0, 1), PageStart(3, 2)))
    kept, _ = sanitize_document(Loaded((untouched,)), ON)
    assert kept.blocks == (untouched,)


def test_audit_record_contains_no_values() -> None:
    _, one = sanitize_document(Loaded((block("ann@example.com"),)), Sanitizer(Mode.SHADOW))
    _, other = sanitize_document(
        Loaded((block("a.much.longer.name@elsewhere.org"),)), Sanitizer(Mode.SHADOW)
    )
    assert one == other
    assert one == {("EMAIL", "email"): 1}


@proves("sanitise.before-chunking")
def test_findings_do_not_reach_the_chunked_text() -> None:
    values = ("ann@example.com", "+49 30 901820", "hunter2", "4111 1111 1111 1111")
    blocks = [block(f"In block {at}: password: {value}.") for at, value in enumerate(values)]
    kept, _ = sanitize_document(Loaded((*DOCUMENT.blocks, *blocks)), ON)
    canonical = assemble(kept.blocks)
    sentences = [canonical.text[each.start : each.end] for each in split_sentences(canonical)]
    assert not any(value in canonical.text for value in values)
    assert not any(value in sentence for value in values for sentence in sentences)
    assert not any(value in str(canonical.places) for value in values)
