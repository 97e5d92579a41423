"""DOCX files made part by part, so that a test contains only relevant parts."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from html import escape

_FORMATS = "http://schemas.openxmlformats.org"
_STRICT = "http://purl.oclc.org/ooxml"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)

_NAMES = {
    "w": f"{_FORMATS}/wordprocessingml/2006/main",
    "r": f"{_FORMATS}/officeDocument/2006/relationships",
    "a": f"{_FORMATS}/drawingml/2006/main",
    "m": f"{_FORMATS}/officeDocument/2006/math",
    "wp": f"{_FORMATS}/drawingml/2006/wordprocessingDrawing",
    "pic": f"{_FORMATS}/drawingml/2006/picture",
    "dgm": f"{_FORMATS}/drawingml/2006/diagram",
    "mc": f"{_FORMATS}/markup-compatibility/2006",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "wpg": "http://schemas.microsoft.com/office/word/2010/wordprocessingGroup",
    "asvg": "http://schemas.microsoft.com/office/drawing/2016/SVG/main",
    "v": "urn:schemas-microsoft-com:vml",
    "o": "urn:schemas-microsoft-com:office:office",
}
NAMES = " ".join(f'xmlns:{prefix}="{name}"' for prefix, name in _NAMES.items())
Relation = tuple[str, str, str] | tuple[str, str, str, str]
"""An id, the last word of a type, a target, and perhaps a mode."""


def docx(
    body: str,
    *,
    styles: str = "",
    numbering: str = "",
    footnotes: str = "",
    endnotes: str = "",
    core: str = "",
    relations: Sequence[Relation] = (),
    media: Mapping[str, bytes] | None = None,
    members: Mapping[str, bytes | str] | None = None,
    main: str = "word/document.xml",
    strict: bool = False,
) -> bytes:
    """Return a file with this body; empty parts are omitted.

    `members` are further members, or replace those of the same name.
    """
    folder, _, file = main.rpartition("/")
    parts: dict[str, bytes | str] = {
        "[Content_Types].xml": "<Types/>",
        main: _part("document", f"<w:body>{body}</w:body>"),
    }
    listed = [*relations]
    for kind, content in (
        ("styles", styles),
        ("numbering", numbering),
        ("footnotes", footnotes),
        ("endnotes", endnotes),
    ):
        if content:
            listed.append((f"{kind}Part", kind, f"{kind}.xml"))
            parts[f"{folder}/{kind}.xml"] = _part(kind, content)
    roots: list[Relation] = [("rId1", "officeDocument", main)]
    if core:
        roots.append(("rId2", "core-properties", "docProps/core.xml"))
        parts["docProps/core.xml"] = core
    parts["_rels/.rels"] = rels(roots)
    parts[f"{folder}/_rels/{file}.rels"] = rels(listed)
    if strict:
        parts = {name: _made_strict(content) for name, content in parts.items()}
    return packed({**parts, **(media or {}), **(members or {})})


def rels(relations: Sequence[Relation]) -> str:
    rows = []
    for id, kind, target, *mode in relations:
        end = f' TargetMode="{mode[0]}"' if mode else ""
        type = f"{_NAMES['r']}/{kind}"
        rows.append(f'<Relationship Id="{id}" Type="{type}" Target="{escape(target)}"{end}/>')
    return (
        f'<Relationships xmlns="{_FORMATS}/package/2006/relationships">{"".join(rows)}'
        "</Relationships>"
    )


def packed(members: Mapping[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def p(inner: str = "", *, style: str = "", properties: str = "") -> str:
    """Return a paragraph; text without markup becomes a run."""
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    shape = f"<w:pPr>{named}{properties}</w:pPr>" if named or properties else ""
    return f"<w:p>{shape}{inner if '<' in inner else r(inner)}</w:p>"


def r(inner: str, properties: str = "") -> str:
    """Return a run; text without markup becomes a text element."""
    shape = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    content = inner if "<" in inner else f'<w:t xml:space="preserve">{inner}</w:t>'
    return f"<w:r>{shape}{content}</w:r>"


def style(
    id: str, name: str = "", *, based_on: str = "", inner: str = "", kind: str = "paragraph"
) -> str:
    parent = f'<w:basedOn w:val="{based_on}"/>' if based_on else ""
    return (
        f'<w:style w:type="{kind}" w:styleId="{id}"><w:name w:val="{name or id}"/>{parent}{inner}'
        "</w:style>"
    )


def table(*rows: Sequence[str]) -> str:
    """Return a table of cells; text without markup becomes a paragraph."""
    return f"<w:tbl><w:tblPr/><w:tblGrid/>{''.join(map(row, rows))}</w:tbl>"


def row(cells: Sequence[str]) -> str:
    return f"<w:tr>{''.join(map(cell, cells))}</w:tr>"


def cell(inner: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{inner if '<' in inner else p(inner)}</w:tc>"


def item(text: str, level: int = 0, list_id: int = 1) -> str:
    place = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_id}"/></w:numPr>'
    return p(text, properties=place)


def level(place: int, form: str, pattern: str, *, start: int = 1, inner: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{place}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/>{inner}'
        f'<w:lvlText w:val="{pattern}"/></w:lvl>'
    )


def abstract(*levels: str, id: int = 0, inner: str = "") -> str:
    return f'<w:abstractNum w:abstractNumId="{id}">{inner}{"".join(levels)}</w:abstractNum>'


def num(id: int, abstract_id: int = 0, inner: str = "") -> str:
    return f'<w:num w:numId="{id}"><w:abstractNumId w:val="{abstract_id}"/>{inner}</w:num>'


def field(instruction: str, result: str) -> str:
    return (
        r('<w:fldChar w:fldCharType="begin"/>')
        + r(f"<w:instrText>{instruction}</w:instrText>")
        + r('<w:fldChar w:fldCharType="separate"/>')
        + result
        + r('<w:fldChar w:fldCharType="end"/>')
    )


def picture(reference: str, *, alt: str = "", own_alt: str = "", attribute: str = "embed") -> str:
    return drawing(pic(reference, own_alt, attribute), alt)


def drawing(inner: str, alt: str = "") -> str:
    return r(
        f'<w:drawing><wp:inline><wp:docPr id="1" name="x" descr="{alt}"/><a:graphic>'
        f"<a:graphicData>{inner}</a:graphicData></a:graphic></wp:inline></w:drawing>"
    )


def pic(reference: str, alt: str = "", attribute: str = "embed") -> str:
    """Return the picture within a drawing."""
    return (
        f'<pic:pic><pic:nvPicPr><pic:cNvPr id="0" name="y" descr="{alt}"/></pic:nvPicPr>'
        f'<pic:blipFill><a:blip r:{attribute}="{reference}"/></pic:blipFill></pic:pic>'
    )


def vml_picture(reference: str, alt: str = "") -> str:
    return r(f'<w:pict><v:shape alt="{alt}"><v:imagedata r:id="{reference}"/></v:shape></w:pict>')


def text_box(content: str) -> str:
    """Return a run with a text box as Word writes it: once for each of two generations."""
    return r(
        f"<mc:AlternateContent><mc:Choice Requires='wps'>{shape(content)}</mc:Choice>"
        f"<mc:Fallback>{vml_box(content)}</mc:Fallback></mc:AlternateContent>"
    )


def shape(content: str) -> str:
    """Return a DrawingML shape with a text box."""
    return (
        "<w:drawing><wp:anchor><wp:docPr id='2' name='box'/><a:graphic><a:graphicData>"
        f"<wps:wsp><wps:txbx><w:txbxContent>{content}</w:txbxContent></wps:txbx></wps:wsp>"
        "</a:graphicData></a:graphic></wp:anchor></w:drawing>"
    )


def vml_box(content: str) -> str:
    return (
        "<w:pict><v:shape><v:textbox>"
        f"<w:txbxContent>{content}</w:txbxContent></v:textbox></v:shape></w:pict>"
    )


def note_mark(id: int, kind: str = "footnote") -> str:
    return r(f'<w:{kind}Reference w:id="{id}"/>')


def note(id: int, content: str, kind: str = "footnote", type: str = "") -> str:
    """Return a note in the form of its part; text without markup becomes a paragraph."""
    shown = f' w:type="{type}"' if type else ""
    inner = content if "<w:p>" in content else p(content)
    return f'<w:{kind} w:id="{id}"{shown}>{inner}</w:{kind}>'


def _part(root: str, content: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?><w:{root} {NAMES}>{content}</w:{root}>'


def _made_strict(content: bytes | str) -> bytes | str:
    if isinstance(content, bytes):
        return content
    for area in ("wordprocessingml", "officeDocument", "drawingml"):
        content = content.replace(f"{_FORMATS}/{area}/2006", f"{_STRICT}/{area}")
    return content
