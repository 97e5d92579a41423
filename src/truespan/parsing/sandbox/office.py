"""Conversion of office documents to PDF by LibreOffice, where it is installed.

LibreOffice is not trusted: it runs in a separate process, with a new profile, without macros and
links, without network, and sees no file but the document; see `confined`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import md5
from pathlib import Path, PurePath

from truespan.errors import OfficeMissing, SourceBroken, SourceTooCostly, SourceTooLarge
from truespan.parsing.detect import OFFICE, SHEETS, SLIDES, Format, format_of
from truespan.parsing.sandbox.confined import can_confine

MAX_SECONDS = 90.0
_MEMORY = 3 << 30
_MAX_PDF = 256 << 20
_MAX_SOURCE = 64 << 20
_ATTEMPTS = 2
"""Number of starts: the first one may only make the profile."""
_SOCKETS = Path("/tmp")  # noqa: S108 -- fixed by LibreOffice
_PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">{items}</oor:items>
"""
_ITEM = (
    '<item oor:path="/org.openoffice.Office.{path}"><prop oor:name="{name}" oor:op="fuse">'
    "<value>{value}</value></prop></item>"
)
_SETTINGS = (
    ("Common/Security/Scripting", "MacroSecurityLevel", "3"),
    ("Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
    ("Writer/Content/Update", "Link", "2"),
    ("Calc/Content/Update", "Link", "2"),
)
"""Settings of the profile: no macros, no linked files."""


class OfficeConverter:
    """Converts office documents to PDF with LibreOffice: a program of that name, or a path.

    Threads wait for each other: there is one conversion at a time.
    """

    def __init__(self, program: str, *, seconds: float = MAX_SECONDS) -> None:
        self._program = program
        self._seconds = seconds
        self._lock = threading.Lock()

    def to_pdf(self, name: str, data: bytes) -> bytes:
        """Return a document as PDF; hidden slides are included, hidden sheets are not.

        Raises:
            OfficeMissing: There is no LibreOffice, or this system cannot confine it.
            SourceRefused: The document is broken, too large, or takes too long.
        """
        program = shutil.which(self._program)
        if program is None or not can_confine():
            raise OfficeMissing
        found = format_of(name, data)
        shown = PurePath(name).name
        if found is None or found not in OFFICE:
            raise SourceBroken(shown)
        if len(data) > _MAX_SOURCE:
            raise SourceTooLarge(shown)
        deadline = time.monotonic() + self._seconds
        if not self._lock.acquire(timeout=self._seconds):
            raise SourceTooCostly(shown)
        try:
            with _make_folder() as folder:
                flat = data.lstrip()[:5] == b"<?xml" and found is not Format.RTF
                source = folder / f"source.{'f' if flat else ''}{found}"
                source.write_bytes(data)
                for _ in range(_ATTEMPTS):
                    self._start(program, folder, source, _filter_of(found), deadline)
                    if time.monotonic() >= deadline:
                        raise SourceTooCostly(shown)
                    pdf = folder / "source.pdf"
                    if pdf.is_file() and 0 < pdf.stat().st_size < _MAX_PDF:
                        return pdf.read_bytes()
        finally:
            self._lock.release()
        raise SourceBroken(shown)

    def _start(self, program: str, folder: Path, source: Path, to: str, deadline: float) -> None:
        """Run LibreOffice until it ends or the deadline passes."""
        profile = (folder / "profile").as_uri()
        limits = (_MEMORY, int(self._seconds) + 1, _MAX_PDF)
        path = os.pathsep.join(entry for entry in sys.path if entry)
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "truespan.parsing.sandbox.confined"),
                *(*map(str, limits), str(folder), program),
                *(f"-env:UserInstallation={profile}", "--headless", "--norestore"),
                *("--nolockcheck", "--nodefault", "--nologo", "--convert-to", f"pdf:{to}"),
                *("--outdir", str(folder), str(source)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={
                "PYTHONPATH": path,
                "PATH": "/usr/bin:/bin",
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "LC_ALL": "C.UTF-8",
                "SAL_USE_VCLPLUGIN": "svp",
            },
            start_new_session=True,
        )
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            # LibreOffice starts further processes, which belong to the same group.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _remove_socket(profile)


@contextmanager
def _make_folder() -> Iterator[Path]:
    """Make a folder with a profile, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="truespan-office-")).resolve()
    try:
        user = folder / "profile" / "user"
        user.mkdir(parents=True)
        items = "".join(
            _ITEM.format(path=path, name=name, value=value) for path, name, value in _SETTINGS
        )
        (user / "registrymodifications.xcu").write_text(_PROFILE.format(items=items))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _filter_of(found: Format) -> str:
    if found in SLIDES:
        return 'impress_pdf_Export:{"ExportHiddenSlides":{"type":"boolean","value":"true"}}'
    # One page for each sheet would be easier to read, but that includes hidden sheets.
    return "calc_pdf_Export" if found in SHEETS else "writer_pdf_Export"


def _remove_socket(profile: str) -> None:
    """Remove the socket of LibreOffice, which may not remove it itself."""
    digest = md5(profile.encode("utf-16-le"), usedforsecurity=False).digest()
    mark = "".join(f"{byte:x}" for byte in digest)
    for socket in _SOCKETS.glob(f"OSL_PIPE_*{mark}"):
        with suppress(OSError):
            socket.unlink()
