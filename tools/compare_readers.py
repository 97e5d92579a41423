"""Which words of documents other readers find and our loaders do not, for a folder of files.

    python -m tools.compare_readers FOLDER [--ending xlsx] [--reader libreoffice] [--show 12]

Every file whose ending has readers in `READERS` is read by our loader, in this process, and by the
others. Words are compared by count, in any order. `--python` names an interpreter that has
the other libraries, if this one has not; LibreOffice and pandoc are looked for on the path. A file
that a reader cannot read in two minutes counts as failed.

To add a format, add a line to `READERS`, and a function if it needs another library.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

Reader = Callable[[Path], str]
LONGEST = 120
"""Seconds that another reader may take for a file."""
_MARK = b"\n=== text ===\n"
_ALL_SHEETS = "csv:Text - txt - csv (StarCalc):32,,76,1,,0,false,true,false,false,false,-1"
"""Every sheet as a CSV file in UTF-8, with spaces between cells and the cells as they are shown."""


def by_libreoffice(path: Path) -> str:
    """Return what LibreOffice exports: sheets as CSV, slides through PDF, others as text."""
    with tempfile.TemporaryDirectory() as folder:
        ending = path.suffix.lower()
        if ending in _SHEETS:
            target = _ALL_SHEETS
        else:
            target = "pdf" if ending in _SLIDES else "txt:Text (encoded):UTF8"
        # A separate profile, because LibreOffice runs once for each.
        profile = f"-env:UserInstallation={(Path(folder) / 'profile').as_uri()}"
        out = Path(folder) / "out"
        _run("soffice", profile, "--headless", "--convert-to", target, "--outdir", out, path)
        texts = [
            _run("pdftotext", found, "-") if found.suffix == ".pdf" else found.read_text("utf-8")
            for found in sorted(out.iterdir())
        ]
    if not texts:
        raise ValueError("LibreOffice wrote nothing")
    return "\n".join(texts)


def by_pandoc(path: Path) -> str:
    """Return pandoc's plain text."""
    return _run("pandoc", "--to=plain", "--wrap=none", path)


def by_pandas(path: Path) -> str:
    """Return the cells of a table as pandas reads them, which takes commas as delimiters."""
    table = _library("pandas").read_csv(path, header=None, dtype=str, keep_default_na=False)
    return "\n".join(" ".join(row) for row in table.itertuples(index=False))


def by_markitdown(path: Path) -> str:
    """Return markitdown's Markdown."""
    return _library("markitdown").MarkItDown().convert(str(path)).text_content


def by_kreuzberg(path: Path) -> str:
    """Return kreuzberg's text."""
    library = _library("kreuzberg")
    config = library.ExtractionConfig(use_cache=False, output_format="plain")
    return library.extract_file_sync(str(path), config=config).content


def by_unstructured(path: Path) -> str:
    """Return the text of the elements that unstructured finds."""
    ending = path.suffix.lower().removeprefix(".")
    kind = {"eml": "email", "xls": "xlsx", "xlsm": "xlsx"}.get(ending, ending)
    partition = getattr(_library(f"unstructured.partition.{kind}"), f"partition_{kind}")
    return "\n\n".join(str(element) for element in partition(str(path)))


def by_openpyxl(path: Path) -> str:
    """Return the values of all cells of the visible sheets."""
    book = _library("openpyxl").load_workbook(path, data_only=True)
    rows = (
        row
        for sheet in book.worksheets
        if sheet.sheet_state == "visible"
        for row in sheet.iter_rows(values_only=True)
    )
    return "\n".join(" ".join(str(cell) for cell in row if cell is not None) for row in rows)


def by_xlrd(path: Path) -> str:
    """Return the values of all cells of the visible sheets of an old workbook."""
    book = _library("xlrd").open_workbook(path, formatting_info=False)
    sheets = [sheet for sheet in book.sheets() if not sheet.visibility]
    return "\n".join(
        " ".join(map(str, sheet.row_values(row))) for sheet in sheets for row in range(sheet.nrows)
    )


def by_python_pptx(path: Path) -> str:
    """Return the text of the shapes, tables and notes of all slides."""
    texts: list[str] = []
    for slide in _library("pptx").Presentation(path).slides:
        for shape in slide.shapes:
            texts += [shape.text_frame.text] if shape.has_text_frame else []
            rows = shape.table.rows if getattr(shape, "has_table", False) else ()
            texts += [cell.text for row in rows for cell in row.cells]
        if slide.has_notes_slide:
            texts.append(slide.notes_slide.notes_text_frame.text)
    return "\n".join(texts)


def by_striprtf(path: Path) -> str:
    """Return striprtf's text."""
    return _library("striprtf.striprtf").rtf_to_text(path.read_text("latin-1"), errors="ignore")


_SHEETS = frozenset({".xlsx", ".xlsm", ".xltx", ".xlsb", ".xls", ".ods"})
_SLIDES = frozenset({".pptx", ".odp"})
_LIGHT = {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg, "unstructured": by_unstructured}
_WRITING = {"libreoffice": by_libreoffice, "pandoc": by_pandoc, "kreuzberg": by_kreuzberg}
_SHEET = {"libreoffice": by_libreoffice, "openpyxl": by_openpyxl, **_LIGHT}
READERS: dict[str, dict[str, Reader]] = {
    "docx": {**_WRITING, **_LIGHT},
    "epub": {"pandoc": by_pandoc, "markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "xlsx": _SHEET,
    "xlsm": _SHEET,
    "xltx": _SHEET,
    "xlsb": {"libreoffice": by_libreoffice, "kreuzberg": by_kreuzberg},
    "xls": {"libreoffice": by_libreoffice, "xlrd": by_xlrd, **_LIGHT},
    "ods": {"libreoffice": by_libreoffice, "kreuzberg": by_kreuzberg},
    "pptx": {"libreoffice": by_libreoffice, "python-pptx": by_python_pptx, **_LIGHT},
    "odp": {"libreoffice": by_libreoffice, "kreuzberg": by_kreuzberg},
    "odt": {**_WRITING, "unstructured": by_unstructured},
    "rtf": {**_WRITING, "striprtf": by_striprtf},
    "eml": _LIGHT,
    "ipynb": {"pandoc": by_pandoc, "markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "csv": {"pandas": by_pandas, **_LIGHT},
    "tsv": {"kreuzberg": by_kreuzberg, "unstructured": by_unstructured},
    "json": {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "jsonl": {"markitdown": by_markitdown},
}
"""The readers of each ending."""


@dataclass(slots=True)
class Tally:
    """What one reader found in all files of an ending, beside what we found in the same files."""

    files: int = 0
    failed: int = 0
    words: int = 0
    lacking: int = 0
    more: int = 0


def main() -> None:
    """Compare, or, if asked by another interpreter, only read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files, or folders that are searched")
    parser.add_argument("--ending", action="append", help="only files with this ending")
    parser.add_argument("--reader", action="append", help="only these readers")
    parser.add_argument("--python", default=sys.executable, help="where the libraries are")
    parser.add_argument("--show", type=int, default=12, help="how many lacking words of a file")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        path = given.paths[0]
        text = READERS[path.suffix.lower().removeprefix(".")][given.read](path)
        sys.stdout.buffer.write(_MARK + json.dumps(text).encode())
        return
    tallies: dict[tuple[str, str], Tally] = {}
    for path in _files(given.paths, given.ending):
        _compare_file(path, given, tallies)
    print(f"\n{'ending':8}{'reader':14}files failed    words  we lack  we have more")
    for (ending, name), tally in sorted(tallies.items()):
        print(
            f"{ending:8}{name:14}{tally.files:5}{tally.failed:7}{tally.words:9}"
            f"{tally.lacking:9}{tally.more:14}"
        )


def _files(paths: Sequence[Path], endings: Sequence[str] | None) -> Iterator[Path]:
    for path in paths:
        for found in sorted(path.rglob("*")) if path.is_dir() else [path]:
            ending = found.suffix.lower().removeprefix(".")
            if found.is_file() and ending in READERS and (not endings or ending in endings):
                yield found


def _compare_file(path: Path, given: Any, tallies: dict[tuple[str, str], Tally]) -> None:
    # Imported here, because the interpreter with the other libraries does not have these.
    from tests.support.word_diff import words_of

    from truespan.errors import SourceRefused
    from truespan.parsing import load

    try:
        blocks = load(path.name, path.read_bytes()).blocks
        ours, note = "\n".join(block.text for block in blocks), ""
    except SourceRefused as refusal:
        ours, note = "", f" (refused: {refusal.code})"
    ending = path.suffix.lower().removeprefix(".")
    mine = Counter(words_of(ours.replace("|", " ")))
    for name in READERS[ending]:
        if given.reader and name not in given.reader:
            continue
        tally = tallies.setdefault((ending, name), Tally())
        tally.files += 1
        text = _read_elsewhere(given.python, name, path)
        if text is None:
            tally.failed += 1
            continue
        theirs = Counter(words_of(text.replace("|", " ")))
        lacking, more = theirs - mine, mine - theirs
        tally.words += theirs.total()
        tally.lacking += lacking.total()
        tally.more += more.total()
        if lacking or note:
            words = " ".join(list(lacking)[: given.show])
            print(f"{path}{note}: {name} has {lacking.total()} more: {words}", flush=True)


def _read_elsewhere(python: str, name: str, path: Path) -> str | None:
    command = [python, __file__, "--read", name, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LONGEST, check=True)
        # Some libraries print to the standard output, but never after the end.
        return json.loads(done.stdout[done.stdout.index(_MARK) + len(_MARK) :])
    except (subprocess.SubprocessError, ValueError) as error:
        said = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").split("\n")
        reason = next((line for line in reversed(said) if line.strip()), type(error).__name__)
        print(f"{path}: {name} failed: {reason[:200]}", flush=True)
        return None


def _run(program: str, *arguments: object) -> str:
    found = shutil.which(program)
    if found is None:
        raise FileNotFoundError(program)
    command = [found, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=LONGEST, check=True)
    return done.stdout.decode("utf-8", "replace")


def _library(name: str) -> Any:
    return import_module(name)


if __name__ == "__main__":
    main()
