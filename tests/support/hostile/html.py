"""Pages that nest, load, hide, redirect, or are invalid."""

import base64

from tests.support.hostile.registry import Trap, add, hostile, hostile_files

Made = tuple[str, bytes]


def page(content: str | bytes, head: str = "") -> Made:
    body = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    start = (
        f"<!DOCTYPE html><html><head><title>A page</title>{head}</head><body><p>Honest text.</p>"
    )
    return "a.html", start.encode() + body + b"</body></html>"


NESTED = (
    "div", "p", "span", "b", "a", "table", "ul", "ol", "blockquote", "font", "em", "section",
    "form", "select", "button", "svg", "math", "template", "details", "pre", "ruby", "object",
    "iframe", "noscript", "dl", "figure", "td", "tr", "li", "h1",
)  # fmt: skip


def _add_nested(tag: str, count: int, closed: bool) -> None:
    kind = "nested" if closed else "unclosed"
    end = f"</{tag}>" * count if closed else ""
    add(f"html-{kind}-{tag}", lambda trap: page(f"<{tag}>" * count + "deep" + end))


for _tag in NESTED:
    _add_nested(_tag, 10_000, closed=False)
for _tag in ("div", "span"):
    _add_nested(_tag, 100_000, closed=True)


@hostile
def own_entities(trap: Trap) -> Made:
    laughs = '<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    page = f'<!DOCTYPE html [{laughs}<!ENTITY x SYSTEM "file://{trap.secret}">]><html>&b;&x;</html>'
    return "a.html", page.encode()


@hostile
def own_entities_as_xml(trap: Trap) -> Made:
    text = (
        f'<?xml version="1.0"?><!DOCTYPE html [<!ENTITY x SYSTEM "{trap.url}">]>'
        '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>&x;</p></body></html>'
    )
    return "a.xhtml", text.encode()


@hostile
def everything_that_loads(trap: Trap) -> Made:
    url = trap.url
    head = (
        f'<base href="{url}"><meta http-equiv="refresh" content="0;url={url}">'
        f'<link rel="stylesheet" href="{url}"><link rel="import" href="{url}">'
        f'<style>@import "{url}"; body {{ background: url({url}) }}</style>'
    )
    return page(
        f'<img src="{url}" srcset="{url} 2x"><iframe src="{url}"></iframe><object data="{url}">'
        f'</object><embed src="{url}"><video src="{url}" poster="{url}"></video>'
        f'<script src="{url}"></script><svg><image href="{url}"/><use href="{url}"/></svg>'
        f'<input type=image src="{url}">'
        f'<img src="file://{trap.secret}"><iframe src="file://{trap.secret}"></iframe>',
        head,
    )


@hostile
def frames(trap: Trap) -> Made:
    text = f'<html><frameset cols="*,*"><frame src="{trap.url}"><frame src="file://{trap.secret}">'
    return "a.html", f"{text}</frameset><noframes>No frames here.</noframes></html>".encode()


@hostile
def pictures_in_the_page(trap: Trap) -> Made:
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(100_000)).decode()
    return page(f'<img src="data:image/png;base64,{image}">' * 20)


@hostile
def pictures_that_are_none(trap: Trap) -> Made:
    kinds = (
        "data:", "data:,", "data:image/png;base64,!!!!", "data:text/html,<script>", "data:a",
        "data:;base64,%", "data:image/svg+xml,%3Csvg%3E", "javascript:alert(1)", "about:blank", "",
        "data:image/../../../x;base64,AAAA", "data:image/png;base64,AAA",
    )  # fmt: skip
    return page("".join(f'<img src="{kind}" alt="a">' for kind in kinds))


@hostile
def tables_that_span_the_world(trap: Trap) -> Made:
    cell = '<td colspan="1000000000" rowspan="1000000000">x</td><td colspan="-1" rowspan="0">y</td>'
    return page(f"<table>{f'<tr>{cell * 3}</tr>' * 50}</table>")


@hostile
def everything_hidden(trap: Trap) -> Made:
    text = '<div style="display:none">a</div><div hidden>b</div><p aria-hidden="true">c</p>'
    return "a.html", f"<html><body>{text * 1000}</body></html>".encode()


def _add_encoded(name: str, declared: str, content: bytes) -> None:
    start = f'<html><head><meta charset="{declared}"></head><body><p>'.encode()
    add(f"html-{name}", lambda trap: ("a.html", start + content + b"</p></body></html>"))


_add_encoded("says-utf-16", "utf-16", b"Plain text.")
_add_encoded("says-utf-7", "utf-7", b"+ADw-script+AD4-alert(1)+ADw-/script+AD4-")
_add_encoded("says-an-unknown-encoding", "x-user-defined", b"\x80\x81\xfe\xff text")
_add_encoded("says-a-codec-of-python", "rot13", b"Plain text.")
_add_encoded("says-a-packing-codec", "zlib", b"Plain text.")
_add_encoded("says-idna", "idna", b"a." * 50_000)
_add_encoded("says-ascii", "ascii", "Grüße".encode())
_add_encoded("of-broken-bytes", "utf-8", b"\xff\xfe\xc0\x80\xed\xa0\x80\xf8\x88\x80\x80\x80")
_add_encoded("of-shift-jis-halves", "shift_jis", b"\x81" * 1001)


hostile_files(
    "html",
    tags_that_never_end=lambda trap: page("<div a='" * 50_000),
    only_brackets=lambda trap: page("<" * 500_000),
    ends_without_beginnings=lambda trap: page("</div></p></table>" * 100_000),
    tags_that_overlap=lambda trap: page("<b><i><p></b></i>" * 5_000),
    formatting_in_tables=lambda trap: page("<table><b>x<tr><i>" * 3_000),
    a_huge_attribute=lambda trap: page(f'<p title="{"a" * 11_000_000}">text</p>'),
    very_many_attributes=lambda trap: page(
        f"<p {' '.join(f'a{n}=1' for n in range(60_000))}>text</p>"
    ),
    very_many_tags=lambda trap: page("<br>" * 100_000),
    a_huge_name=lambda trap: page(f"<{'x' * 1_000_000}>text"),
    nul_bytes=lambda trap: page(b"<p>a\x00b</p><s\x00cript>c</script><\x00p>d"),
    nul_bytes_only=lambda trap: ("a.html", b"<html>" + bytes(100_000)),
    conditional_comments=lambda trap: page(
        f'<!--[if IE]><img src="{trap.url}"><![endif]--><![if !IE]>text<![endif]>'
    ),
    a_comment_without_end=lambda trap: page("<!--" + "<p>text</p>" * 10_000),
    comments_without_end=lambda trap: page("<!-- -- <!-" * 50_000),
    cdata_and_instructions=lambda trap: page(
        "<![CDATA[<p>x</p>]]><?php echo 1 ?><?xml version='1.0'?><!ELEMENT a>" * 1000
    ),
    script_without_end=lambda trap: page("<script>" + "var a = '</p>';" * 10_000),
    script_in_script=lambda trap: page(
        "<script><!--<script></script>--></script><scr<script>ipt>alert(1)</script>"
    ),
    entities_without_end=lambda trap: page("&amp;" * 500_000),
    entities_that_are_none=lambda trap: page(
        "&#0;&#xD800;&#x110000;&#99999999999999999999;&;&#;&#x;&nosuch;&" * 5000
    ),
    base_that_moves_everything=lambda trap: page(
        '<a href="b">link</a><img src="c.png">', f'<base href="file://{trap.secret}">' * 1000
    ),
    a_picture_of_many_megabytes=lambda trap: page(
        f'<img src="data:image/png;base64,{"A" * 9_000_000}">'
    ),
    very_many_pictures=lambda trap: page(
        '<img src="data:image/png;base64,iVBORw0KGgo=" alt="x">' * 5_000
    ),
    a_table_without_end=lambda trap: page("<table>" + "<tr><td>a<td>b" * 10_000),
    lists_that_count_far=lambda trap: page(
        "".join(
            f'<ol start="{start}" type="{kind}"><li value="{start}">x</ol>'
            for start in ("999999999999", "-5", "x", "1e9", "٣")
            for kind in ("i", "A", "1", "?")
        )
    ),
    headings_without_end=lambda trap: page(
        "".join(f"<h{n % 6 + 1}>Heading {n}</h{n % 6 + 1}><p>x" for n in range(5_000))
    ),
    styles_that_hide_slowly=lambda trap: page(
        f'<p style="{"display:block;" * 100_000}display:none">x</p>' * 5
    ),
    metadata_of_garbage=lambda trap: page(
        "text",
        '<meta name="author"><meta name content="x"><meta charset="x-klingon"><title></title>'
        * 5000,
    ),
    one_word_of_megabytes=lambda trap: page("x" * 11_000_000),
    utf16_without_a_half=lambda trap: (
        "a.html",
        "<html><body><p>Text.</p></body></html>".encode("utf-16")[:-1],
    ),
    utf32=lambda trap: ("a.html", "<html><body><p>Text.</p></body></html>".encode("utf-32")),
    nothing=lambda trap: ("a.html", b""),
    only_a_doctype=lambda trap: ("a.html", b"<!DOCTYPE html>"),
    a_picture_called_a_page=lambda trap: ("a.html", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100),
)
