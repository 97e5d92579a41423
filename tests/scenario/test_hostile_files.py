"""Hostile files, all of them through the real child: each ends with an answer, and does no harm."""

import socket
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.hostile import HOSTILE, Trap
from truespan.errors import LoaderCrashed, SourceRefused, SourceTooCostly
from truespan.parsing.child_parser import ChildParser
from truespan.types.text import Loaded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits are those of POSIX")

CANARY = "canary-of-a-file-that-nobody-may-read"
FAMILIES = sorted({name.partition("-")[0] for name in HOSTILE})
MAY_BE_TOO_COSTLY = {
    "epub-one-chapter-under-many-names",
    "pdf-forms-that-double",
    "pdf-stream-packed-very-often",
    "pdf-stream-that-explodes",
}
"""What no reader can be quick about. Anything else that runs into a limit is a weakness of ours."""


@dataclass(frozen=True)
class Field:
    """Where hostile files are let loose: a trap, and what must be as it was."""

    trap: Trap
    folder: Path
    listener: socket.socket

    def untouched(self) -> bool:
        return {path.name: path.read_text() for path in self.folder.iterdir()} == {
            "secret": CANARY,
            "victim": "as it was",
        }

    def visited(self) -> bool:
        """Say whether somebody knocked; a connection waits until it is accepted."""
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    (tmp_path / "secret").write_text(CANARY)
    (tmp_path / "victim").write_text("as it was")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/trap"
        trap = Trap(url, str(tmp_path / "secret"), str(tmp_path / "victim"))
        yield Field(trap, tmp_path, listener)


@pytest.fixture(scope="module")
def parser() -> Iterator[ChildParser]:
    """A parser whose clock gives a small file less than ten seconds."""
    made = ChildParser(cpu_seconds=2.5)
    yield made
    made.close()


def outcome(parser: ChildParser, name: str, trap: Trap) -> str | None:
    """Return what is wrong about how a file was taken; None when nothing is."""
    source, content = HOSTILE[name](trap)
    try:
        loaded = parser.parse(source, content, images=True)
    except LoaderCrashed as crash:
        return f"crashed: {getattr(crash, '__notes__', '')}"
    except SourceTooCostly:
        return None if name in MAY_BE_TOO_COSTLY else "too costly"
    except SourceRefused:
        return None
    return "told a secret" if CANARY in said(loaded) else None


def said(loaded: Loaded) -> str:
    """Return all that came out of a file, pictures as well."""
    pictures = [image.data.decode("latin-1") for image in loaded.images]
    return "\n".join([repr(loaded.properties), *(block.text for block in loaded.blocks), *pictures])


@proves("loader.archive-limits")
def test_there_are_at_least_150_of_them():
    assert len(HOSTILE) >= 150


@proves("loader.child-process", "loader.archive-limits")
@pytest.mark.parametrize("family", FAMILIES)
def test_no_hostile_file_crashes_hangs_writes_or_connects(
    parser: ChildParser, field: Field, family: str
):
    names = [name for name in HOSTILE if name.startswith(f"{family}-")]

    with ThreadPoolExecutor(2) as threads:
        found = dict(
            zip(
                names,
                threads.map(lambda name: outcome(parser, name, field.trap), names),
                strict=True,
            )
        )

    wrong: defaultdict[str, list[str]] = defaultdict(list)
    for name, fault in found.items():
        if fault:
            wrong[fault].append(name)
    assert not wrong
    assert field.untouched()
    assert not field.visited()


@proves("loader.archive-limits")
@pytest.mark.parametrize("kind", ["docx", "epub"])
@pytest.mark.parametrize(
    "name",
    [
        "archive-flat-bomb",
        "archive-many-bombs",
        "archive-overlapping",
        "archive-very-many-members",
        "archive-twice-the-same-name",
        "escape-parent",
        "escape-absolute",
        "escape-nul",
    ],
)
def test_an_archive_beyond_its_limits_is_refused(
    parser: ChildParser, field: Field, kind: str, name: str
):
    source, content = HOSTILE[f"{kind}-{name}"](field.trap)

    with pytest.raises(SourceRefused) as caught:
        parser.parse(source, content, images=True)

    assert caught.value.code in ("source_unsafe", "source_too_large")


@proves("loader.archive-limits")
@pytest.mark.parametrize(
    "part", ["docx-document", "docx-styles", "docx-rels", "docx-core", "epub-content", "epub-c1"]
)
@pytest.mark.parametrize("attack", ["billion-laughs", "external-file", "external-address"])
def test_xml_that_declares_entities_is_refused_or_read_without_them(
    parser: ChildParser, field: Field, part: str, attack: str
):
    source, content = HOSTILE[f"{part}-{attack}"](field.trap)

    try:
        read = said(parser.parse(source, content, images=True))
    except SourceRefused as refusal:
        read = refusal.code

    assert CANARY not in read
    assert read.count("lol") < 100
    assert not field.visited()
