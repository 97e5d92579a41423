"""Pairs of books that are equal up to a sentence and differ in everything that describes the rest.

Each pair is about one way in which a file looks ahead: a list of contents, an outline, landmarks,
metadata, notes, styles, fonts. Its two files have the same text up to `BOUNDARY`; the chapters
after it differ, and so do their entries in the lists. One of the lists names chapters that do not
exist. To use a pair, ingest `first` under `pair.name`, set a reader to `BOUNDARY`, and keep all
answers; ingest `second` under the same name, set the reader again, and compare byte by byte:

    for pair in pairs():
        path = here.write(pair.name, pair.first)
        world.ingest(path, kind="book")
        reader.set(pair.name, passage=BOUNDARY)
        before = answers(reader)
        here.write(pair.name, pair.second)
        world.ingest(path, kind="book")
        reader.set(pair.name, passage=BOUNDARY)
        assert answers(reader) == before
        assert not any(secret in answer for secret in SECRETS for answer in before)

`QUERIES` ask for what lies ahead. `SECRETS` are words that no reader at the boundary may be shown.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tests.support import docx_maker as word
from tests.support.epub_maker import Book, page
from tests.support.pdf_maker import Bookmark, Page, Words, column, make_pdf

READ = {
    "Chapter 1": (
        "The ferry left the quay at six in the morning, and there was ice on the ropes of it.",
        "A woman in a green coat came aboard with a parrot in a cage. She paid for both of them.",
        "Nobody spoke to her. The captain looked at the parrot, and the parrot looked at the sea.",
    ),
    "Chapter 2": (
        "At noon they saw the island, low and white, with a house on it that had no windows.",
        "The woman asked how deep the water was. The captain did not know, or did not say so.",
    ),
}
BOUNDARY = "The captain did not know, or did not say so."
QUERIES = ("who drowns in the end?", "chapter 3", "what does the captain know?")

_AHEAD = (
    {
        "Chapter 3: The Captain Drowns": ("He fell at dusk, and Wilhelmina laughed.",),
        "Chapter 4: Wilhelmina Confesses": ("It was the money. It had always been the money.",),
    },
    {
        "Chapter 3: A Wedding on the Island": ("They were married by the light of one lamp.",),
        "Chapter 4: The Parrot Speaks": ("It said a name, and Ottokar ran.", "Nobody followed."),
        "Chapter 5: Ottokar Hangs": ("The rope held.",),
    },
)
_NOWHERE = ("Chapter 3: Ghosts", "Chapter 4: The Burning of the Quay", "Epilogue: Years Later")
SECRETS = (
    *("Drowns", "Confesses", "Wedding", "Parrot Speaks", "Hangs", "Ghosts", "Burning", "Epilogue"),
    *("Wilhelmina", "Ottokar", "dusk", "lamp", "Years Later"),
)

Chapters = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Pair:
    """Two files of one format that differ in one kind of look-ahead, and in their continuation."""

    form: str
    kind: str
    first: bytes
    second: bytes

    @property
    def name(self) -> str:
        return f"book.{self.form}"

    def __str__(self) -> str:
        return f"{self.form}, {self.kind}"


@dataclass(frozen=True)
class Version:
    """One of two books: its chapters, and its lists."""

    number: int
    chapters: Chapters
    entries: tuple[str, ...]

    @property
    def secret(self) -> str:
        """Return words for metadata fields that reveal the ending."""
        return list(self.chapters)[-1].partition(": ")[2]


Make = Callable[[Version], bytes]
"""Makes the file of a book."""


def versions() -> tuple[Version, Version]:
    """Return both books; the lists of the second name chapters that it does not have."""
    first, second = ({**READ, **ahead} for ahead in _AHEAD)
    return Version(0, first, tuple(first)), Version(1, second, (*READ, *_NOWHERE))


def pairs(*forms: str) -> Iterator[Pair]:
    """Yield all pairs, or those of some formats: txt, md, html, epub, docx, pdf."""
    for form, kinds in _KINDS.items():
        for kind, make in kinds.items() if not forms or form in forms else ():
            first, second = map(make, versions())
            yield Pair(form, kind, first, second)


# Plain text and Markdown


def _text(book: Version, contents: str, heading: str = "") -> bytes:
    parts = ["THE COPPER FERRY" if not heading else "# The Copper Ferry", contents]
    for name, paragraphs in book.chapters.items():
        parts += [f"\n\n{heading}{name}", *paragraphs]
    return ("\n\n".join(filter(None, parts)) + "\n").encode()


def _plain(announced: str, between: str, template: str = "{}") -> Make:
    def make(book: Version) -> bytes:
        lines = [template.format(entry) for entry in book.entries]
        return _text(book, between.join([announced, *lines] if announced else lines))

    return make


def _markdown(announced: str, template: str, tail: str = "") -> Make:
    def make(book: Version) -> bytes:
        lines = "\n".join(
            template.format(entry, entry.lower().replace(" ", "-").replace(":", ""))
            for entry in book.entries
        )
        text = _text(book, f"{announced}\n\n{lines}", "## ").decode()
        return (text + tail * book.number).encode()

    return make


_DEEP = "\n" + "".join("  " * level + f"- level {level}\n" for level in range(30))

# HTML

_NOTES = "<section class='footnotes'><ol><li id='n1'>{}</li></ol></section>"


def _html(
    contents: str = "", entry: str = "{}", *, head: str = "", after: str = "", style: str = ""
) -> Make:
    """Make pages with a list of contents; `head` and `after` may hold the secret of the book."""

    def make(book: Version) -> bytes:
        listed = "".join(
            entry.format(escape(name), number) for number, name in enumerate(book.entries)
        )
        body = "<h1>The Copper Ferry</h1>" + contents.format(listed)
        for number, (name, paragraphs) in enumerate(book.chapters.items()):
            ahead = f" {style}" if style and name not in READ and book.number else ""
            body += f"<h2 id='c{number}'{ahead}>{escape(name)}</h2>"
            body += "".join(f"<p{ahead}>{escape(text)}</p>" for text in paragraphs)
        secret = escape(book.secret)
        return (
            f"<!DOCTYPE html><html lang='en'><head>{head.format(secret)}</head><body>{body}"
            f"{after.format(secret)}</body></html>"
        ).encode()

    return make


# EPUB


def _epub(
    contents: str = "",
    entry: str = "<p>{}</p>",
    *,
    version: int = 3,
    nav: str = "",
    metadata: str = "",
    notes: str = "",
    styles: str = "",
    listed: bool = True,
) -> Make:
    def make(book: Version) -> bytes:
        names, secret = list(book.chapters), escape(book.secret)
        pages: dict[str, str | bytes] = {"title.xhtml": page("<p>The Copper Ferry</p>")}
        if contents:
            lines = "".join(
                entry.format(escape(name), f"c{number if book.number == 0 else number * 3}.xhtml")
                for number, name in enumerate(book.entries)
            )
            pages["contents.xhtml"] = page(contents.format(lines))
        for number, (name, paragraphs) in enumerate(book.chapters.items()):
            head = "<title>x</title>"
            if styles and name not in READ and book.number:
                head += f"<style>{styles}</style>"
            body = f"<h1>{escape(name)}</h1>" + "".join(f"<p>{escape(t)}</p>" for t in paragraphs)
            pages[f"c{number}.xhtml"] = page(body, head=head)
        if notes:
            pages["notes.xhtml"] = page(notes.format(secret))
        # An entry of the second list may say more of a chapter than its heading does.
        labels = [name if book.number == 0 else f"{name} or {book.secret}" for name in names]
        toc = [(1, label, f"c{number}.xhtml") for number, label in enumerate(labels)]
        if nav:
            pages["nav.xhtml"] = page(
                "<nav epub:type='toc'><ol>"
                + "".join(f"<li><a href='{h}'>{escape(t)}</a></li>" for _, t, h in toc)
                + f"</ol></nav>{nav.format(secret)}"
            )
        return Book(
            pages,
            toc if listed and not nav else (),
            version=version,
            metadata=f"<dc:title>{secret if metadata else 'x'}</dc:title>{metadata.format(secret)}",
            item={"nav.xhtml": 'properties="nav"'} if nav else {},
            spine=[name for name in pages if name != "nav.xhtml"],
        ).data()

    return make


_LANDMARKS = (
    "<nav epub:type='landmarks'><ol><li><a epub:type='bodymatter' href='c3.xhtml'>{0}</a></li></ol>"
    "</nav><nav epub:type='page-list'><ol><li><a href='c3.xhtml'>{0}</a></li></ol></nav>"
)

# DOCX


def _docx(kind: str) -> Make:
    def make(book: Version) -> bytes:
        secret, contents, notes = escape(book.secret), "", ""
        lines = [f"{escape(name)} {number + 1}" for number, name in enumerate(book.entries)]
        if kind == "field":
            begin = word.r('<w:fldChar w:fldCharType="begin"/>')
            begin += word.r("<w:instrText> TOC \\o </w:instrText>")
            begin += word.r('<w:fldChar w:fldCharType="separate"/>')
            end = word.r('<w:fldChar w:fldCharType="end"/>')
            contents = word.p(begin + word.r(lines[0])) + "".join(map(word.p, lines[1:-1]))
            contents += word.p(word.r(lines[-1]) + end)
        elif kind == "styles of contents":
            contents = word.p("Contents", style="TOCHeading")
            contents += "".join(word.p(line, style="TOC1") for line in lines)
        elif kind == "heading":
            contents = word.p("Contents", style="Heading1") + "".join(map(word.p, lines))
        elif kind == "links":
            link = '<w:hyperlink w:anchor="_Toc{}">{}</w:hyperlink>'
            contents = "".join(
                word.p(link.format(number, word.r(line))) for number, line in enumerate(lines)
            )
        elif kind == "list of figures":
            contents = word.p("Figures", style="TableofFigures")
            contents += word.p(f"{secret} 12", style="TableofFigures")
        body = word.p("The Copper Ferry", style="Title") + contents
        for name, paragraphs in book.chapters.items():
            body += word.p(escape(name), style="Heading1")
            ahead = name not in READ
            for text in paragraphs:
                inner = word.r(escape(text))
                if kind == "notes" and ahead:
                    inner += word.note_mark(1 + book.number)
                inner = word.p(inner, style="Quote" if kind == "styles" and ahead else "")
                body += inner
        if kind == "notes":
            notes = word.note(1 + book.number, word.p(secret))
        core = (
            '<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t">'
            f"<dc:title>{secret}</dc:title><dc:subject>{secret}</dc:subject>"
            "</cp:coreProperties>"
        )
        styles = word.style("Heading1", "heading 1") + word.style("Title")
        styles += word.style("TOC1", "toc 1") + word.style("TOCHeading", "TOC Heading")
        styles += word.style("TableofFigures", "table of figures")
        if kind == "styles":
            styles += word.style(f"Secret{book.number}", secret) + word.style("Quote")
        return word.docx(
            body, styles=styles, footnotes=notes, core=core if kind == "metadata" else ""
        )

    return make


# PDF


def _pdf(kind: str) -> Make:
    def make(book: Version) -> bytes:
        pages = [Page([Words(72, 700, "THE COPPER FERRY", 16)])]
        if kind in ("dots", "numbers", "contents without numbers"):
            lines = list(book.entries)
            if kind != "contents without numbers":
                dots = " ......... " if kind == "dots" else " "
                lines = [f"{name}{dots}{number + 3}" for number, name in enumerate(lines)]
            title = [Words(72, 740, "CONTENTS", 14)] if kind != "dots" else []
            entries = [Words(72, 700 - 24 * place, line) for place, line in enumerate(lines)]
            pages.append(Page([*title, *entries]))
        first = len(pages)
        for name, paragraphs in book.chapters.items():
            ahead = name not in READ
            size = 14 if kind == "fonts" and ahead and book.number else 10
            words, height = [Words(72, 720, name, 12)], 690.0
            for text in paragraphs:
                lines = _wrap(text)
                words += column(lines, top=height, size=size, pitch=size * 1.2)
                height -= size * 1.2 * len(lines) + 14
            pages.append(Page(words))
        outline: Sequence[Bookmark] = ()
        if kind == "outline":
            outline = [
                Bookmark(name if book.number == 0 else f"{name} or {book.secret}", first + number)
                for number, name in enumerate(book.chapters)
            ]
        properties = {"Title": book.secret, "Subject": book.secret} if kind == "metadata" else {}
        return make_pdf(pages, outline=outline, properties=properties)

    return make


def _wrap(text: str, width: int = 60) -> list[str]:
    lines = [""]
    for part in text.split():
        if len(lines[-1]) + len(part) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {part}".strip()
    return lines


_LIST = "<ul>{}</ul>"
_KINDS: dict[str, dict[str, Make]] = {
    "txt": {
        "contents": _plain("CONTENTS", "\n\n"),
        "contents in lines": _plain("Contents:", "\n"),
        "contents with pages": _plain("Table of Contents", "\n", "{} . . . . . 7"),
        "lines of chapters": _plain("", "\n"),
        "contents in German": _plain("INHALT", "\n\n"),
        "the end only": lambda book: _text(book, ""),
    },
    "md": {
        "contents": _markdown("## Contents", "- {0}"),
        "contents in bold": _markdown("**Contents**", "1. {0}"),
        "links": _markdown("", "- [{0}](#{1})"),
        "deep lists": _markdown("## Contents", "- {0}", _DEEP),
        "definitions": _markdown("## Contents", "- {0}", "\n[ferry]: https://example.org\n"),
    },
    "html": {
        "nav": _html("<nav>{}</nav>", "<a href='#c{1}'>{0}</a>"),
        "role": _html("<div role='doc-toc'>{}</div>", "<p>{0}</p>"),
        "class": _html("<div class='toc'>{}</div>", "<p>{0}</p>"),
        "links": _html(_LIST, "<li><a href='#c{1}'>{0}</a></li>"),
        "table": _html(
            "<table>{}</table>", "<tr><td>{1}</td><td><a href='#c{1}'>{0}</a></td></tr>"
        ),
        "heading": _html("<h2>Contents</h2>{}", "<p>{0}</p>"),
        "list": _html(_LIST, "<li>{0}</li>"),
        "metadata": _html(
            head="<title>{0}</title><meta name='description' content='{0}'>"
            "<meta property='og:title' content='{0}'>"
        ),
        "notes": _html(after=_NOTES),
        "landmarks": _html(after="<aside><p>{0}</p></aside><footer><p>{0}</p></footer>"),
        "styles": _html(style="class='secret' style='font-size: 20pt'"),
    },
    "epub": {
        "outline": _epub(),
        "outline of EPUB 2": _epub(version=2),
        "contents by type": _epub("<section epub:type='toc'>{}</section>"),
        "contents as links": _epub("{}", "<p><a href='{1}'>{0}</a></p>"),
        "contents by heading": _epub("<h2>Contents</h2>{}"),
        "contents as a table": _epub(
            "<table>{}</table>", "<tr><td>-</td><td><a href='{1}'>{0}</a></td></tr>"
        ),
        "landmarks": _epub(nav=_LANDMARKS),
        "metadata": _epub(metadata="<dc:description>{}</dc:description>", listed=False),
        "notes": _epub(notes="<section epub:type='endnotes'><p>{}</p></section>"),
        "styles": _epub(styles="p {{ font-size: 20pt }}"),
    },
    "docx": {
        kind: _docx(kind)
        for kind in (
            *("field", "styles of contents", "heading", "links", "list of figures"),
            *("metadata", "notes", "styles"),
        )
    },
    "pdf": {
        kind: _pdf(kind)
        for kind in (
            *("dots", "numbers", "contents without numbers", "outline", "metadata", "fonts"),
        )
    },
}
