"""Small valid documents in parts, so that tests can replace a part with a hostile one."""

from collections.abc import Mapping

from tests.support.hostile.zip_maker import archive, members_of

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
NAMESPACES = (
    f'xmlns:w="{WORD}" xmlns:r="{OFFICE}" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:v="urn:schemas-microsoft-com:vml"'
)
PLACE = "@@"
"""Placeholder for the text of an XML attack."""


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def body(content: str) -> str:
    return f"{HEAD}<w:document {NAMESPACES}><w:body>{content}</w:body></w:document>"


def relations(*entries: tuple[str, str, str, str]) -> str:
    rows = "".join(
        f'<Relationship Id="{id}" Type="{OFFICE}/{kind}" Target="{target}"'
        + (f' TargetMode="{mode}"' if mode else "")
        + "/>"
        for id, kind, target, mode in entries
    )
    return f'{HEAD}<Relationships xmlns="{RELATIONS}">{rows}</Relationships>'


CONTENT_TYPES = (
    f'{HEAD}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships'
    '+xml"/><Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-'
    'officedocument.wordprocessingml.document.main+xml"/></Types>'
)
DOCX: dict[str, str] = {
    "[Content_Types].xml": CONTENT_TYPES,
    "_rels/.rels": relations(
        ("rId1", "officeDocument", "word/document.xml", ""),
        ("rId2", "metadata/core-properties", "docProps/core.xml", ""),
    ).replace(f"{OFFICE}/metadata", RELATIONS + "/metadata"),
    "word/document.xml": body(
        paragraph("A heading", '<w:pStyle w:val="Heading1"/>')
        + paragraph("An honest paragraph. @@")
        + paragraph("An item.", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
        + '<w:p><w:r><w:t>Noted.</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    ),
    "word/_rels/document.xml.rels": relations(
        ("rId1", "styles", "styles.xml", ""),
        ("rId2", "numbering", "numbering.xml", ""),
        ("rId3", "footnotes", "footnotes.xml", ""),
    ),
    "word/styles.xml": f"{HEAD}<w:styles {NAMESPACES}>"
    '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/><w:desc>@@'
    '</w:desc><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style></w:styles>',
    "word/numbering.xml": f"{HEAD}<w:numbering {NAMESPACES}>"
    '<w:abstractNum w:abstractNumId="0"><w:name>@@</w:name><w:lvl w:ilvl="0"><w:start w:val="1"/>'
    '<w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl></w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>',
    "word/footnotes.xml": f'{HEAD}<w:footnotes {NAMESPACES}><w:footnote w:id="2">'
    "<w:p><w:r><w:t>A note. @@</w:t></w:r></w:p></w:footnote></w:footnotes>",
    "docProps/core.xml": f"{HEAD}<cp:coreProperties "
    'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Title @@</dc:title>'
    "</cp:coreProperties>",
}
EPUB: dict[str, str] = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": f'{HEAD}<container version="1.0" '
    'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
    'full-path="OEBPS/content.opf" media-type="application/oebps-package+xml">@@</rootfile>'
    "</rootfiles></container>",
    "OEBPS/content.opf": f'{HEAD}<package xmlns="http://www.idpf.org/2007/opf" version="3.0" '
    'unique-identifier="id"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
    "<dc:title>Title @@</dc:title></metadata><manifest>"
    '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    '<item id="c1" href="c1.xhtml" media-type="application/xhtml+xml"/>'
    '</manifest><spine toc="ncx"><itemref idref="c1"/></spine></package>',
    "OEBPS/nav.xhtml": f'{HEAD}<html xmlns="http://www.w3.org/1999/xhtml" '
    'xmlns:epub="http://www.idpf.org/2007/ops"><body><nav epub:type="toc"><ol><li>'
    '<a href="c1.xhtml">One @@</a></li></ol></nav></body></html>',
    "OEBPS/toc.ncx": f'{HEAD}<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1">'
    '<navMap><navPoint id="a"><navLabel><text>One @@</text></navLabel><content src="c1.xhtml"/>'
    "</navPoint></navMap></ncx>",
    "OEBPS/c1.xhtml": f'{HEAD}<html xmlns="http://www.w3.org/1999/xhtml"><head><title>One</title>'
    "</head><body><h1>One</h1><p>An honest paragraph. @@</p></body></html>",
}


def encoded(parts: Mapping[str, str | bytes]) -> dict[str, bytes]:
    return {
        name: part if isinstance(part, bytes) else part.replace(PLACE, "").encode()
        for name, part in parts.items()
    }


def docx_parts(changes: Mapping[str, str | bytes] | None = None) -> dict[str, bytes]:
    return encoded({**DOCX, **(changes or {})})


def epub_parts(changes: Mapping[str, str | bytes] | None = None) -> dict[str, bytes]:
    return encoded({**EPUB, **(changes or {})})


def docx(changes: Mapping[str, str | bytes] | None = None) -> bytes:
    """Return a valid document except for the given parts."""
    return archive(members_of(docx_parts(changes)))


def epub(changes: Mapping[str, str | bytes] | None = None) -> bytes:
    """Return a valid book except for the given parts."""
    return archive(members_of(epub_parts(changes)))
