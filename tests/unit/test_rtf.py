"""RTF: text in reading order without duplicates."""

import random

from tests.support.failures import raises_code
from truespan.errors import SourceRefused
from truespan.extensions.formats.rtf import load_rtf
from truespan.parsing import load
from truespan.types.text import BlockKind, Loaded

FONTS = (
    r"{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1\fnil\fcharset204 Arial Cyr;}"
    r"{\f2\fnil\fcharset128 Gothic;}{\f3\fnil\fcharset2 Symbol;}}"
)
STYLES = (
    r"{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2 Heading 2;}{\s3 Title;}"
    r"{\s4 Quote;}{\*\cs5 Link;}{\s6 toc 1;}{\s7\outlinelevel1 Strange;}}"
)


def rtf(body: str) -> bytes:
    return (r"{\rtf1\ansi\ansicpg1252" + FONTS + STYLES + body + "}").encode("latin-1")


def loaded(body: str) -> Loaded:
    return load_rtf("a.rtf", rtf(body))


def texts(body: str) -> list[str]:
    return [block.text for block in loaded(body).blocks]


def test_characters_are_read_in_every_encoding() -> None:
    for body, text in (
        (r"caf\'e9 au lait\par", "café au lait"), (r"{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}\par", "Привет"),
        (r"{\f2 \'83e\'83X\'83g}\par", "テスト"), (r"{\f3 a\'b7}\par", "α•"),
        (r"\u8364?5\par", "€5"), (r"\uc2\u8364 \'80\'805\par", "€5"), (r"\uc0\u8364 5\par", "€5"),
        (r"{\uc2\u8364 ab}c\par", "€c"), (r"\u-10179?\u-8704?\par", "😀"),
        (r"\{a\}\~b\_c\\\par", "{a}\xa0b\u2011c\\"),
        (r"a\emdash b\ldblquote c\rdblquote\tab d\line e\par", "a—b“c”\td\ne"),
        ("one\r\ntwo\\par", "onetwo"), (r"a{\b b}{\i c}\par", "abc"),
        (r"{\upr{gone}{\*\ud{sh\u246 o}}}\par", "shö"), (r"{\loch\b0\*\cs7 kept}\par", "kept"),
    ):  # fmt: skip
        assert texts(body) == [text], body


def test_rtf_hidden_text_is_left_out() -> None:
    for gone in (
        r"{\pict\pngblip 89504e47}", r"{\*\unknown gone}", r"{\header gone\par}{\footerf gone\par}",
        r"{\v gone}", r"{\deleted gone}", r"{\*\annotation gone}", r"{\object{\*\objdata 0102}}",
        r"{\field{\*\fldinst HYPERLINK x}}", r"{\xe gone}", r"{\pict\bin5 {}}{{x}",
    ):  # fmt: skip
        assert texts(rf"a{gone}b\par") == ["ab"], gone
    assert texts(r"{\field{\*\fldinst PAGE}{\fldrslt 7}} {\object{\result shown}}\par") == [
        "7 shown"
    ]
    assert texts(r"{\v gone\plain shown}\par") == ["shown"]


def test_styles_and_outline_levels_make_chapters_and_kinds() -> None:
    body = (
        r"\pard\s3 Guide\par\pard\s1 One\par\pard x\par\pard\s2 Part\par"
        r"\pard\outlinelevel0 Two\par\pard\s7 Deep\par\pard\s4 said\par"
    )
    found = loaded(body)

    assert found.title == "Guide"
    assert [(block.text, block.chapter, block.section) for block in found.blocks] == [
        ("Guide", "Guide", None), ("One", "One", None), ("x", "One", None),
        ("Part", "One", "Part"), ("Two", "Two", None), ("Deep", "Two", "Deep"),
        ("said", "Two", "Deep"),
    ]  # fmt: skip
    assert found.blocks[-1].kind is BlockKind.QUOTE
    contents = r"{\field{\*\fldinst TOC \\o}{\fldrslt One\tab 1\par Two\tab 2\par}}\pard\s6 x\par"
    marked = [
        block.text for block in loaded(contents + r"\pard Text.\par").blocks if block.is_contents
    ]
    assert marked == ["One\t1", "Two\t2", "x"]


def test_lists_have_the_numbers_that_the_file_shows() -> None:
    body = (
        r"{\listtext\pard\plain 1.\tab}\pard\ls1\ilvl0 one\par"
        r"{\listtext\f3 \'b7\tab}\pard\ls2\ilvl1 dot\par"
        r"\pard\ls3 bare\par{\pntext 2)\tab}old\par\pard\plain text\par"
        r"{\listtext 3\tab}\pard\s1\ls1 Head\par"
    )
    assert texts(body) == ["1. one", "  - dot", "- bare", "2) old", "text", "3 Head"]


def test_rtf_tables_have_headers_and_nested_tables() -> None:
    body = (
        r"\trowd\trhdr\pard\intbl Item\cell Price\cell\row"
        r"\trowd\pard\intbl Lamp\par brass\cell{\listtext 1.\tab}4\cell\row"
        r"\trowd\pard\intbl out\par\pard\intbl\itap2 a\nestcell b\nestcell\nestrow"
        r"\pard\intbl\cell x\cell\row\pard After.\par"
    )
    found = loaded(body)

    assert [(str(block.kind), block.text, block.header_rows) for block in found.blocks] == [
        ("table", "Item | Price\nLamp brass | 1. 4\nout a, b | x", 1),
        ("paragraph", "After.", 0),
    ]
    assert texts(r"\trowd\pard\intbl never\par ended") == ["never", "ended"]


def test_rtf_notes_and_boxes_follow_their_paragraph() -> None:
    shape = r"{\shp{\*\shpinst\shpleft1{\sp{\sn x}{\sv 1}}{\shptxt boxed\par}}}"
    found = loaded(rf"One{shape}{{\footnote\pard {{\b no}}ted\par}} more.\par Next.\par")
    assert [(str(block.kind), block.text) for block in found.blocks] == [
        ("paragraph", "One more."), ("footnote", "noted"), ("paragraph", "boxed"),
        ("paragraph", "Next."),
    ]  # fmt: skip
    assert texts(r"\pard\dropcapli3 D\par\pard rop cap.\par Next.\par") == ["Drop cap.", "Next."]


def test_properties_are_kept() -> None:
    info = (
        r"{\info{\title Lamps}{\author Ida; Bo}{\keywords sea, ships}{\doccomm \'e9}{\operator X}}"
    )
    found = load("a.txt", rtf(info + r"x\par"))
    assert (found.title, found.properties.authors) == ("Lamps", ("Ida", "Bo"))
    assert (found.properties.keywords, found.properties.description) == (("sea", "ships"), "é")


def test_damaged_and_hostile_files_are_read_or_refused() -> None:
    for data, refusal in (
        (rtf(""), "source_empty"),
        (b"no rtf", "source_broken"),
        (b"{\\rtf1" + b"{" * 200_000 + b"x", "source_unsafe"),
    ):
        with raises_code(refusal):
            load("a.rtf", data)
    assert load("a.rtf", rtf((r"{\footnote x" * 3000 + "}" * 3000) + r"y\par")).blocks
    assert texts("}}}after\\par") == ["after"]
    chance = random.Random(7)
    whole = rtf(r"a{\b \u8364?}\par\trowd\intbl b\cell\row{\footnote n}\pard\s1 c\par")
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 5)):
            start = chance.randrange(len(content))
            content[start : start + chance.choice((0, 1, 7))] = chance.choice(
                (b"", b"{", b"}", b"\\", b"\\'", b"\\u-1", b"\\row", b"\\cell", b"\\bin9")
            )
        try:
            load("a.rtf", bytes(content))
        except SourceRefused:
            continue
