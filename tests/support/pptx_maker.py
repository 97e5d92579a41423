"""PPTX files made slide by slide, so that a test contains only relevant parts."""

from collections.abc import Mapping, Sequence
from html import escape

from tests.support.docx_maker import Relation, packed, rels

_FORMATS = "http://schemas.openxmlformats.org"
NAMES = " ".join(
    f'xmlns:{prefix}="{name}"'
    for prefix, name in {
        "p": f"{_FORMATS}/presentationml/2006/main",
        "a": f"{_FORMATS}/drawingml/2006/main",
        "r": f"{_FORMATS}/officeDocument/2006/relationships",
        "c": f"{_FORMATS}/drawingml/2006/chart",
        "dgm": f"{_FORMATS}/drawingml/2006/diagram",
        "mc": f"{_FORMATS}/markup-compatibility/2006",
        "m": f"{_FORMATS}/officeDocument/2006/math",
        "p14": "http://schemas.microsoft.com/office/powerpoint/2010/main",
    }.items()
)


def pptx(
    *slides: str,
    order: Sequence[int] | None = None,
    notes: Mapping[int, str] | None = None,
    sections: Mapping[str, Sequence[int]] | None = None,
    layout: str = "",
    master: str = "",
    core: str = "",
    relations: Sequence[Relation] = (),
    members: Mapping[str, bytes | str] | None = None,
) -> bytes:
    """Return a presentation of slides, each given as its shapes, which have all `relations`.

    `order` lists the numbers of the files, from 1, in the order of the presentation; `notes` are
    the shapes of the notes of a file, and `sections` the places, from 1, in each section.
    """
    ordered = [*order] if order else [*range(1, len(slides) + 1)]
    listed = "".join(f'<p:sldId id="{256 + n}" r:id="s{n}"/>' for n in ordered)
    named = "".join(
        f'<p14:section name="{name}" id="x"><p14:sldIdLst>'
        + "".join(f'<p14:sldId id="{256 + ordered[place - 1]}"/>' for place in places)
        + "</p14:sldIdLst></p14:section>"
        for name, places in (sections or {}).items()
    )
    ext = f"<p:extLst><p:ext><p14:sectionLst>{named}</p14:sectionLst></p:ext></p:extLst>"
    parts: dict[str, bytes | str] = {
        "_rels/.rels": rels(
            [("m", "officeDocument", "ppt/presentation.xml")]
            + ([("c", "core-properties", "docProps/core.xml")] if core else [])
        ),
        "ppt/presentation.xml": f"<p:presentation {NAMES}><p:sldIdLst>{listed}</p:sldIdLst>"
        f"{ext if named else ''}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": rels(
            [(f"s{n}", "slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)]
        ),
        "ppt/slideLayouts/layout.xml": f"<p:sldLayout {NAMES}>{_tree(layout)}</p:sldLayout>",
        "ppt/slideLayouts/_rels/layout.xml.rels": rels(
            [("m", "slideMaster", "../slideMasters/master.xml")]
        ),
        "ppt/slideMasters/master.xml": f"<p:sldMaster {NAMES}>{master}</p:sldMaster>",
    }
    if core:
        parts["docProps/core.xml"] = core
    for number, shapes in enumerate(slides, 1):
        parts[f"ppt/slides/slide{number}.xml"] = f"<p:sld {NAMES}>{_tree(shapes)}</p:sld>"
        own: list[Relation] = [*relations, ("layout", "slideLayout", "../slideLayouts/layout.xml")]
        if notes and number in notes:
            own.append(("notes", "notesSlide", f"../notesSlides/notes{number}.xml"))
            content = f"<p:notes {NAMES}>{_tree(notes[number])}</p:notes>"
            parts[f"ppt/notesSlides/notes{number}.xml"] = content
        parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = rels(own)
    parts = {"[Content_Types].xml": _types(parts), **parts, **(members or {})}
    return packed(parts)


def _types(parts: Mapping[str, bytes | str]) -> str:
    """Return the list of types, without which other programs find no slide."""
    main = "application/vnd.openxmlformats-officedocument.presentationml"
    kinds = {
        "presentation": "presentation.main",
        "slides": "slide",
        "slideLayouts": "slideLayout",
        "slideMasters": "slideMaster",
        "notesSlides": "notesSlide",
    }
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{main}.{kind}+xml"/>'
        for name in parts
        if (kind := kinds.get(name.split("/")[1].partition(".")[0])) and name.endswith(".xml")
    )
    package = "application/vnd.openxmlformats-package.relationships+xml"
    return (
        f'<Types xmlns="{_FORMATS}/package/2006/content-types">'
        f'<Default Extension="rels" ContentType="{package}"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
    )


def _tree(shapes: str) -> str:
    group = '<p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/>'
    return (
        f"<p:cSld><p:spTree><p:nvGrpSpPr>{group}</p:nvGrpSpPr><p:grpSpPr/>{shapes}"
        "</p:spTree></p:cSld>"
    )


def title(text: str, kind: str = "title") -> str:
    return shape(line(text), kind=kind)


def shape(
    body: str, *, kind: str = "", index: int | None = None, hidden: bool = False, fill: str = ""
) -> str:
    """Return a shape with a text; a placeholder if it has a kind or an index."""
    place = "" if index is None else f' idx="{index}"'
    named = f' type="{kind}"' if kind else ""
    placeholder = f"<p:ph{named}{place}/>" if named or place else ""
    body = body if "<" in body else line(body)
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"{" hidden=" + repr("1") if hidden else ""}/>'
        f"<p:cNvSpPr/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:spPr>{fill}</p:spPr>"
        f"<p:txBody><a:bodyPr/>{body}</p:txBody></p:sp>"
    )


def line(text: str, properties: str = "", level: int = 0) -> str:
    """Return a paragraph; text without markup becomes a run."""
    content = text if "<" in text else run(text)
    depth = f' lvl="{level}"' if level else ""
    return f"<a:p><a:pPr{depth}>{properties}</a:pPr>{content}</a:p>"


def run(text: str) -> str:
    return f"<a:r><a:rPr/><a:t>{escape(text)}</a:t></a:r>"


def group(*shapes: str) -> str:
    inner = "".join(shapes)
    named = '<p:nvGrpSpPr><p:cNvPr id="2" name="g"/></p:nvGrpSpPr><p:grpSpPr/>'
    return f"<p:grpSp>{named}{inner}</p:grpSp>"


def frame(inner: str, alt: str = "") -> str:
    """Return a frame around a table, a chart or a diagram."""
    return (
        f'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="3" name="f" descr="{alt}"/>'
        f"<p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><a:graphic>"
        f'<a:graphicData uri="{_FORMATS}/drawingml/2006/table">{inner}</a:graphicData></a:graphic>'
        "</p:graphicFrame>"
    )


def table(*rows: Sequence[str], properties: str = "") -> str:
    """Return a table of cells; a cell that begins with a tag is used unchanged."""
    lines = (
        "<a:tr>"
        + "".join(
            text
            if text.startswith("<a:tc")
            else f"<a:tc><a:txBody>{''.join(map(line, text.split('¶')))}</a:txBody></a:tc>"
            for text in row
        )
        + "</a:tr>"
        for row in rows
    )
    return frame(f"<a:tbl><a:tblPr{properties}/>{''.join(lines)}</a:tbl>")


def picture(reference: str, alt: str = "") -> str:
    return (
        f'<p:pic><p:nvPicPr><p:cNvPr id="4" name="p" descr="{alt}"/></p:nvPicPr>'
        f'<p:blipFill><a:blip r:embed="{reference}"/></p:blipFill></p:pic>'
    )
