"""Rebuild the passages of stretches from checkouts of the repositories that they name.

python -m training.passages --stretches STRETCHES.jsonl.xz --checkouts FOLDER --out OUT.jsonl

FOLDER has a checkout or a git directory at OWNER/NAME for each repository. A document is cut into
pieces: paragraphs, lines and sentences, each with the white space before it. Pieces that follow
each other are a passage if their SHA-256 is that of the passage, so no other rule is needed.

The stretches of a table say which columns and rows they show: `columns` (their numbers, in the
order shown), `start` and `step` (every `step`-th row from `start`), and `header` (the names of the
columns stand in a line above the rows of each passage, else before each value).
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from training.questions import hash_text, read_lines

MAX_LENGTH = 2_000

Piece = tuple[str, str]
"""The white space before a piece of text, and the text."""

_SENTENCE = re.compile(r"(?<=[.;!?…”’\"']) (?=\S)")
_LINK = re.compile(r"!\[[^\]]*\]\([^)]*\)|\[([^\]\[]*)\](?:\([^)]*\)|\[[^\]\[]*\])")
_EMPHASIS = re.compile(
    r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])|(?<!\w)_(?=\S)([^_\n]+?)(?<=\S)_(?!\w)"
)
_TABLE_RULE = re.compile(r"(?=.*\|)\s*\|?[\s:|-]*--[\s:|-]*\|?\s*")
_DIRECTIVE = re.compile(
    r"(?m)^\s*\.\. _[^\n]*:\s*[^\n]*$|^\[copywiki[^\n]*$|^\s+:[\w-]+:[^\n]*$"
    r"|^\s*\.\. (?:image|figure|code(?:-block)?|youtube|vimeo|toctree|raw|contents|include"
    r"|only|grid|(?:csv-|list-)?table|tabs?|dropdown|parsed-literal|callout|annotations|div|video|rubric)"
    r"::[^\n]*$|^([=\-~^\"#*+.'])\1{2,}[ \t]*$|^\s*\.\. [\w-]+::[ ]*"
)
_ROLE = re.compile(r":[\w:-]+:`([^`<]*?)(?:\s*<[^`>]*>)?`|`([^`<]*?)\s*<[^`>]*>`__?")
_BLOCK = re.compile(r"<(p|h\d|td|li|dt|dd)\b[^>]*>(.*?)</\1>", re.DOTALL)
_ROW = re.compile(r"<(tr|p|h\d)\b[^>]*>(.*?)</\1>", re.DOTALL)
_CELL = re.compile(r"<td\b[^>]*?(?:/>|>(.*?)</td>)", re.DOTALL)
_STAGE = re.compile(r'<i epub:type="z3998:stage-direction">(.*?)</i>', re.DOTALL)


def find_passages(
    pieces: Sequence[Piece], digests: Collection[str], header: str = ""
) -> dict[str, str]:
    """Return the passages that have one of these digests, by digest."""
    found = {}
    for first in range(len(pieces)):
        text = header + pieces[first][1]
        for space, more in [("", ""), *pieces[first + 1 :]]:
            text += space + more
            if len(text) > MAX_LENGTH:
                break
            for passage in {text, text.strip()}:
                if (digest := hash_text(passage)) in digests:
                    found[digest] = passage
    return found


def cut_document(path: str, text: str, form: str, spaced: bool = False) -> list[Piece]:
    """Cut a document into pieces, by the ending of its name.

    `spaced` keeps the indentation of paragraphs, and an empty line for the rule of a table.
    """
    text = text.replace("\r\n", "\n")
    match path.rpartition(".")[2]:
        case "xhtml" if form == "play":
            return _split(_play_lines(text), "\n")
        case "xhtml":
            return _split((_plain(block[2]) for block in _BLOCK.finditer(_body(text))), "\n\n")
        case "md" | "html":
            title = re.match(r"---\n(?:.*\n)*?title:\s*\"?(.*?)\"?\s*\n", text)
            head = [("\n\n", title[1])] if title else []
            return head + _split_lines(_clean_markdown(text, spaced), indented=spaced)
        case "rst":
            return _split_lines(_clean_rst(text), indented=True)
        case "json":
            return [("\n", f"{name}: {value}") for name, value in _read_fields(json.loads(text))]
        case _ if form == "chat log":
            lines = (line.rstrip() for line in text.split("\n"))
            return [("\n", line) for line in lines if line and not line.startswith("===")]
        case "txt":
            blocks = re.split(r"\n\s*\n", text.replace("_", ""))
            return _split((" ".join(block.split()) for block in blocks), "\n\n")
        case _:
            return _split_lines("\n".join(map(str.rstrip, text.split("\n"))), indented=spaced)


def _read_fields(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Return the fields of a filled-in form, each with the names of what it stands in."""
    if isinstance(value, dict):
        for key, field in value.items():
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key).lower()
            yield from _read_fields(field, f"{name}, {words}".removeprefix(", "))
    elif isinstance(value, list):
        for number, field in enumerate(value, start=1):
            yield from _read_fields(field, f"{name} {number}")
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"
    else:
        yield name, str(value)


def cut_table(text: str, table: Mapping[str, Any]) -> tuple[str, list[Piece]]:
    """Return the line above each passage of a table (or nothing), and its rows."""
    rows = [
        [" ".join(cell.split()) for cell in row] for row in csv.reader(io.StringIO(text)) if row
    ]
    names, *rows = ([row[column] for column in table["columns"]] for row in rows)
    rows = rows[table["start"] :: table["step"]]
    if table["header"]:
        return " | ".join(names) + "\n", [("\n", " | ".join(row)) for row in rows]
    pairs = ((f"{name}: {cell}" for name, cell in zip(names, row, strict=True)) for row in rows)
    return "", [("\n", " | ".join(row)) for row in pairs]


def _body(text: str) -> str:
    return text.partition("<body")[2].partition(">")[2]


def _plain(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).replace("\u2060", "").split())


def _play_lines(text: str) -> Iterator[str]:
    """Return a line for each speech, with its speaker; stage directions are in parentheses."""
    for block in _ROW.finditer(_body(text)):
        cells = _CELL.findall(block[2]) if block[1] == "tr" else [block[2]]
        yield ": ".join(filter(None, (_plain(_STAGE.sub(r"(\1)", cell)) for cell in cells)))


def _clean_markdown(text: str, spaced: bool) -> str:
    text = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^[ ]*:::.*\n|[ ]?\[@[^\]]*\]|[ ]\{\.[^}]*\}", "", text)
    text = re.sub(r"<[^>\n]+>", "", _LINK.sub(r"\1", text))
    text = re.sub(r"\{[:#][^}]*\}|\*\*|__|`", "", text)
    text = _EMPHASIS.sub(lambda found: found[1] or found[2], text)
    text = re.sub(r"\\([.\-_*#\[\]()+!])", r"\1", text)
    text = html.unescape(text).replace("\xa0", " ")
    text = re.sub(r"(?m)^#+\s*(.*?)\s*#*$", r"\n\1\n", text)
    text = re.sub(r"(?m)\n[-=]{3,}[ \t]*$", "\n", text)
    return "\n".join(_clean_rows(map(str.rstrip, text.split("\n")), spaced))


def _clean_rows(lines: Iterable[str], spaced: bool) -> Iterator[str]:
    """Leave the rules of tables out, and the bars at both ends of a row."""
    for line in lines:
        if _TABLE_RULE.fullmatch(line):
            if spaced:
                yield ""
            continue
        if line.lstrip().startswith("|"):
            line = " | ".join(cell.strip() for cell in line.strip().strip("|").split("|"))
            if not line.strip(" |"):
                continue
        yield line


def _clean_rst(text: str) -> str:
    text = _DIRECTIVE.sub("", text)
    text = _ROLE.sub(lambda found: found[1] or found[2] or "", text).replace("**", "")
    text = re.sub(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])", r"\1", text)
    text = text.replace("`", "").replace("\xa0", " ")
    return "\n".join(map(str.rstrip, text.split("\n")))


def _split_lines(text: str, indented: bool = False) -> list[Piece]:
    """Split a text into sentences; the first of a paragraph has an empty line before it."""
    pieces: list[Piece] = []
    for block in re.split(r"\n\s*\n", text):
        for number, line in enumerate(block.strip("\n").split("\n")):
            if line.strip():
                line = line if number or indented else line.strip()
                pieces += _split([line], "\n" if number else "\n\n")
    return pieces


def _split(texts: Iterable[str], space: str) -> list[Piece]:
    return [
        (" " if number else space, sentence)
        for text in texts
        if text
        for number, sentence in enumerate(_SENTENCE.split(text))
    ]


def select_files(path: str, names: Iterable[str]) -> list[str]:
    """Return the files that the path of a stretch names.

    Beside a file or folder it can be `a; b` (whatever starts with one of them) or `folder (d to k)`
    (roughly these letters, so all files of the folder are read).
    """
    parts = re.sub(r" \(\w(?: to \w)?\)$", "", path).split("; ")
    pattern = "|".join(rf"{re.escape(part)}(?:[./].*)?" for part in parts)
    return [name for name in names if re.fullmatch(pattern, name)]


def _run_git(checkout: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(checkout), *arguments], check=True, capture_output=True
    ).stdout


def _read_file(checkout: Path, commit: str, name: str) -> str:
    data = _run_git(checkout, "show", f"{commit}:{name}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def read_pieces(checkout: Path, commit: str, path: str, form: str) -> Iterator[list[Piece]]:
    """Read the files of a stretch: as they are, spaced, and with tidy lines.

    The last way is that of passages which were cut anew: white space is collapsed, and a table
    has no rules and no bars at the ends of its rows.
    """
    names = _run_git(checkout, "ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0")
    texts = {name: _read_file(checkout, commit, name) for name in select_files(path, names)}
    pieces = [piece for name in texts for piece in cut_document(name, texts[name], form)]
    yield pieces
    yield [piece for name in texts for piece in cut_document(name, texts[name], form, True)]
    tidy = ((space, _tidy(text)) for space, text in pieces)
    yield [(space, text) for space, text in tidy if text]


def _tidy(text: str) -> str:
    text = " ".join(text.split())
    return "" if re.fullmatch(r"[-+=]+", text) else text.strip("|").strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the stretches with the passages that were found; name those that lack some."""
    parser = argparse.ArgumentParser(prog="python -m training.passages", description=__doc__)
    parser.add_argument("--stretches", required=True, type=Path)
    parser.add_argument("--checkouts", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args(arguments)
    stretches = list(read_lines(options.stretches))
    missing = {(s["source"], s["commit"], s["path"], s["form"]): set[str]() for s in stretches}
    tables: dict[tuple[str, str, str, str], Mapping[str, Any]] = {}
    for stretch in stretches:
        document = stretch["source"], stretch["commit"], stretch["path"], stretch["form"]
        missing[document].update(stretch["sha256"])
        if table := stretch.pop("table", None):
            tables[document] = table
    found: dict[str, str] = {}
    for document, digests in missing.items():
        source, commit, path, form = document
        checkout = options.checkouts / source
        if not checkout.exists():
            print(f"There is no checkout of {source}.")
            continue
        if document in tables:
            header, rows = cut_table(_read_file(checkout, commit, path), tables[document])
            found |= find_passages(rows, digests, header)
            continue
        for pieces in read_pieces(checkout, commit, path, form):
            if digests - found.keys():
                found |= find_passages(pieces, digests - found.keys())
    with options.out.open("w", encoding="utf-8") as out:
        for stretch in stretches:
            digests = stretch.pop("sha256")
            stretch["passages"] = [found[digest] for digest in digests if digest in found]
            if absent := len(digests) - len(stretch["passages"]):
                print(f"stretch {stretch['id']}: {absent} of {len(digests)} not found")
            if stretch["passages"]:
                out.write(json.dumps(stretch, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
