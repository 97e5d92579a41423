"""Hostile files in the real child process: each ends with a result, and does no harm."""

import socket
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.hostile import HOSTILE, Trap
from truespan.errors import SourceRefused
from truespan.parsing.sandbox.client import ChildParser
from truespan.types.source import ParseOptions
from truespan.types.text import Loaded

CANARY = "canary-of-a-file-that-nobody-may-read"
FAMILIES = sorted({name.partition("-")[0] for name in HOSTILE})
MAY_BE_TOO_COSTLY = {
    "epub-one-chapter-under-many-names", "pdf-forms-that-double", "pdf-stream-packed-very-often",
    "pdf-stream-that-explodes",
}  # fmt: skip
"""What no reader can be quick about. Anything else that runs into a limit is a weakness of ours."""


@dataclass(frozen=True)
class Field:
    """An environment for hostile files: a trap, and state that must not change."""

    trap: Trap
    folder: Path
    listener: socket.socket

    def untouched(self) -> bool:
        return {path.name: path.read_text() for path in self.folder.iterdir()} == {
            "secret": CANARY,
            "victim": "as it was",
        }

    def visited(self) -> bool:
        """Return whether the trap was contacted; a connection waits until it is accepted."""
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def was_left_alone(self) -> bool:
        return self.untouched() and not self.visited()


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    folder = tmp_path_factory.mktemp("field")
    (folder / "secret").write_text(CANARY)
    (folder / "victim").write_text("as it was")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/trap"
        trap = Trap(url, str(folder / "secret"), str(folder / "victim"))
        yield Field(trap, folder, listener)


class Taker:
    """Reads each file once with the real child, and keeps the result."""

    def __init__(self, trap: Trap) -> None:
        # A clock that gives a small file less than six seconds, and one for what takes any time.
        self._usual, self._impatient = ChildParser(cpu_seconds=1.5), ChildParser(cpu_seconds=0.5)
        self._trap = trap
        self._ends: dict[str, str | SourceRefused] = {}

    def take(self, name: str) -> str | SourceRefused:
        """Return the content of a file, or the error of reading it."""
        if name not in self._ends:
            parser = self._impatient if name in MAY_BE_TOO_COSTLY else self._usual
            try:
                self._ends[name] = said(
                    parser.parse(*HOSTILE[name](self._trap), ParseOptions(images=True))
                )
            except SourceRefused as error:
                self._ends[name] = error
        return self._ends[name]

    def close(self) -> None:
        self._usual.close()
        self._impatient.close()


@pytest.fixture(scope="module")
def taker(field: Field) -> Iterator[Taker]:
    made = Taker(field.trap)
    yield made
    made.close()


def fault_of(name: str, end: str | SourceRefused) -> str | None:
    """Return the fault in the reading of a file; None if there is none."""
    if isinstance(end, str):
        return "told a secret" if CANARY in end else None
    if end.code == "loader_crashed":
        return f"crashed: {getattr(end, '__notes__', '')}"
    if end.code == "source_too_costly":
        return None if name in MAY_BE_TOO_COSTLY else "too costly"
    return None


def said(loaded: Loaded) -> str:
    """Return all text of a file, with that of its pictures."""
    pictures = [image.data.decode("latin-1") for image in loaded.images]
    return "\n".join([repr(loaded.properties), *(block.text for block in loaded.blocks), *pictures])


@proves("loader.archive-limits")
def test_there_are_at_least_150_hostile_files():
    assert len(HOSTILE) >= 150


@proves("loader.child-process", "loader.archive-limits")
@pytest.mark.parametrize("family", FAMILIES)
def test_no_hostile_file_crashes_hangs_writes_or_connects(taker: Taker, field: Field, family: str):
    names = [name for name in HOSTILE if name.startswith(f"{family}-")]

    with ThreadPoolExecutor(2) as threads:
        ends = list(threads.map(taker.take, names))

    wrong: defaultdict[str, list[str]] = defaultdict(list)
    for name, end in zip(names, ends, strict=True):
        if fault := fault_of(name, end):
            wrong[fault].append(name)
    assert not wrong
    assert field.was_left_alone()


@proves("loader.archive-limits")
@pytest.mark.parametrize("kind", ["docx", "epub"])
@pytest.mark.parametrize(
    "name",
    [
        "archive-flat-bomb", "archive-many-bombs", "archive-overlapping",
        "archive-very-many-members", "archive-twice-the-same-name", "escape-parent",
        "escape-absolute", "escape-nul",
    ],
)  # fmt: skip
def test_archive_over_its_limits_is_refused(taker: Taker, kind: str, name: str):
    end = taker.take(f"{kind}-{name}")

    assert isinstance(end, SourceRefused)
    assert end.code in ("source_unsafe", "source_too_large")


@proves("loader.archive-limits")
@pytest.mark.parametrize(
    "part", ["docx-document", "docx-styles", "docx-rels", "docx-core", "epub-content", "epub-c1"]
)
@pytest.mark.parametrize("attack", ["billion-laughs", "external-file", "external-address"])
def test_xml_with_entities_is_refused_or_read_without_them(
    taker: Taker, field: Field, part: str, attack: str
):
    end = taker.take(f"{part}-{attack}")
    read = end if isinstance(end, str) else end.code

    assert CANARY not in read
    assert read.count("lol") < 100
    assert field.was_left_alone()
