"""DOCX: what the pages of a document say, in reading order, each thing once.

Kept are tracked insertions, text boxes, content controls, notes after what refers to them, and
the places of pictures. Left out are deletions, hidden text, comments, headers and footers.
"""

from __future__ import annotations

from truespan.errors import SourceUnsafe
from truespan.parsing.archive import Archive
from truespan.parsing.docx.body import Body, notes_of
from truespan.parsing.docx.package import Package, Part, Pictures, W, read_properties
from truespan.parsing.docx.styles import Lists, Styles
from truespan.types.text import Loaded


def load_docx(shown: str, data: bytes, *, images: bool) -> Loaded:
    """Return what a DOCX file holds; the bytes of its pictures only if `images` are wanted.

    Raises:
        SourceRefused: it cannot become a document; its kind says why.
    """
    try:
        return _load(Package(shown, Archive(shown, data)), images)
    except RecursionError as error:
        # The parser's limit of depth should keep this from happening; a crash would be worse.
        raise SourceUnsafe(shown) from error


def _load(package: Package, images: bool) -> Loaded:
    main = package.main()
    styles = Styles(_root(package.part(main.related("styles"))))
    pictures = Pictures(package.archive, images)
    kinds = ("footnote", "endnote")
    notes = [(kind, package.part(main.related(f"{kind}s"))) for kind in kinds]
    for part in (main, *(part for _, part in notes)):
        if part:
            pictures.count_relations(part)
    lists = Lists(_root(package.part(main.related("numbering"))))
    body = Body(package, styles, lists, pictures, notes_of(notes))
    for story in main.root.iterchildren(f"{W}body"):
        body.tell(story, main)
    return _loaded(body, package)


def _root(part: Part | None):
    return None if part is None else part.root


def _loaded(body: Body, package: Package) -> Loaded:
    properties = read_properties(package, language=body.styles.language)
    warnings = body.pictures.warnings()
    if package.left_out:
        warnings.append(f"Parts that are damaged or in another format: {package.left_out}.")
    return Loaded(
        blocks=tuple(body.blocks),
        title=body.places.title or properties.title,
        properties=properties,
        images=tuple(body.pictures.images),
        pictures=body.pictures.counts(),
        warnings=tuple(warnings),
    )
