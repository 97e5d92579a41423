"""Whether a question about a cell finds the row of the table that has it.

Fifty questions about eight long tables in HTML, DOCX, Markdown and CSV, all in one world; they are
in `bench/table_questions`, written by hand. The same cities are in four of the tables, so that only
the names of the columns tell which is meant. Counted is a passage that contains the whole row, and
one that contains its header too, without which it cannot be read. Next to it: the same files in a
world whose tables were not divided, because it had the contract's defaults while they were
ingested. Both are searched in the same way.

Run it with `python -m bench.tables`; `--full` lists the rows that were not among the first five.
"""

from __future__ import annotations

import csv
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import truespan
from bench.report import Figure, Options, run, say
from truespan.engine.world import World

CASES = Path(__file__).parent / "table_questions"
PLACES = (1, 3, 5)
BAR = " | "
DIVIDED, WHOLE = "header repeated", "header not repeated"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a document of its own; the first row is the header.

    A question names the row that answers it by its first cell.
    """

    title: str
    intro: str
    rows: tuple[tuple[str, ...], ...]
    questions: tuple[tuple[str, str], ...]

    def line(self, key: str) -> str:
        """Return the row whose first cell is `key`, as it is in canonical text."""
        return BAR.join(next(row for row in self.rows if row[0] == key))


def read_tables() -> dict[str, Table]:
    """Return the tables by the names of their files."""
    tables: dict[str, Table] = {}
    for path in sorted(CASES.glob("*.toml")):
        given = tomllib.loads(path.read_text())
        rows = tuple(tuple(line.split(BAR)) for line in given["rows"].strip().split("\n"))
        questions = tuple((asked["row"], asked["text"]) for asked in given["question"])
        tables[given["file"]] = Table(given["title"], given["intro"], rows, questions)
    return tables


def to_html(table: Table) -> bytes:
    """Return a page with a table whose header is in `thead`."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    head, body = row(table.rows[0], "th"), "".join(row(cells, "td") for cells in table.rows[1:])
    title = f"<h1>{escape(table.title)}</h1><p>{escape(table.intro)}</p>"
    rows = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f"<!DOCTYPE html><html><body>{title}{rows}</body></html>".encode()


def to_csv(table: Table) -> bytes:
    """Return the rows of a table alone."""
    text = StringIO()
    csv.writer(text).writerows(table.rows)
    return text.getvalue().encode()


def to_markdown(table: Table) -> bytes:
    """Return a Markdown file with a table."""
    lines = [f"| {BAR.join(row)} |" for row in table.rows]
    lines.insert(1, "|---" * len(table.rows[0]) + "|")
    return "\n".join([f"# {table.title}", "", table.intro, "", *lines, ""]).encode()


_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def to_docx(table: Table) -> bytes:
    """Return a Word document with a table whose first row is repeated on each page."""

    def paragraph(text: str, properties: str = "") -> str:
        return f"<w:p>{properties}<w:r><w:t>{escape(text)}</w:t></w:r></w:p>"

    def row(cells: Sequence[str], properties: str = "") -> str:
        filled = "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in cells)
        return f"<w:tr>{properties}{filled}</w:tr>"

    head = row(table.rows[0], "<w:trPr><w:tblHeader/></w:trPr>")
    title = paragraph(table.title, '<w:pPr><w:pStyle w:val="Title"/></w:pPr>')
    rows = "".join(map(row, table.rows[1:]))
    body = f"{title}{paragraph(table.intro)}<w:tbl>{head}{rows}</w:tbl>"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        f'<Override PartName="/word/document.xml" ContentType="{_MAIN}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="r1" Type="{_OFFICE}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
    }
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, xml in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{xml}')
    return content.getvalue()


WRITERS: dict[str, Callable[[Table], bytes]] = {
    ".html": to_html,
    ".md": to_markdown,
    ".csv": to_csv,
    ".docx": to_docx,
}


@dataclass(frozen=True, slots=True)
class Found:
    """The place of the first passage with the row, and of the first with its header too; or 0."""

    question: str
    row: int
    readable: int


def ask(world: World, tables: dict[str, Table]) -> list[Found]:
    """Return where the row of each question was found among the first passages."""
    results: list[Found] = []
    for name, table in tables.items():
        header = BAR.join(table.rows[0])
        for key, question in table.questions:
            found = world.search(question, top_k=max(PLACES), floor=0.0)
            texts = [passage.text if passage.source == name else "" for passage in found.passages]
            rows = [place for place, text in enumerate(texts, 1) if table.line(key) in text]
            readable = [place for place in rows if header in texts[place - 1]]
            results.append(Found(question, min(rows, default=0), min(readable, default=0)))
    return results


def make_world(library: truespan.Library, folder: Path, label: str) -> World:
    """Return a world with all tables, divided into parts or not."""
    # With the contract's defaults, a table is text like any other.
    world = library.create_world(label, defaults="recommended" if label == DIVIDED else "contract")
    world.ingest(folder)
    world.set_defaults("recommended")
    return world


def measure(options: Options) -> list[Figure]:
    """Return how many rows are found in the first passages, in per cent."""
    tables, found = read_tables(), dict[str, list[Found]]()
    with TemporaryDirectory() as place:
        folder = Path(place) / "files"
        folder.mkdir()
        for name, table in tables.items():
            (folder / name).write_bytes(WRITERS[Path(name).suffix](table))
        with truespan.open(Path(place) / "library", create=True) as library:
            for label in (DIVIDED, WHOLE):
                found[label] = ask(make_world(library, folder, label), tables)
    for label, results in found.items() if options.full else ():
        say(f"{label}, not among the first {max(PLACES)}:")
        for each in results:
            if not each.row:
                say(f"  {each.question}")
    figures: list[Figure] = []
    count = len(found[DIVIDED])
    for kind, what in (("row", "row"), ("readable", "row with its header")):
        for most in PLACES:
            ours, theirs = (
                100 * sum(0 < getattr(each, kind) <= most for each in found[label]) / count
                for label in (DIVIDED, WHOLE)
            )
            name = f"tables, {what} in the first {most}, {count} questions"
            figures.append(Figure(name, ours, "%", WHOLE, theirs))
    return figures


if __name__ == "__main__":
    run("bench.tables", __doc__, measure)
