"""LibreOffice and pandoc as installed, each called as a person would call it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.sample_document import Piece
from tests.system.flat_text import flat_text
from tests.system.markdown import PICTURE, markdown
from tests.system.picture import png

_SECONDS = 180
_PANDOC_FORMATS = {"docx": "docx", "html": "html5", "odt": "odt"}


class Workshop:
    """A folder in which programs make documents; a program that is missing skips the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / PICTURE).write_bytes(png())

    def pandoc(self, pieces: Sequence[Piece], name: str, *options: str) -> Path:
        """Make a document of the treatise; its name determines the content."""
        source = self._folder / f"{name}.md"
        source.write_text(markdown(pieces), encoding="utf-8")
        stem, _, ending = name.rpartition(".")
        form = f"epub{stem[-1]}" if ending == "epub" else _PANDOC_FORMATS[ending]
        made = self._folder / name
        read = ("--from", "markdown-smart", str(source))
        self._run("pandoc", "--standalone", *read, "--to", form, *options, "--output", str(made))
        return made

    def libreoffice(self, pieces: Sequence[Piece], name: str) -> Path:
        """Make a document of the treatise; its ending determines the format."""
        stem, _, ending = name.rpartition(".")
        folder = self._folder / ending
        folder.mkdir(exist_ok=True)
        source = folder / f"{stem}.fodt"
        source.write_text(flat_text(pieces), encoding="utf-8")
        return self.converted(source, ending)

    def converted(self, source: Path, ending: str) -> Path:
        """Have LibreOffice open a document and save it as another, in a separate folder.

        Its profile lies in the folder as well: one that is in use elsewhere would make it wait.
        """
        into = source.parent / "converted"
        profile = (self._folder / "profile").as_uri()
        # A page is otherwise opened as one, and can only be saved as another page.
        page = ("--infilter=HTML (StarWriter)",) if source.suffix == ".html" else ()
        self._run(
            *("soffice", f"-env:UserInstallation={profile}", "--headless", "--norestore"),
            *page,
            *("--convert-to", ending, "--outdir", str(into), str(source)),
        )
        made = into / f"{source.stem}.{ending}"
        # It reports success when it could not write anything.
        assert made.exists(), f"LibreOffice made no {ending} of {source.name}"
        return made

    def _run(self, program: str, *arguments: str) -> None:
        found = shutil.which(program)
        if found is None:
            pytest.skip(f"{program} is not installed; `make test-system` installs it")
        subprocess.run(
            [found, *arguments], cwd=self._folder, check=True, timeout=_SECONDS, capture_output=True
        )
