"""Files of every format that begin alike and end differently, drawn at random.

A file is a list of units: lines, rows, paragraphs, cells or slides, depending on its format.
`draw_pair` draws a head and two tails; the first file is the head with one of them, the second with
the other. Every unit has a unique name, so that a test knows which units of the
head came out alike. A pair is a function of its format and seed, so that a finding can be repeated.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from random import Random
from typing import Any

from tests.support import docx_maker as word
from tests.support import odf_maker, pptx_maker
from tests.support.epub_maker import Book, page
from tests.support.pdf_maker import Page, Words, make_pdf
from tests.support.sheet_maker import Cell, ods, rows, sheet, xlsb, xlsx

NAME = re.compile(r"zq[0-9]+x", re.IGNORECASE)
_NOUNS = ("lamp", "oil", "boat", "quay", "fee", "Ida", "garden", "night", "key", "clock", "Bergen")
_NUMERALS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")


@dataclass(frozen=True)
class Pair:
    """Two files with the same units at the beginning."""

    name: str
    head: tuple[Any, ...]
    first: bytes
    second: bytes

    @property
    def names(self) -> list[str]:
        """The name of each unit of the head; units without a name are omitted."""
        found = (NAME.search(repr(unit)) for unit in self.head)
        return [name[0].lower() for name in found if name]


@dataclass
class Drawing:
    """Draws words and units; every name is new."""

    rng: Random
    count: int = 0
    chapter: int = 0

    def name(self) -> str:
        self.count += 1
        return f"zq{self.count:03}x"

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def words(self, most: int = 3) -> str:
        return " ".join(self.rng.choices(_NOUNS, k=self.rng.randint(1, most)))

    def sentence(self) -> str:
        end = self.pick(".", ".", ".", "!", "?", ":", "...", "")
        return f"The {self.words(5)} {self.name()} {self.words(9)}{end}"

    def prose(self) -> str:
        space = self.pick(" ", " ", "\n")
        text = space.join(self.sentence() for _ in range(self.rng.randint(1, 4)))
        return text * self.pick(1, 1, 1, 1, 12)

    def title(self) -> str:
        self.chapter += 1
        numeral = _NUMERALS[self.chapter % len(_NUMERALS)]
        name = f"{self.words(2).title()} {self.name()}"
        return self.pick(
            name, name, f"Chapter {self.chapter}: {name}", f"CHAPTER {numeral}", numeral,
            f"PART {numeral}. {name}", f"{self.chapter}. {name}", f"EPILOGUE {name}", "Contents",
            "CONTENTS", f"Mr. {name}. The Key", f"Chapter {self.chapter}",
        )  # fmt: skip

    def cell(self) -> Cell:
        return self.pick(
            self.name(), f"{self.words(2)} {self.name()}", f"{self.words(2)} {self.name()}",
            self.rng.randint(1, 999), self.rng.randint(1990, 2030), None, None, self.sentence(),
            f"{self.name()} " + self.words(9) * 9, f"{self.name()}\n{self.words()}", "1.5 %",
        )  # fmt: skip

    def cells(self, most: int = 5) -> list[Cell]:
        return [self.cell() for _ in range(self.rng.randint(1, most))]

    def grid(self) -> list[list[str]]:
        width = self.rng.randint(1, 4)
        return [
            [str(self.cell() or "") for _ in range(width)] for _ in range(self.rng.randint(1, 4))
        ]


@dataclass(frozen=True)
class FileFormat:
    """A format: the name of its files, a function that draws a unit, and one that writes units."""

    name: str
    draw: Callable[[Drawing], Any]
    write: Callable[[Sequence[Any]], bytes]
    longest: int = 9
    """Maximum number of units of a head or a tail."""
    in_order: bool = True
    """Whether units come out one after the other, independent of what follows them.

    A quote in a table may open a cell of many lines, a table comes after the one on its left, a
    paragraph of a message may go on, and which part of a web page is its content is a matter of
    the whole page.
    """
    starts: Sequence[Any] = field(default=())
    """Units of which one may precede all others."""


def draw_pair(form: FileFormat, seed: int) -> Pair:
    """Return the pair of a seed; a tail may be empty, and the head too."""
    drawing = Drawing(Random(f"{form.name} {seed}"))
    rng = drawing.rng

    def draw_units(least: int) -> list[Any]:
        return [form.draw(drawing) for _ in range(rng.randint(least, form.longest))]

    head = draw_units(1)
    if form.starts and rng.random() < 0.3:
        head.insert(0, rng.choice(form.starts))
    tails = draw_units(0) if rng.random() < 0.5 else [], draw_units(1)
    # The tails differ from their first unit on.
    while tails[0] and not NAME.search(repr(tails[0][0])):
        del tails[0][0]
    first, second = (form.write([*head, *tail]) for tail in tails)
    return Pair(form.name, tuple(head), first, second)


def _join(between: str) -> Callable[[Sequence[str]], bytes]:
    return lambda units: (between.join(units) + "\n" * (len(units) % 2)).encode()


# Plain text and Markdown


def _draw_text(draw: Drawing) -> str:
    rows = "\n".join(" | ".join(row).replace("\n\n", "\n") for row in draw.grid())
    return draw.pick(
        draw.prose(), draw.prose(), draw.prose(), draw.title(), draw.title(), rows,
        f"- {draw.sentence()}\n- {draw.sentence()}", f"    if {draw.name()}:", draw.words(),
        f"{draw.title()}\n\n{draw.title()}", f"\n\n\n{draw.title()}", f"{draw.title()} . . . . 7",
        f"{draw.words()}\t{draw.name()}", f"“{draw.words()} {draw.name()}!”",
    )  # fmt: skip


def _draw_markdown(draw: Drawing) -> str:
    grid = draw.grid()
    rows = [" | ".join(cell.replace("\n", " ") for cell in row) for row in grid]
    rows.insert(1, "|".join("---" for _ in grid[0]))
    heading, name = "#" * draw.rng.randint(1, 4), draw.name()
    return draw.pick(
        _draw_text(draw), _draw_text(draw), f"{heading} {draw.title()}", f"{heading} {name}",
        f"{draw.title()}\n{draw.pick('===', '---')}", "\n".join(f"| {row} |" for row in rows),
        f"```\n{name}\n```", f"```\n{name}", f"> {draw.prose()}",
        f"- {name}\n  - {draw.sentence()}",
        f"1. {name}\n\n2. {draw.sentence()}", f"[{draw.words(1)}]: https://example.org/{name}",
        f"[{draw.words(1)}] {name} [{draw.words(1)}][1]", f"- [{draw.title()}](#{name})",
        f"![{name}](x.png)", "***", f"<div>{name}", f"*{name}", f"`{name}", f"**Contents** {name}",
    )  # fmt: skip


# Programs

_LINES = [
    *"""\
// Run starts {0}.
# prune {0}
-- drop {0}
/* {0}
 * {0}
 */
; {0}
@{0}
#[{0}]
[{0}
[{0}]
[[{0}]]
{0}:
  {0}: 1
{0} = 1
{0} = [
]
func (k *Butler) Run{0}() {{
func {0}(x int)
def {0}(x):
def {0}(
    def {0}(self): pass
  ):
class {0}:
class {0} {{
public class {0}
  public int {0}(int x) throws E {{
static struct ferry *
{0}(struct ferry *it)
{{
}}
  }}
    }}
}});
)
end
  end
fi
function {0}() {{
local function {0}()
const {0} = async (n) => {{
  {0}(to) {{ return to }}
export function {0}({{ x }} = {{}}) {{
fun {0}(): String {{
fun {0}() = 1
impl Ferry{0} {{
    fn {0}(&self) {{
fn {0}(
  x: int
) {{
mod {0} {{
type {0} struct {{
create table {0} (
);
alter table {0}
select {0};
module {0}
say_{0}() {{
cat <<EOF {0}
EOF
sub {0} {{
=head1 {0}
=cut
f{0} <- function(x) {{
`{0}
x = "{0}
x = '{0}'
namespace {0} {{
namespace {0}
#include <{0}.h>
template <{0}>
if ({0}) {{
}} else {{
for {0} in x do
    return {0}
\treturn {0}
  # {0}
  // {0}
struct {0} {{ int n; }};
enum {0} {{
interface {0} {{
constructor({0}) {{
init({0}: Int) {{


a | {0} | c
{0}. Then two. Three!
    {0}""".splitlines(),
    '"""{0}',
    "'''",
    "#define {0} \\",
]


def _draw_line(draw: Drawing) -> str:
    name = draw.name()
    line = draw.pick(*_LINES).format(name)
    # Also a line that is too long for one sentence.
    return draw.pick(*[line] * 60, f"x({name}); " * 400 + line)


# Tables


def _draw_delimited(draw: Drawing, delimiters: str = ",,,;|\t", quoted: bool = False) -> str:
    delimiter = draw.pick(*delimiters)
    more = [f'"{draw.name()}', f'"say \\"{draw.name()}\\""'] if quoted else []
    texts = [
        draw.pick(
            draw.name(), draw.name(), draw.words(2), str(draw.rng.randint(1, 99)), "2024-05-01", "",
            f'"{draw.words(1)}{delimiter} {draw.name()}"', f'"{draw.name()}\n{draw.words()}"',
            f'{draw.name()}"', f'"a ""{draw.name()}"""', draw.sentence(), "C:\\temp", "1,5",
            draw.prose().replace("\n", " "), *more,
        )
        for _ in range(draw.rng.randint(1, 4))
    ]  # fmt: skip
    line = delimiter.join(texts)
    return draw.pick(*[line] * 6, "", f"{draw.title()}", f"{draw.name()}{delimiter * 3}")


def _draw_quoted(draw: Drawing) -> str:
    """Draw a row that may open a quote, which any later row may close."""
    return _draw_delimited(draw, quoted=True)


def _draw_tabs(draw: Drawing) -> str:
    return _draw_delimited(draw, "\t\t\t,")


def _draw_row(draw: Drawing) -> tuple[str, Any]:
    cells = draw.cells()
    beside = [*draw.cells(2), None, *draw.cells(3)]
    return draw.pick(
        *[("row", cells)] * 8, *[("row", [draw.pick(*cells)])] * 3, ("row", []), ("row", []),
        ("row", [draw.title()]), ("row", [None, *cells]), ("row", beside), ("row", beside),
        ("sheet", f"{draw.words(2)} {draw.name()}"), ("sheet", f"Sheet{draw.count}"),
    )  # fmt: skip


def _draw_narrow_row(draw: Drawing) -> tuple[str, Any]:
    """Draw a row of at most four cells, too few for two tables side by side."""
    kind, content = _draw_row(draw)
    return kind, content[:4] if kind == "row" else content


def _sheets(units: Iterable[tuple[str, Any]]) -> dict[str, list[list[Cell]]]:
    found: dict[str, list[list[Cell]]] = {}
    for kind, content in units:
        if kind == "sheet" or not found:
            found[content if kind == "sheet" else "Sheet1"] = []
        if kind == "row":
            list(found.values())[-1].append(content)
    return found


def _write_xlsx(units: Sequence[tuple[str, Any]]) -> bytes:
    """Write rows, and merge the first cell of every third with the next two."""
    sheets: dict[str, str] = {}
    for name, table in _sheets(units).items():
        merged = "".join(
            f'<mergeCell ref="A{number}:C{number}"/>' for number in range(1, len(table) + 1, 3)
        )
        after = f"<mergeCells>{merged}</mergeCells>" if merged else ""
        sheets[name] = sheet(rows(table), after=after)
    return xlsx(sheets)


def _write_xlsb(units: Sequence[tuple[str, Any]]) -> bytes:
    tables = _sheets(units)
    return xlsb(
        {
            name: [
                [float(cell) if isinstance(cell, int | float) else cell or "" for cell in row]
                or [""]
                for row in table
            ]
            or [[""]]
            for name, table in tables.items()
        }
    )


def _write_ods(units: Sequence[tuple[str, Any]]) -> bytes:
    written = ""
    for name, table in _sheets(units).items():
        lines = "".join(
            "<table:table-row>"
            + "".join(
                "<table:table-cell/>"
                if cell is None
                else f"<table:table-cell><text:p>{escape(str(cell))}</text:p></table:table-cell>"
                for cell in row or [None]
            )
            + "</table:table-row>"
            for row in table
        )
        written += f'<table:table table:name="{escape(name)}">{lines}</table:table>'
    return ods(written)


# Records and notebooks


def _draw_value(draw: Drawing) -> Any:
    return draw.pick(
        draw.name(), draw.sentence(), draw.rng.randint(1, 9), None, True, [draw.name(), 2],
        {draw.words(1): draw.name()}, [{draw.words(1): draw.name()}, {"a": draw.name()}],
        draw.prose() * 3, f"{draw.name()}\n\n{draw.words()}", [[1], [draw.name()]],
    )  # fmt: skip


def _draw_record(draw: Drawing) -> Any:
    return draw.pick(
        *[{draw.words(1): _draw_value(draw) for _ in range(draw.rng.randint(1, 4))}] * 5,
        _draw_value(draw),
    )


def _draw_json_line(draw: Drawing) -> str:
    return draw.pick(*[json.dumps(_draw_record(draw))] * 6, f"not JSON {draw.name()}", "")


def _draw_member(draw: Drawing) -> tuple[str, Any]:
    return f"{draw.words(1)}{draw.count}", _draw_value(draw)


def _write_object(units: Sequence[tuple[str, Any]]) -> bytes:
    return json.dumps(dict(units)).encode()


def _draw_cell(draw: Drawing) -> dict[str, Any]:
    outputs = [
        {"output_type": "stream", "text": draw.prose()},
        {"output_type": "display_data", "data": {"text/html": _draw_html(draw)}},
        {"output_type": "execute_result", "data": {"text/markdown": _draw_markdown(draw)}},
    ]
    code = "\n".join(_draw_line(draw) for _ in range(3))
    return draw.pick(
        {"cell_type": "markdown", "source": _draw_markdown(draw)},
        {"cell_type": "markdown", "source": f"{_draw_markdown(draw)}\n\n{_draw_markdown(draw)}"},
        {"cell_type": "code", "source": code, "outputs": [draw.pick(*outputs)]},
        {"cell_type": "raw", "source": draw.prose()},
    )


# Pages


def _draw_html(draw: Drawing) -> str:
    level, name = draw.rng.randint(1, 4), draw.name()
    rows = draw.grid()
    mark = draw.pick("td", "th")
    table = "".join(
        f"<tr>{''.join(f'<{mark}>{escape(cell)}</{mark}>' for cell in row)}</tr>" for row in rows
    )
    items = "".join(f"<li>{escape(draw.sentence())}</li>" for _ in range(draw.rng.randint(1, 3)))
    links = "".join(f"<li><a href='#{name}'>{escape(draw.title())}</a></li>" for _ in range(2))
    text = escape(draw.prose())
    return draw.pick(
        f"<p>{text}</p>", f"<p>{text}</p>", f"<h{level}>{escape(draw.title())}</h{level}>",
        f"<h{level} id='{name}'>{escape(draw.title())}</h{level}>", f"<table>{table}</table>",
        f"<table><thead>{table}</thead><tr><td>{name}</td></tr></table>", f"<ul>{items}</ul>",
        f"<ol>{items}</ol>", f"<ul>{links}</ul>", f"<nav><ul>{links}</ul></nav>", text,
        f"<pre>{text}</pre>", f"<blockquote><p>{text}</p></blockquote>", f"<div>{text}",
        f"<div class='toc'>{links}</div>", f"<p><b>{escape(draw.title())}</b></p>", f"</div>{text}",
        f"<p><a href='#n{name}'>[1]</a> {text}</p>", f"<p id='n{name}'>1 {text}</p>",
        f"<figure><img alt='{name}'><figcaption>{text}</figcaption></figure>", f"<hr>{text}<br>",
        f"<section><h{level}>{name}</h{level}><p>{text}</p></section>", f"<span>{text}</span>",
        f"<aside>{text}</aside>", f"<footer>{text}</footer>", f"<header>{text}</header>",
        f"<article><p>{text}</p></article>", f"<main><p>{text}</p></main>",
        f"<dl><dt>{name}</dt><dd>{text}</dd></dl>",
        f"<details><summary>{name}</summary>{text}</details>",
    )  # fmt: skip


def _write_html(units: Sequence[str]) -> bytes:
    body = "\n".join(units)
    return f"<!DOCTYPE html><html lang='en'><head></head><body>{body}</body></html>".encode()


def _draw_chapter(draw: Drawing) -> str:
    """Draw a page in XHTML, whose elements are all closed."""
    level, name, text = draw.rng.randint(1, 3), draw.name(), escape(draw.prose())
    title = escape(draw.title())
    heading = draw.pick(f"<h{level}>{title}</h{level}>", f"<p class='{title}'>{title}</p>", "")
    body = draw.pick(
        f"<p>{text}</p>", f"<p>{text}</p><p>{name}</p>", f"<ul><li>{text}</li></ul>",
        f"<p><a href='c1.xhtml'>{title}</a></p><p><a href='c2.xhtml'>{name}</a></p>",
        f"<table><tr><td>{name}</td><td>{text}</td></tr></table>",
        f"<section epub:type='toc'><p>{title}</p></section>",
        f"<aside epub:type='footnote'><p>{text}</p></aside>", f"<h2>{name}</h2><p>{text}</p>",
    )  # fmt: skip
    return heading + body


def _write_epub(units: Sequence[str]) -> bytes:
    pages = {f"c{number}.xhtml": page(body) for number, body in enumerate(units)}
    toc = [(1, f"Chapter {number}", name) for number, name in enumerate(pages)]
    return Book(pages, toc if len(units[0]) % 2 else ()).data()


# Documents of office programs


def _draw_docx(draw: Drawing) -> str:
    text, name, title = escape(draw.prose()), draw.name(), escape(draw.title())
    level = draw.rng.randint(1, 4)
    grid = [[escape(cell) or " " for cell in row] for row in draw.grid()]
    return draw.pick(
        word.p(text), word.p(text), word.p(text), word.p(title, style=f"Heading{level}"),
        word.p(title, style="Title"), word.p(title), word.table(*grid), word.item(text),
        word.item(name, 1), word.p(title, style="TOC1"), word.p(text, style="Quote"),
        word.p(name, style="Caption"),
        word.p(word.r(title, "<w:b/>")), word.p(word.text_box(word.p(name))), word.p(""),
        word.p(word.field("TOC", word.r(title))), word.p(word.r(name) + word.note_mark(1)),
        word.p(f'<w:hyperlink w:anchor="_Toc1">{word.r(title)}</w:hyperlink>'),
    )  # fmt: skip


def _write_docx(units: Sequence[str]) -> bytes:
    outline = '<w:pPr><w:outlineLvl w:val="{}"/></w:pPr>'
    styles = "".join(
        word.style(f"Heading{level}", f"heading {level}", inner=outline.format(level - 1))
        for level in range(1, 5)
    )
    numbering = word.abstract(word.level(0, "decimal", "%1."), word.level(1, "bullet", "•"))
    return word.docx(
        "".join(units),
        styles=styles + word.style("Title") + word.style("TOC1", "toc 1"),
        numbering=numbering + word.num(1),
        footnotes=word.note(1, "A note."),
    )


def _draw_odt(draw: Drawing) -> str:
    text, name, title = escape(draw.prose()), draw.name(), escape(draw.title())
    grid = [[escape(cell) or " " for cell in row] for row in draw.grid()]
    return draw.pick(
        odf_maker.p(text), odf_maker.p(text), odf_maker.h(title, draw.rng.randint(1, 4)),
        odf_maker.h(name, draw.rng.randint(1, 4)), odf_maker.p(title), odf_maker.p(title, "Title"),
        odf_maker.table(*grid, header=draw.pick(0, 1)), odf_maker.ul(text, name), odf_maker.p(""),
        "<text:table-of-content><text:index-body>"
        f"{odf_maker.p(title)}</text:index-body></text:table-of-content>",
        odf_maker.p(name + odf_maker.note(text)), odf_maker.p(odf_maker.box(name)),
    )  # fmt: skip


def _draw_slide(draw: Drawing) -> str:
    text, grid = draw.prose(), [[cell or " " for cell in row] for row in draw.grid()]
    heading = draw.pick(pptx_maker.title(draw.title()), pptx_maker.title(draw.name()), "")
    lines = "".join(pptx_maker.line(draw.sentence(), level=draw.pick(0, 0, 1)) for _ in range(3))
    body = draw.pick(
        pptx_maker.shape(text), pptx_maker.shape(lines, index=1), pptx_maker.table(*grid), ""
    )
    return heading + body + draw.pick("", pptx_maker.shape(draw.words()))


def _draw_odp(draw: Drawing) -> str:
    title = draw.pick(odf_maker.box(escape(draw.title()), "title"), "")
    body = odf_maker.box(escape(draw.prose()), draw.pick("outline", ""))
    return f"<draw:page>{title}{body}</draw:page>"


def _write_odp(units: Sequence[str]) -> bytes:
    return odf_maker.odf("".join(units), kind="presentation")


def _draw_rtf(draw: Drawing) -> str:
    text, name, title = draw.prose().replace("\n", " "), draw.name(), draw.title()
    style = draw.pick(1, 2, 3, 4, 6)
    return draw.pick(
        rf"\pard {text}\par", rf"\pard {text}\par", rf"\pard\s{style} {title}\par",
        rf"\pard {{\b {title}}}\par",
        rf"\trowd\cellx100\cellx200\intbl {name}\cell {text}\cell\row",
        rf"\trowd\trhdr\cellx100\intbl {name}\cell\row", rf"\pard{{\listtext 1.}}{text}\par",
        rf"\pard {name}{{\footnote {text}}}\par", rf"\pard {name}\page {text}\par",
        rf"\pard {title}\par", rf"\pard {text}\line {name}\sect",
    )  # fmt: skip


def _write_rtf(units: Sequence[str]) -> bytes:
    styles = (
        r"{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2\outlinelevel1 heading 2;}"
        r"{\s3 Title;}{\s4 Quote;}{\s6 toc 1;}}"
    )
    body = "\n".join(units)
    return (r"{\rtf1\ansi\ansicpg1252\uc1" + styles + body + "}").encode("cp1252", "replace")


# Messages


def _draw_mail(draw: Drawing) -> str:
    return draw.pick(
        _draw_text(draw), draw.prose(), f"> {draw.sentence()}\n> {draw.sentence()}",
        f">> {draw.name()}", f"On Monday, {draw.name()} wrote:", "-- ", f"-- \n{draw.name()}",
        f"From: {draw.name()}\nSent: today\nSubject: {draw.words()}",
        "-----Original Message-----", f"________________\n{draw.name()}", draw.sentence(),
        f"Am 3. Mai schrieb {draw.name()}:", f"Best wishes,\n{draw.name()}",
    )  # fmt: skip


def _write_mail(units: Sequence[str]) -> bytes:
    head = "From: a@example.org\nTo: b@example.org\nSubject: The lamp\nMIME-Version: 1.0\n"
    body = "\n".join(units)
    return f"{head}Content-Type: text/plain; charset=utf-8\n\n{body}\n".encode()


def _write_html_mail(units: Sequence[str]) -> bytes:
    head = b"From: a@example.org\nSubject: The lamp\nMIME-Version: 1.0\n"
    return head + b"Content-Type: text/html; charset=utf-8\n\n" + _write_html(units)


# PDF


def _draw_page(draw: Drawing) -> list[tuple[str, float, float]]:
    """Draw a page as lines: text, size, and the space above."""
    lines: list[tuple[str, float, float]] = []
    for _ in range(draw.rng.randint(1, 4)):
        if draw.rng.random() < 0.4:
            lines.append((draw.title(), draw.pick(10, 12, 16), 20))
        texts = draw.prose()[:900].split()
        lines += [
            (" ".join(texts[start : start + 12]), 10, 12 if start else 20)
            for start in range(0, len(texts), 12)
        ]
    return lines


def _write_pdf(units: Sequence[list[tuple[str, float, float]]]) -> bytes:
    pages: list[Page] = []
    for number, lines in enumerate(units, 1):
        words, height = [Words(72, 760, f"The Lamp {number}")] * (len(units[0]) % 2), 730.0
        for text, size, space in lines:
            height -= space
            words = [*words, Words(72, height, text, size)]
        pages.append(Page(words))
    return make_pdf(pages)


FORMATS: dict[str, FileFormat] = {
    form.name: form
    for form in (
        FileFormat("a.txt", _draw_text, _join("\n\n")),
        FileFormat("a.md", _draw_markdown, _join("\n\n")),
        FileFormat("a.py", _draw_line, _join("\n"), 14),
        FileFormat("plain.csv", _draw_delimited, _join("\n"), starts=("sep=;", "sep=,")),
        FileFormat("a.csv", _draw_quoted, _join("\n"), in_order=False),
        FileFormat("a.tsv", _draw_tabs, _join("\n")),
        FileFormat("a.xlsx", _draw_row, _write_xlsx, 12, in_order=False),
        FileFormat("narrow.xlsx", _draw_narrow_row, _write_xlsx, 12),
        FileFormat("a.xlsb", _draw_row, _write_xlsb, 12, in_order=False),
        FileFormat("a.ods", _draw_row, _write_ods, 12, in_order=False),
        FileFormat("list.json", _draw_record, lambda units: json.dumps(units).encode()),
        FileFormat("object.json", _draw_member, _write_object, in_order=False),
        FileFormat("lines.json", _draw_json_line, _join("\n")),
        FileFormat("a.jsonl", _draw_json_line, _join("\n")),
        FileFormat("a.ipynb", _draw_cell, lambda units: json.dumps({"cells": units}).encode()),
        FileFormat("a.html", _draw_html, _write_html, in_order=False),
        FileFormat("a.epub", _draw_chapter, _write_epub, 5),
        FileFormat("a.docx", _draw_docx, _write_docx),
        FileFormat("a.odt", _draw_odt, lambda units: odf_maker.odf("".join(units))),
        FileFormat("a.pptx", _draw_slide, lambda units: pptx_maker.pptx(*units), 5),
        FileFormat("a.odp", _draw_odp, _write_odp, 5),
        FileFormat("a.rtf", _draw_rtf, _write_rtf),
        FileFormat("a.eml", _draw_mail, _write_mail, in_order=False),
        FileFormat("html.eml", _draw_html, _write_html_mail, in_order=False),
        FileFormat("a.pdf", _draw_page, _write_pdf, 4, in_order=False),
    )
}
