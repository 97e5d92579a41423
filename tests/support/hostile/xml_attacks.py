"""Attacks on an XML part: each turns an honest part into a hostile one."""

from __future__ import annotations

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


def quadratic_blow_up(part: str, trap: Trap) -> bytes:
    return with_doctype(part, f'<!ENTITY a "{"a" * 50_000}">', "&a;" * 50_000)


def external_file(part: str, trap: Trap) -> bytes:
    return with_doctype(part, f'<!ENTITY x SYSTEM "file://{trap.secret}">', "&x;")


def external_address(part: str, trap: Trap) -> bytes:
    return with_doctype(part, f'<!ENTITY x SYSTEM "{trap.url}">', "&x;")


def external_type(part: str, trap: Trap) -> bytes:
    return with_doctype(part, "", "", external=f'SYSTEM "{trap.url}" ')


def parameter_entity(part: str, trap: Trap) -> bytes:
    return with_doctype(part, f'<!ENTITY % p SYSTEM "{trap.url}"> %p;', "")


def entity_loop(part: str, trap: Trap) -> bytes:
    return with_doctype(part, '<!ENTITY a "&b;"><!ENTITY b "&a;">', "&a;")


def type_in_utf16(part: str, trap: Trap) -> bytes:
    made = with_doctype(declared(part, "UTF-16"), f'<!ENTITY x SYSTEM "{trap.url}">', "&x;")
    return made.decode().encode("utf-16")


def type_after_comment(part: str, trap: Trap) -> bytes:
    made = with_doctype(part, f'<!ENTITY x SYSTEM "{trap.url}">', "&x;")
    return made.replace(b"<!DOCTYPE", b"<!-- <a> -->\n<?p q?> <!DOCTYPE")


def inclusion(part: str, trap: Trap) -> bytes:
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" parse="text" href="{}"/>'
    return within(part, include.format(f"file://{trap.secret}") + include.format(trap.url))


def stylesheet(part: str, trap: Trap) -> bytes:
    return before_root(part, f'<?xml-stylesheet type="text/xsl" href="{trap.url}"?>')


def schema_location(part: str, trap: Trap) -> bytes:
    space = "http://www.w3.org/2001/XMLSchema-instance"
    return within(part, f'<x xmlns:i="{space}" i:noNamespaceSchemaLocation="{trap.url}"/>')


def deep_nesting(part: str, trap: Trap) -> bytes:
    return within(part, "<x>" * 100_000 + "</x>" * 100_000)


def deep_unclosed(part: str, trap: Trap) -> bytes:
    return within(part, "<x>" * 100_000)


def huge_attribute(part: str, trap: Trap) -> bytes:
    return within(part, f'<x a="{"a" * 12_000_000}"/>')


def many_attributes(part: str, trap: Trap) -> bytes:
    attributes = " ".join(f'a{number}="1"' for number in range(50_000))
    return within(part, f"<x {attributes}/>")


def many_namespaces(part: str, trap: Trap) -> bytes:
    spaces = " ".join(f'xmlns:n{number}="u:{number}"' for number in range(20_000))
    return within(part, f"<x {spaces}/>")


def huge_name(part: str, trap: Trap) -> bytes:
    return within(part, f"<{'x' * 200_000}/>")


def huge_text(part: str, trap: Trap) -> bytes:
    return within(part, "word " * 2_400_000)


def huge_comment(part: str, trap: Trap) -> bytes:
    return within(part, f"<!--{'x' * 11_000_000}-->")


def invalid_utf8(part: str, trap: Trap) -> bytes:
    return within(part, "##").replace(b"##", b"\xff\xfe\xc0\x80\xed\xa0\x80")


def says_utf16(part: str, trap: Trap) -> bytes:
    return declared(part, "UTF-16").encode()


def says_unknown_encoding(part: str, trap: Trap) -> bytes:
    return declared(part, "x-klingon").encode()


def says_utf7(part: str, trap: Trap) -> bytes:
    return declared(part, "UTF-7").encode()


def odd_utf16(part: str, trap: Trap) -> bytes:
    return declared(part, "UTF-16").encode("utf-16")[:-1]


def utf32(part: str, trap: Trap) -> bytes:
    return declared(part, "UTF-32").encode("utf-32")


def nul_bytes(part: str, trap: Trap) -> bytes:
    return within(part, "a\0b")


def character_references(part: str, trap: Trap) -> bytes:
    return within(part, "&#0;&#xD800;&#xFFFFFFFF;&#1;&#x110000;")


def cut_off(part: str, trap: Trap) -> bytes:
    made = within(part, "")
    return made[: len(made) * 2 // 3]


def nothing(part: str, trap: Trap) -> bytes:
    return b""


def only_a_mark(part: str, trap: Trap) -> bytes:
    return b"\xef\xbb\xbf"


def another_root(part: str, trap: Trap) -> bytes:
    return b"<x/>"


def two_roots(part: str, trap: Trap) -> bytes:
    return within(part, "") + b"<x/>"


def no_xml(part: str, trap: Trap) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


ALL: tuple[Attack, ...] = (
    billion_laughs, quadratic_blow_up, external_file, external_address, external_type,
    parameter_entity, entity_loop, type_in_utf16, type_after_comment, inclusion, stylesheet,
    schema_location, deep_nesting, deep_unclosed, huge_attribute, many_attributes, many_namespaces,
    huge_name, huge_text, huge_comment, invalid_utf8, says_utf16, says_unknown_encoding, says_utf7,
    odd_utf16, utf32, nul_bytes, character_references, cut_off, nothing, only_a_mark, another_root,
    two_roots, no_xml,
)  # fmt: skip
"""Every attack, for the parts that hold the text."""

FEW: tuple[Attack, ...] = (
    billion_laughs, external_file, external_address, parameter_entity, type_in_utf16, inclusion,
    deep_nesting, many_attributes, invalid_utf8, cut_off, nothing, another_root,
)  # fmt: skip
"""Attacks that are tried on the other parts as well."""
