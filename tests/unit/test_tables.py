"""Discovery of installed extensions."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from truespan.errors import InvalidConfiguration
from truespan.parsing import load
from truespan.parsing.formats import all_formats, formats_by_ending
from truespan.tables import tables


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder of packages that Python finds."""
    monkeypatch.syspath_prepend(str(tmp_path))
    _forget_tables()
    yield tmp_path
    monkeypatch.undo()
    _forget_tables()
    for name in ("example_notes", "example_loader"):
        sys.modules.pop(name, None)


def _forget_tables() -> None:
    for cached in (tables, all_formats, formats_by_ending):
        cached.cache_clear()


def install(site: Path, target: str, **modules: str) -> None:
    info = site / "example_notes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example-notes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[truespan.extensions]\nnotes = {target}\n")
    for name, text in modules.items():
        (site / f"{name}.py").write_text(dedent(text))


def test_extension_loader_parses_files_with_its_ending(site: Path) -> None:
    registering = """
        from truespan.tables import FileFormat

        def register(tables):
            tables.formats.append(
                FileFormat(name="note", endings=(".note",), load="example_loader:load_note")
            )
    """
    loading = """
        from truespan.types.text import Block, BlockKind, Loaded

        def load_note(name, data):
            return Loaded((Block(BlockKind.PARAGRAPH, data.decode().upper(), None, None),))
    """
    install(site, "example_notes:register", example_notes=registering, example_loader=loading)

    assert load("a.note", b"quiet").blocks[0].text == "QUIET"


def test_other_entry_points_of_a_package_are_ignored(site: Path) -> None:
    registering = "def register(tables): tables.answer_checks['notes'] = 'example_notes:check'"
    install(site, "example_notes:register", example_notes=registering)
    file = site / "example_notes-1.0.dist-info" / "entry_points.txt"
    commands = "[console_scripts]\nnotes = not_installed:main\n"
    file.write_text(f"{commands}\n{file.read_text()}# gone = not_installed:old\n\n{commands}")

    assert tables().answer_checks["notes"] == "example_notes:check"


def test_extension_whose_package_was_removed_is_ignored(site: Path) -> None:
    install(site, "example_gone.register:register")
    assert "text" in {each.name for each in all_formats()}


def test_extension_that_cannot_be_imported_is_refused_by_name(site: Path) -> None:
    install(site, "example_notes:register", example_notes="import not_installed_anywhere")
    with pytest.raises(InvalidConfiguration, match="'notes' cannot be loaded: No module named"):
        tables()


def test_extension_without_register_is_refused_by_name(site: Path) -> None:
    install(site, "example_notes:register", example_notes="")
    with pytest.raises(InvalidConfiguration, match="'notes' cannot be loaded"):
        tables()
