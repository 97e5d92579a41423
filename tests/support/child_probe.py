"""A child process whose loader attempts forbidden actions.

All the rest is the real child: its guard, its limits, the way it answers. The name of the document
names the action, its content the argument; the returned text is the outcome.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from truespan.errors import SourceRefused
from truespan.parsing.sandbox import process
from truespan.types.source import ParseOptions
from truespan.types.text import Block, BlockKind, CanonicalText, Loaded

NATIVE = ctypes.CDLL(None) if sys.platform != "win32" else None


def connect(content: str) -> object:
    return socket.create_connection(("127.0.0.1", int(content)))


def bind(content: str) -> object:
    with socket.socket() as bound:
        return bound.bind(("127.0.0.1", 0))


def resolve(content: str) -> object:
    return socket.getaddrinfo("localhost", 80)


def write(content: str) -> object:
    return Path(content).write_text("written")


def append(content: str) -> object:
    return os.open(content, os.O_WRONLY | os.O_APPEND)


def write_natively(content: str) -> object:
    """Bypass Python, so that only the limit of the operating system remains."""
    assert NATIVE is not None
    return NATIVE.write(NATIVE.open(content.encode(), os.O_WRONLY), b"written", 7)


def remove(content: str) -> object:
    return os.remove(content)


def rename(content: str) -> object:
    return os.rename(content, f"{content}.away")


def make_folder(content: str) -> object:
    return os.mkdir(f"{content}.folder")


def link(content: str) -> object:
    return os.symlink(content, f"{content}.link")


def run(content: str) -> object:
    return subprocess.run([sys.executable, "-c", ""], check=False)


def shell(content: str) -> object:
    return os.system("true")


def fork(content: str) -> object:
    return os.fork()


def kill(content: str) -> object:
    return os.kill(os.getppid(), signal.SIGTERM)


def abort(content: str) -> object:
    os.abort()


def fault(content: str) -> object:
    return ctypes.string_at(0)


def leave(content: str) -> object:
    os._exit(3)


def spin(content: str) -> object:
    while True:
        pass


def wait(content: str) -> object:
    return signal.pause()


def wait_deaf(content: str) -> object:
    """Wait without handling the child's own alarm, so that only the parent can end the process."""
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    while True:
        signal.pause()


def allocate(content: str) -> object:
    return len(bytearray(int(content)))


kept: list[bytes] = []


def keep(content: str) -> object:
    kept.append(b"x" * int(content))
    return "kept"


def hoard(content: str) -> object:
    """Use all available memory and then exit like a library that gets no more."""
    taken = bytearray(int(content))
    for place in range(0, len(taken), 4096):
        taken[place] = 1
    os.abort()


def fail(content: str) -> object:
    raise ValueError(content)


def refuse(content: str) -> object:
    raise SourceRefused("source_broken", "a name", advice="Do this.")


def speak(content: str) -> object:
    os.write(1, b"T" * 100)
    print(content)
    print(content, file=sys.stderr)
    return "spoke"


def repeat(content: str) -> object:
    return "a" * int(content)


def half_a_character(content: str) -> object:
    return "\ud800"


def environment(content: str) -> object:
    return sorted(os.environ)


def interrupt(content: str) -> object:
    signal.raise_signal(signal.SIGINT)
    return "went on"


PROBES: tuple[Callable[[str], object], ...] = (
    connect, bind, resolve, write, append, write_natively, remove, rename, make_folder, link, run,
    shell, fork, kill, abort, fault, leave, spin, wait, wait_deaf, allocate, keep, hoard, fail,
    refuse, speak, repeat, half_a_character, environment, interrupt,
)  # fmt: skip
BY_NAME = {probe.__name__: probe for probe in PROBES}


def probe(name: str, document: bytes, options: ParseOptions) -> Loaded:
    """Run the action that the name requests, in place of the loader."""
    try:
        said = str(options if name == "options" else BY_NAME[name](document.decode()))
    except PermissionError as refusal:
        said = f"refused: {type(refusal).__name__}"
    return Loaded((Block(BlockKind.PARAGRAPH, said),))


def probe_split(canonical: CanonicalText, language: str) -> list[int]:
    """Return the offsets that the language lists, or run its action, instead of splitting."""
    if language in BY_NAME:
        BY_NAME[language](canonical.text)
    return list(map(int, language.split(",")))


if __name__ == "__main__":
    process.load = probe  # type: ignore[assignment]
    process.sentence_bounds = probe_split  # type: ignore[assignment]
    sys.exit(process.main())
