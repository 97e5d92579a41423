"""Changes small documents at random and has the real child parse them, until time is over.

    python -m tools.fuzz_parsers --minutes 5 --seed 1
    python -m tools.fuzz_parsers --case 1:docx:4711 --save broken.docx

A case is named by the seed, the format and a number, and can be made again from that name alone. A
finding is a document at which a loader crashed, or ran into a limit although it is small.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic
from typing import NamedTuple

import lxml.etree as etree
from tests.support.hostile.zip_maker import archive, members_of

from tools import fuzz_seeds
from truespan.errors import SourceRefused
from truespan.parsing.sandbox.client import ChildParser
from truespan.types.source import DocumentOptions, ParseOptions

FORMATS = {
    "docx": "docx",
    "pptx": "pptx",
    "odt": "odt",
    "rtf": "rtf",
    "epub": "epub",
    "xlsx": "xlsx",
    "ods": "ods",
    "pdf": "pdf",
    "html": "html",
    "markdown": "md",
    "text": "txt",
    "csv": "csv",
    "json": "json",
    "jsonl": "jsonl",
    "zip": "zip",
    "notebook": "ipynb",
    "python": "py",
    "script": "ts",
    "email": "eml",
    "mailbox": "mbox",
}
HOLDERS = frozenset({"csv", "json", "jsonl", "zip"})
HELD = DocumentOptions.from_arguments(fields={"text": "text", "id": "id", "metadata": ["text"]})
FOUND = 1
_THREADS = 2
_BATCH = 60

_TAG = re.compile(rb"<[^<>]{1,300}>")
_NUMBER = re.compile(rb"-?\d+")
_TOKEN = re.compile(rb"/[A-Za-z]+|\d+ 0 R|<<|>>|\[|\]|[A-Za-z]+|-?\d+(?:\.\d+)?")
_VALUE = re.compile(rb'"[^"]{0,200}"')
_NUMBERS = (b"0", b"-1", b"1", b"7", b"255", b"65536", b"2147483647", b"-2147483648",
            b"99999999999", b"1e9", b"NaN", b"", b"0.5", b"\xd9\xa3")  # fmt: skip
_STRINGS = (b"\x00", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
            b"&#0;", b"&x;", b"]]>", b"<!--", b"-->", b"<![CDATA[", b"%00", b"../", b"\r",
            b"\xe2\x80\xa8", b"\xcc\x81", b"\xe2\x80\xae", b"[FIGURE:", b"<x>", b"</x>",
            b'"', b"'")  # fmt: skip


class Case(NamedTuple):
    """One changed document, by what it can be made from again."""

    seed: int
    format: str
    number: int

    def __str__(self) -> str:
        return f"{self.seed}:{self.format}:{self.number}"

    def document(self) -> tuple[str, bytes]:
        """Return the name and the bytes of the document."""
        random = Random(str(self))
        return f"a.{FORMATS[self.format]}", _made(self.format, random)


def _made(format: str, random: Random) -> bytes:
    match format:
        case "docx":
            return _archive(fuzz_seeds.docx_members(), random)
        case "pptx":
            return _archive(fuzz_seeds.pptx_members(), random)
        case "odt":
            return _archive(fuzz_seeds.odt_members(), random)
        case "rtf":
            return _changed(random.choice(_files(fuzz_seeds.rtf_files)), random)
        case "epub":
            return _archive(fuzz_seeds.epub_members(), random)
        case "xlsx" | "ods":
            return _archive(fuzz_seeds.sheet_members(format), random)
        case "pdf":
            return _changed(random.choice(_files(fuzz_seeds.pdf_files)), random)
        case "html":
            return _changed(random.choice(_files(fuzz_seeds.html_files)), random)
        case "markdown":
            return _changed(random.choice(_files(fuzz_seeds.markdown_files)), random)
        case "csv":
            return _changed(random.choice(_files(fuzz_seeds.csv_files)), random)
        case "json" | "jsonl":
            return _changed(random.choice(_files(fuzz_seeds.json_files)), random)
        case "zip":
            return _archive(fuzz_seeds.zip_members(), random)
        case "notebook":
            return _changed(random.choice(_files(fuzz_seeds.notebook_files)), random)
        case "python" | "script":
            return _changed(random.choice(_files(fuzz_seeds.code_files)), random)
        case "email" | "mailbox":
            return _changed(random.choice(_files(fuzz_seeds.mail_files)), random)
    return _changed(random.choice(_files(fuzz_seeds.text_files)), random)


_made_files: dict[str, list[bytes]] = {}


def _files(make: Callable[[], list[bytes]]) -> list[bytes]:
    """Return the files that a function makes, which are always the same."""
    return _made_files.setdefault(make.__name__, make())


def _archive(parts: dict[str, bytes], random: Random) -> bytes:
    """Change some members and pack them again; now and then, change the archive instead."""
    if random.random() < 0.15:
        return _changed(archive(members_of(parts)), random)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        name = random.choice(sorted(parts))
        chosen = random.random()
        if chosen < 0.05:
            del parts[name]
        elif chosen < 0.1:
            parts[name] = parts[random.choice(sorted(parts))]
        elif chosen < 0.6:
            parts[name] = _changed_tree(parts[name], random)
        else:
            parts[name] = _changed(parts[name], random)
        if not parts:
            break
    return archive(members_of(parts))


def _changed_tree(content: bytes, random: Random) -> bytes:
    """Change a part as a tree, so that it stays well-formed and gets past the parser."""
    try:
        root = etree.fromstring(content)
    except etree.XMLSyntaxError:
        return _changed(content, random)
    for _ in range(random.choice((1, 2, 4, 8, 20))):
        elements = list(root.iter("*"))
        _change_element(random.choice(elements), elements, random)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


def _change_element(
    element: etree._Element, elements: Sequence[etree._Element], random: Random
) -> None:
    parent, other = element.getparent(), random.choice(elements)
    match random.randrange(6):
        case 0 if parent is not None:
            parent.remove(element)
        case 1:
            other.append(deepcopy(element))
        case 2 if parent is not None:
            for _ in range(random.choice((1, 5, 50))):
                parent.append(deepcopy(element))
        case 3:
            element.tag = other.tag
        case 4 if element.attrib:
            name = random.choice(sorted(element.attrib))
            values = [value for one in elements for value in one.attrib.values()]
            wrong = random.choice(_NUMBERS).decode()
            element.attrib[name] = random.choice([wrong, *random.choices(values, k=2)])
        case 5:
            element.text = random.choice(("", " ", "\u202e", "x" * 5000, "[FIGURE:x]", "\u0301"))


Change = Callable[[bytes, Random], bytes]


def _changed(content: bytes, random: Random) -> bytes:
    for _ in range(random.choice((1, 1, 2, 4, 8, 16))):
        content = random.choice(CHANGES)(content, random)
    return content


def _place(content: bytes, random: Random) -> int:
    return random.randrange(len(content) + 1)


def _range(content: bytes, random: Random) -> slice:
    start = _place(content, random)
    return slice(start, start + random.choice((1, 4, 16, 64, 256, 1024)))


def flip_bit(content: bytes, random: Random) -> bytes:
    if not content:
        return content
    place = random.randrange(len(content))
    flipped = content[place] ^ (1 << random.randrange(8))
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def insert(content: bytes, random: Random) -> bytes:
    place = _place(content, random)
    return content[:place] + random.choice(_STRINGS) + content[place:]


def delete(content: bytes, random: Random) -> bytes:
    chosen = _range(content, random)
    return content[: chosen.start] + content[chosen.stop :]


def repeat(content: bytes, random: Random) -> bytes:
    chosen = _range(content, random)
    times = random.choice((1, 2, 10, 100))
    return content[: chosen.start] + content[chosen] * times + content[chosen.start :]


def splice(content: bytes, random: Random) -> bytes:
    place, chosen = _place(content, random), _range(content, random)
    return content[:place] + content[chosen] + content[place:]


def cut(content: bytes, random: Random) -> bytes:
    return content[: _place(content, random)] if random.random() < 0.2 else content


def _swapped(pattern: re.Pattern[bytes]) -> Change:
    """Return a change that puts one token in the place of another."""

    def swap(content: bytes, random: Random) -> bytes:
        found = list(pattern.finditer(content))
        if not found:
            return content
        one, other = random.choice(found), random.choice(found)
        return content[: one.start()] + other[0] + content[one.end() :]

    return swap


def change_number(content: bytes, random: Random) -> bytes:
    found = list(_NUMBER.finditer(content))
    if not found:
        return content
    one = random.choice(found)
    return content[: one.start()] + random.choice(_NUMBERS) + content[one.end() :]


def drop_tag(content: bytes, random: Random) -> bytes:
    found = list(_TAG.finditer(content))
    if not found:
        return content
    one = random.choice(found)
    return content[: one.start()] + content[one.end() :]


CHANGES: tuple[Change, ...] = (
    flip_bit, insert, delete, repeat, splice, cut, change_number, change_number, drop_tag,
    _swapped(_TAG), _swapped(_TAG), _swapped(_VALUE), _swapped(_TOKEN),
)  # fmt: skip


@dataclass
class Tally:
    """What came of the cases so far."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def add(self, case: Case, outcome: str, finding: str | None) -> None:
        self.outcomes.setdefault(case.format, Counter())[outcome] += 1
        if finding:
            self.findings.append(f"{case}  {finding}")

    def table(self) -> str:
        rows = []
        for format, outcomes in self.outcomes.items():
            counts = ", ".join(f"{name} {number}" for name, number in outcomes.most_common())
            rows.append(f"{format:<10}{outcomes.total():>7}   {counts}")
        return "\n".join([*rows, f"findings: {len(self.findings)}", *self.findings])


def tried(parser: ChildParser, case: Case) -> tuple[Case, str, str | None]:
    """Have a case parsed; return its outcome, and what is to be reported of it."""
    name, content = case.document()
    try:
        if case.format in HOLDERS and case.number % 2:
            for member in parser.members(name, content, HELD).members[:3]:
                parser.members(name, content, HELD, member.name)
        else:
            parser.parse(name, content, ParseOptions(images=case.number % 2 == 0))
    except SourceRefused as refusal:
        fault = None
        if refusal.code == "loader_crashed":
            fault = f"crashed: {' '.join(getattr(refusal, '__notes__', ['ended']))}"
        elif refusal.code == "source_too_costly":
            fault = f"too costly, {len(content)} bytes"
        return case, refusal.code, fault
    return case, "loaded", None


def cases(seed: int, formats: Sequence[str]) -> Iterator[Case]:
    return (Case(seed, format, number) for number in count() for format in formats)


def fuzz(seed: int, formats: Sequence[str], seconds: float) -> Tally:
    """Try case after case until time is over."""
    tally, stream = Tally(), cases(seed, formats)
    parser, deadline = ChildParser(cpu_seconds=4), monotonic() + seconds
    try:
        with ThreadPoolExecutor(_THREADS) as threads:
            while monotonic() < deadline:
                batch = [next(stream) for _ in range(_BATCH)]
                for case, outcome, finding in threads.map(lambda one: tried(parser, one), batch):
                    tally.add(case, outcome, finding)
                    if finding:
                        print(tally.findings[-1], flush=True)
    finally:
        parser.close()
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, print the counts, and return the exit code; or make one case again."""
    options = argparse.ArgumentParser(prog="python -m tools.fuzz_parsers", description=main.__doc__)
    options.add_argument("--minutes", type=float, default=5.0, help="how long")
    options.add_argument("--seed", type=int, default=1, help="another seed, other cases")
    options.add_argument("--only", action="append", choices=FORMATS, help="these formats only")
    options.add_argument("--case", help="seed:format:number of a case to make again")
    options.add_argument("--save", type=Path, help="where to write that case")
    chosen = options.parse_args(arguments)
    if chosen.case:
        return _again(chosen.case, chosen.save)
    tally = fuzz(chosen.seed, chosen.only or list(FORMATS), chosen.minutes * 60)
    print(tally.table())
    return FOUND if tally.findings else 0


def _again(named: str, save: Path | None) -> int:
    seed, format, number = named.split(":")
    case = Case(int(seed), format, int(number))
    if save:
        save.write_bytes(case.document()[1])
    parser = ChildParser()
    _, outcome, finding = tried(parser, case)
    parser.close()
    print(outcome, finding or "")
    return FOUND if finding else 0


if __name__ == "__main__":
    sys.exit(main())
