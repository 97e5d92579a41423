"""The treatise as a flat OpenDocument text, from which LibreOffice makes its documents.

The file is written by hand, so that it holds what no converter to OpenDocument would make: tracked
changes, text boxes, and words whose letters have different styles.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape

from tests.support.sample_document import (
    AUTHOR,
    TITLE,
    Box,
    Change,
    Code,
    Heading,
    Items,
    Paragraph,
    Picture,
    Piece,
    Quote,
    Table,
)
from tests.system.picture import png

_NAMESPACES = {
    "office": "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
    "style": "urn:oasis:names:tc:opendocument:xmlns:style:1.0",
    "text": "urn:oasis:names:tc:opendocument:xmlns:text:1.0",
    "table": "urn:oasis:names:tc:opendocument:xmlns:table:1.0",
    "draw": "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0",
    "fo": "urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0",
    "svg": "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0",
    "meta": "urn:oasis:names:tc:opendocument:xmlns:meta:1.0",
    "dc": "http://purl.org/dc/elements/1.1/",
}
_DECLARED = " ".join(f'xmlns:{prefix}="{address}"' for prefix, address in _NAMESPACES.items())
_WHEN = "2024-03-01T08:00:00"


def flat_text(pieces: Sequence[Piece]) -> str:
    """Return pieces as a whole `.fodt` file."""
    title = _paragraph(escape(TITLE), "Title") + _paragraph(escape(AUTHOR), "Subtitle")
    body = title + "".join(
        part for number, piece in enumerate(pieces) for part in _written(piece, number)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document {_DECLARED} office:version="1.2"'
        ' office:mimetype="application/vnd.oasis.opendocument.text">'
        f"<office:meta><dc:title>{escape(TITLE)}</dc:title>"
        f"<meta:initial-creator>{escape(AUTHOR)}</meta:initial-creator>"
        f"<dc:creator>{escape(AUTHOR)}</dc:creator></office:meta>"
        f"<office:styles>{_STYLES}</office:styles>"
        f"<office:automatic-styles>{_AUTOMATIC}</office:automatic-styles>"
        f"<office:body><office:text>{_changes(pieces)}{body}</office:text></office:body>"
        "</office:document>\n"
    )


def _written(piece: Piece, number: int) -> Iterator[str]:
    match piece:
        case Heading(level, text):
            yield f'<text:h text:style-name="Heading_20_{level}" text:outline-level="{level}">'
            yield f"{escape(text)}</text:h>"
        case Paragraph(text, note):
            yield _paragraph(_inline(text).replace("^", _note(note, number)))
        case Quote(text):
            yield _paragraph(escape(text), "Quotations")
        case Code(text):
            for line in text.split("\n"):
                yield _paragraph(_spaced(line), "Preformatted_20_Text")
        case Items():
            yield _items(piece)
        case Table(rows):
            yield _table(rows)
        case Picture(alt):
            yield _paragraph(_picture(alt))
        case Box(text):
            yield _paragraph(_box(text))
        case Change():
            yield _paragraph(_changed(piece, number))


def _paragraph(content: str, style: str = "Text_20_body") -> str:
    return f'<text:p text:style-name="{style}">{content}</text:p>'


def _inline(text: str) -> str:
    return re.sub(
        r"\*([^*]+)\*", r'<text:span text:style-name="Slanted">\1</text:span>', escape(text)
    )


def _spaced(line: str) -> str:
    margin = len(line) - len(line.lstrip(" "))
    return (f'<text:s text:c="{margin}"/>' if margin else "") + escape(line[margin:])


def _note(note: str, number: int) -> str:
    if not note:
        return ""
    return (
        f'<text:note text:id="ftn{number}" text:note-class="footnote"><text:note-citation>1'
        f"</text:note-citation><text:note-body>{_paragraph(escape(note), 'Footnote')}"
        "</text:note-body></text:note>"
    )


def _items(piece: Items) -> str:
    style = "Numbered" if piece.numbered else "Dotted"
    return f'<text:list text:style-name="{style}">{"".join(_listed(piece))}</text:list>'


def _listed(piece: Items) -> Iterator[str]:
    for item, inner in piece.items:
        below = "".join(
            f"<text:list-item>{_paragraph(escape(it))}</text:list-item>" for it in inner
        )
        nested = f"<text:list>{below}</text:list>" if below else ""
        yield f"<text:list-item>{_paragraph(escape(item))}{nested}</text:list-item>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    columns = f'<table:table-column table:number-columns-repeated="{len(rows[0])}"/>'
    return f"<table:table>{columns}{''.join(map(_row, rows))}</table:table>"


def _row(row: Sequence[str]) -> str:
    cells = "".join(
        f"<table:table-cell>{_paragraph(escape(cell))}</table:table-cell>" for cell in row
    )
    return f"<table:table-row>{cells}</table:table-row>"


def _picture(alt: str) -> str:
    return (
        '<draw:frame text:anchor-type="as-char" svg:width="1cm" svg:height="1cm"><draw:image>'
        f"<office:binary-data>{b64encode(png()).decode()}</office:binary-data></draw:image>"
        f"<svg:desc>{escape(alt)}</svg:desc></draw:frame>"
    )


def _box(text: str) -> str:
    return (
        '<draw:frame text:anchor-type="paragraph" svg:width="6cm">'
        f'<draw:text-box fo:min-height="1cm">{_paragraph(escape(text))}</draw:text-box>'
        "</draw:frame>"
    )


def _changed(piece: Change, number: int) -> str:
    first, put_in, second, _, last = map(_spaced, piece.parts)
    return (
        f'{first}<text:change-start text:change-id="in{number}"/>{put_in}'
        f'<text:change-end text:change-id="in{number}"/>{second}'
        f'<text:change text:change-id="out{number}"/>{last}'
    )


def _changes(pieces: Sequence[Piece]) -> str:
    """Return the head of the text with the record of changes, authors and times."""
    regions = "".join(
        _region(f"in{number}", "insertion", "")
        + _region(f"out{number}", "deletion", _paragraph(_spaced(piece.parts[3])))
        for number, piece in enumerate(pieces)
        if isinstance(piece, Change)
    )
    return f"<text:tracked-changes>{regions}</text:tracked-changes>" if regions else ""


def _region(name: str, kind: str, content: str) -> str:
    about = f"<dc:creator>{escape(AUTHOR)}</dc:creator><dc:date>{_WHEN}</dc:date>"
    return (
        f'<text:changed-region xml:id="{name}" text:id="{name}"><text:{kind}>'
        f"<office:change-info>{about}</office:change-info>{content}"
        f"</text:{kind}></text:changed-region>"
    )


_LEVEL = '<style:list-level-properties text:space-before="{0}cm" text:min-label-width="0.6cm"/>'


def _style(name: str, size: int, margin: float, more: str = "") -> str:
    return (
        f'<style:style style:name="{name.replace(" ", "_20_")}" style:display-name="{name}"'
        f' style:family="paragraph"{more}><style:paragraph-properties'
        f' fo:margin-top="{margin}cm" fo:margin-bottom="{margin}cm"/>'
        f'<style:text-properties fo:font-size="{size}pt"/></style:style>'
    )


_STYLES = (
    _style("Title", 24, 0.4)
    + _style("Subtitle", 16, 0.4)
    + _style("Heading 1", 18, 0.4, ' style:default-outline-level="1"')
    + _style("Heading 2", 14, 0.3, ' style:default-outline-level="2"')
    + _style("Text body", 11, 0.2)
    + _style("Quotations", 11, 0.4)
    + _style("Preformatted Text", 10, 0.0)
    + _style("Footnote", 9, 0.0)
)
_AUTOMATIC = (
    '<style:style style:name="Slanted" style:family="text">'
    '<style:text-properties fo:font-style="italic"/></style:style>'
    '<text:list-style style:name="Dotted">'
    + "".join(
        f'<text:list-level-style-bullet text:level="{level}" text:bullet-char="•">'
        f"{_LEVEL.format(level)}</text:list-level-style-bullet>"
        for level in (1, 2)
    )
    + '</text:list-style><text:list-style style:name="Numbered">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix=".">'
    f"{_LEVEL.format(1)}</text:list-level-style-number></text:list-style>"
)
