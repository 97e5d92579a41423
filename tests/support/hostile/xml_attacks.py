"""Attacks on an XML part: each turns an honest part into a hostile one."""

import re
from collections.abc import Callable

from tests.support.hostile.parts import PLACE
from tests.support.hostile.registry import Trap

Attack = Callable[[str, Trap], bytes]
DECLARATION = re.compile(r"<\?xml.*?\?>\n")


def with_doctype(part: str, declarations: str, text: str, *, external: str = "") -> bytes:
    """Put a document type after the XML declaration, and a text where one may stand."""
    root = re.sub(DECLARATION, "", part).split()[0].lstrip("<").rstrip(">")
    doctype = f"<!DOCTYPE {root} {external}[{declarations}]>"
    return DECLARATION.sub(lambda found: found[0] + doctype, part).replace(PLACE, text).encode()


def within(part: str, text: str) -> bytes:
    return part.replace(PLACE, text).encode()


def before_root(part: str, text: str) -> bytes:
    return DECLARATION.sub(lambda found: found[0] + text, part).replace(PLACE, "").encode()


def declared(part: str, encoding: str) -> str:
    return part.replace("UTF-8", encoding).replace(PLACE, "")


def billion_laughs(part: str, trap: Trap) -> bytes:
    levels = "".join(f'<!ENTITY l{level} "{f"&l{level - 1};" * 10}">' for level in range(1, 10))
    return with_doctype(part, f'<!ENTITY l0 "lol">{levels}', "&l9;")


def inclusion(part: str, trap: Trap) -> bytes:
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" parse="text" href="{}"/>'
    return within(part, include.format(f"file://{trap.secret}") + include.format(trap.url))


def schema_location(part: str, trap: Trap) -> bytes:
    space = "http://www.w3.org/2001/XMLSchema-instance"
    return within(part, f'<x xmlns:i="{space}" i:noNamespaceSchemaLocation="{trap.url}"/>')


def many_attributes(part: str, trap: Trap) -> bytes:
    attributes = " ".join(f'a{number}="1"' for number in range(50_000))
    return within(part, f"<x {attributes}/>")


def many_namespaces(part: str, trap: Trap) -> bytes:
    spaces = " ".join(f'xmlns:n{number}="u:{number}"' for number in range(20_000))
    return within(part, f"<x {spaces}/>")


def cut_off(part: str, trap: Trap) -> bytes:
    made = within(part, "")
    return made[: len(made) * 2 // 3]


ALL: dict[str, Attack] = {
    "billion-laughs": billion_laughs,
    "quadratic-blow-up": lambda part, trap: with_doctype(
        part, f'<!ENTITY a "{"a" * 50_000}">', "&a;" * 50_000
    ),
    "external-file": lambda part, trap: with_doctype(
        part, f'<!ENTITY x SYSTEM "file://{trap.secret}">', "&x;"
    ),
    "external-address": lambda part, trap: with_doctype(
        part, f'<!ENTITY x SYSTEM "{trap.url}">', "&x;"
    ),
    "external-type": lambda part, trap: with_doctype(
        part, "", "", external=f'SYSTEM "{trap.url}" '
    ),
    "parameter-entity": lambda part, trap: with_doctype(
        part, f'<!ENTITY % p SYSTEM "{trap.url}"> %p;', ""
    ),
    "entity-loop": lambda part, trap: with_doctype(
        part, '<!ENTITY a "&b;"><!ENTITY b "&a;">', "&a;"
    ),
    "type-in-utf16": lambda part, trap: (
        with_doctype(declared(part, "UTF-16"), f'<!ENTITY x SYSTEM "{trap.url}">', "&x;")
        .decode()
        .encode("utf-16")
    ),
    "type-after-comment": lambda part, trap: with_doctype(
        part, f'<!ENTITY x SYSTEM "{trap.url}">', "&x;"
    ).replace(b"<!DOCTYPE", b"<!-- <a> -->\n<?p q?> <!DOCTYPE"),
    "inclusion": inclusion,
    "stylesheet": lambda part, trap: before_root(
        part, f'<?xml-stylesheet type="text/xsl" href="{trap.url}"?>'
    ),
    "schema-location": schema_location,
    "deep-nesting": lambda part, trap: within(part, "<x>" * 100_000 + "</x>" * 100_000),
    "deep-unclosed": lambda part, trap: within(part, "<x>" * 100_000),
    "huge-attribute": lambda part, trap: within(part, f'<x a="{"a" * 12_000_000}"/>'),
    "many-attributes": many_attributes,
    "many-namespaces": many_namespaces,
    "huge-name": lambda part, trap: within(part, f"<{'x' * 200_000}/>"),
    "huge-text": lambda part, trap: within(part, "word " * 2_400_000),
    "huge-comment": lambda part, trap: within(part, f"<!--{'x' * 11_000_000}-->"),
    "invalid-utf8": lambda part, trap: within(part, "##").replace(
        b"##", b"\xff\xfe\xc0\x80\xed\xa0\x80"
    ),
    "says-utf16": lambda part, trap: declared(part, "UTF-16").encode(),
    "says-unknown-encoding": lambda part, trap: declared(part, "x-klingon").encode(),
    "says-utf7": lambda part, trap: declared(part, "UTF-7").encode(),
    "odd-utf16": lambda part, trap: declared(part, "UTF-16").encode("utf-16")[:-1],
    "utf32": lambda part, trap: declared(part, "UTF-32").encode("utf-32"),
    "nul-bytes": lambda part, trap: within(part, "a\0b"),
    "character-references": lambda part, trap: within(
        part, "&#0;&#xD800;&#xFFFFFFFF;&#1;&#x110000;"
    ),
    "cut-off": cut_off,
    "nothing": lambda part, trap: b"",
    "only-a-mark": lambda part, trap: b"\xef\xbb\xbf",
    "another-root": lambda part, trap: b"<x/>",
    "two-roots": lambda part, trap: within(part, "") + b"<x/>",
    "no-xml": lambda part, trap: b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
}
"""Every attack, for the parts that hold the text."""

FEW = (
    "billion-laughs",
    "external-file",
    "external-address",
    "parameter-entity",
    "type-in-utf16",
    "inclusion",
    "deep-nesting",
    "many-attributes",
    "invalid-utf8",
    "cut-off",
    "nothing",
    "another-root",
)  # fmt: skip
"""Attacks that are tried on the other parts as well."""
