"""Backup, restore and deletion on the command line."""

from __future__ import annotations

from pathlib import Path

from tests.interfaces.test_cli import KEYS, NIGHT, Terminal, terminal
from truespan.wiring import open_library

__all__ = ["terminal"]


def filled(terminal: Terminal) -> None:
    terminal.write("night.txt", NIGHT)
    terminal.write("keys.md", f"# Keys\n\n{KEYS}\n")
    terminal("init", "-w", "w")
    assert terminal("ingest", str(terminal.files), "-w", "w")[0] == 0


def test_a_library_is_backed_up_verified_and_restored(terminal: Terminal, tmp_path: Path) -> None:
    filled(terminal)
    file = str(tmp_path / "b")

    assert terminal("backup", file)[0] == 0
    assert "is intact" in terminal("backup", "--verify", file)[1]
    code, out, err = terminal("backup", file)
    assert (code, out, "already" in err) == (2, "", True)
    terminal.folder = tmp_path / "again"
    code, told = terminal.json("restore", file)
    assert (code, told["pending"], told["written"] > 0) == (0, 0, True)
    assert terminal("restore", file)[0] == 2
    open_library(tmp_path / "again" / "library")._components.index.retire()  # type: ignore[attr-defined]
    Path(file).write_bytes(b"nothing of the kind")
    terminal.folder = tmp_path / "other"
    code, problem = terminal.json("restore", file)
    assert (code, problem["error"]["code"]) == (2, "backup_invalid")
    assert not (tmp_path / "other").exists()


def test_deletion_gives_receipt_and_a_world_needs_confirmation(terminal: Terminal) -> None:
    filled(terminal)

    code, told = terminal.json("delete", "keys.md", "-w", "w")
    told = told["receipt"]
    assert code == 0
    assert (told["name"], told["erased"]) == ("keys.md", True)
    assert terminal("delete", "-w", "w")[0] == 2
    assert "Nothing was deleted" in terminal("delete", "-w", "w", "--all")[1]
    assert terminal.json("status", "-w", "w")[0] == 0
    assert terminal("delete", "-w", "w", "--all", "--yes")[0] == 0
    assert terminal("status", "-w", "w")[0] == 2
