"""The library of the page tests, and the process that serves it."""

import json
import os
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import truespan
from tests.support import docx_maker as made
from tests.support.forked_process import ForkedProcess

CHAPTERS = (
    (
        "One: The Harbour",
        "The brass key of the boathouse hung on a nail behind the barometer. Old Marten oiled it "
        "on the first day of every month. He let nobody else carry it. A heron stood on the slip "
        "each morning and watched the tide come in. The children called it the Bailiff.",
    ),
    (
        "Two: The Empty Nail",
        "On the ninth of October the nail behind the barometer was empty. Marten searched the net "
        "loft and the tar shed. The heron was gone from the slip as well. A lantern had been seen "
        "on the water at two in the morning, moving against the current.",
    ),
    (
        "Three: The Signal Box",
        "It was the stationmaster Wrenfield who had taken the key of the boathouse. Wrenfield had "
        "hidden it under the lever of the disused signal box. He confessed in front of the whole "
        "quay. The heron came home on the following day.",
    ),
)
BOOK = "# The Copper Heron\n\n" + "\n\n".join(f"## {name}\n\n{text}" for name, text in CHAPTERS)
QUESTION = "Who took the key of the boathouse?"
UNREAD = ("Wrenfield", "stationmaster", "signal box", "Signal Box")
"""Words that occur only in the last chapter."""
LAST_READ = 11
"""The last sentence of the second chapter; the title and each heading are sentences too."""
BOUNDARY = "moving against the current."

SCRIPT = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
NOTE = f"A page about markup. The example reads {SCRIPT} and must stay words on paper.\n"

PICTURES = {
    "DOCX_EXTRACT_IMAGES": "true",
    "DOCX_INLINE_FIGURE_PLACEHOLDERS": "true",
    "DOCX_FIGURE_CHUNKS": "true",
}
SHOWN = "A gate with a crank"


def png(width: int = 40, height: int = 24) -> bytes:
    """Return an image that a browser can show."""
    lines = b"".join(b"\0" + bytes((20, 120, 100)) * width for _ in range(height))

    def part(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + name
            + content
            + struct.pack(">I", zlib.crc32(name + content))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = part(b"IDAT", zlib.compress(lines))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + packed + part(b"IEND", b"")


def manual() -> bytes:
    """Return a DOCX file with a figure between two paragraphs."""
    body = (
        made.p("The mill", style="Heading1")
        + made.p("The sluice gate of the mill is lifted by a crank on the upper landing.")
        + made.p(made.picture("rId9", alt=SHOWN))
        + made.p("Figure 1: The sluice gate seen from the landing.")
        + made.p("Two people are needed in spring, when the water stands high.")
    )
    return made.docx(
        body,
        styles=made.style("Heading1", "heading 1"),
        relations=[("rId9", "image", "media/gate.png")],
        media={"word/media/gate.png": png()},
    )


def fill(folder: Path) -> Path:
    """Create a library with a book, a manual with a figure, and a note with markup."""
    sources = folder / "sources"
    sources.mkdir()
    (sources / "heron.md").write_text(BOOK, "utf-8")
    (sources / "markup.txt").write_text(NOTE, "utf-8")
    (sources / "mill.docx").write_bytes(manual())
    command = [sys.executable, "-m", "truespan", "ingest", "--library", str(folder / "library")]
    with truespan.open(folder / "library", create=True) as library:
        library.create_world("harbour")
    for options in (["--kind", "book", "heron.md"], ["mill.docx", "markup.txt"]):
        _run([*command, "--world", "harbour", *options], sources)
    return folder / "library"


def _run(command: list[str], folder: Path) -> str:
    """Run a command of Truespan in a folder, and return what it printed."""
    with ForkedProcess(
        command,
        cwd=folder,
        env=os.environ | PICTURES,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        printed, complaint = process.communicate()
    assert process.returncode == 0, complaint
    return printed


@dataclass(frozen=True, slots=True)
class Served:
    """A library that is being served."""

    library: Path
    address: str
    process: subprocess.Popen[str]

    def stop(self) -> None:
        """End the server as an operator would."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def token(self, *options: str) -> str:
        """Make an access token for the library."""
        command = [sys.executable, "-m", "truespan", "token", "create", "for the page", "--json"]
        printed = _run([*command, "--library", str(self.library), *options], self.library)
        return json.loads(printed)["secret"]


@contextmanager
def served(library: Path, *options: str, **settings: str) -> Iterator[Served]:
    """Serve a library in a process, on a free port, with these settings."""
    command = [sys.executable, "-m", "truespan", "serve", "--port", "0", "--json", *options]
    with ForkedProcess(
        [*command, "--library", str(library)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ
        | PICTURES
        | {f"TRUESPAN_{name.upper()}": settings[name] for name in settings},
    ) as process:
        try:
            yield Served(library, address_of(process), process)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(30)


def address_of(process: subprocess.Popen[str]) -> str:
    """Wait until the server prints its address."""
    assert process.stdout
    lines: list[str] = []
    while lines[-1:] != ["}\n"]:
        lines.append(process.stdout.readline())
        assert lines[-1], f"the server ended before it listened: {lines}"
    told = json.loads("".join(lines))
    assert "address" in told, told
    return told["address"]
