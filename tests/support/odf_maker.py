"""OpenDocument files made part by part, so that a test contains only relevant parts."""

from collections.abc import Mapping

from tests.support.docx_maker import packed

_SPACE = "urn:oasis:names:tc:opendocument:xmlns:"
NAMES = " ".join(
    f'xmlns:{prefix}="{name}"'
    for prefix, name in {
        **{
            prefix: f"{_SPACE}{name}:1.0"
            for prefix, name in {
                "office": "office",
                "style": "style",
                "text": "text",
                "table": "table",
                "draw": "drawing",
                "presentation": "presentation",
                "chart": "chart",
                "meta": "meta",
                "fo": "xsl-fo-compatible",
                "svg": "svg-compatible",
            }.items()
        },
        "xlink": "http://www.w3.org/1999/xlink",
        "dc": "http://purl.org/dc/elements/1.1/",
    }.items()
)


def odf(
    body: str,
    *,
    kind: str = "text",
    automatic: str = "",
    styles: str = "",
    meta: str = "",
    members: Mapping[str, bytes | str] | None = None,
) -> bytes:
    parts: dict[str, bytes | str] = {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": f"<office:document-content {NAMES}><office:automatic-styles>{automatic}"
        f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}>"
        "</office:body></office:document-content>",
        "styles.xml": f"<office:document-styles {NAMES}><office:styles>{styles}</office:styles>"
        "</office:document-styles>",
        "meta.xml": f"<office:document-meta {NAMES}><office:meta>{meta}</office:meta>"
        "</office:document-meta>",
        "META-INF/manifest.xml": "<manifest/>",
    }
    return packed({**parts, **(members or {})})


def flat(body: str, meta: str = "") -> bytes:
    return (
        f"<office:document {NAMES}><office:meta>{meta}</office:meta><office:body><office:text>"
        f"{body}</office:text></office:body></office:document>"
    ).encode()


def p(inner: str, style: str = "") -> str:
    return f'<text:p text:style-name="{style}">{inner}</text:p>'


def h(inner: str, level: int = 1) -> str:
    return f'<text:h text:outline-level="{level}">{inner}</text:h>'


def ul(*items: str, style: str = "", attributes: str = "") -> str:
    """Return a list of items; text without markup becomes a paragraph."""
    inner = "".join(
        item
        if item.startswith("<text:list-")
        else f"<text:list-item>{_filled(item)}</text:list-item>"
        for item in items
    )
    named = f' text:style-name="{style}"' if style else ""
    return f"<text:list{named}{attributes}>{inner}</text:list>"


def table(*rows: list[str], header: int = 0) -> str:
    """Return a table, whose first rows are its header."""
    lines = [
        "<table:table-row>"
        + "".join(given if given.startswith("<table:") else cell(given) for given in row)
        + "</table:table-row>"
        for row in rows
    ]
    first = "".join(lines[:header])
    head = f"<table:table-header-rows>{first}</table:table-header-rows>" if header else ""
    return f"<table:table>{head}{''.join(lines[header:])}</table:table>"


def cell(inner: str, attributes: str = "") -> str:
    return f"<table:table-cell{attributes}>{_filled(inner)}</table:table-cell>"


def note(inner: str) -> str:
    """Return a footnote at its place in a line."""
    return (
        "<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        f"{_filled(inner)}</text:note-body></text:note>"
    )


def frame(inner: str, kind: str = "", attributes: str = "") -> str:
    """Return a frame; with a kind, a frame of a slide."""
    named = f' presentation:class="{kind}"' if kind else ""
    return f"<draw:frame{named}{attributes}>{inner}</draw:frame>"


def box(inner: str, kind: str = "", attributes: str = "") -> str:
    return frame(f"<draw:text-box>{_filled(inner)}</draw:text-box>", kind, attributes)


def list_style(name: str, *levels: str) -> str:
    return f'<text:list-style style:name="{name}">{"".join(levels)}</text:list-style>'


def number(level: int, form: str, attributes: str = 'style:num-suffix="."') -> str:
    return (
        f'<text:list-level-style-number text:level="{level}" style:num-format="{form}" '
        f"{attributes}/>"
    )


def bullet(level: int) -> str:
    return f'<text:list-level-style-bullet text:level="{level}" text:bullet-char="•"/>'


def hidden_style(name: str, family: str) -> str:
    return (
        f'<style:style style:name="{name}" style:family="{family}">'
        '<style:text-properties text:display="none"/></style:style>'
    )


def _filled(inner: str) -> str:
    return inner if inner.startswith("<") else p(inner)
