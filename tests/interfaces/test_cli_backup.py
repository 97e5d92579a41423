"""Backup, restore, deletion and tokens on the command line."""

import re
from pathlib import Path

import pytest

from tests.interfaces.test_cli import KEYS, NIGHT, Terminal, terminal
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.leftover_search import contents
from truespan.types.scope import OWNER, Authority, Verb
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


def test_deletion_prints_a_receipt_and_a_world_needs_confirmation(terminal: Terminal) -> None:
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


SECRET = re.compile(r"ts_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")


def authority_of(terminal: Terminal, text: str) -> Authority:
    with open_library(terminal.folder / "library") as library:
        return library.authenticate(text)


def test_token_can_be_created_listed_and_revoked(terminal: Terminal) -> None:
    terminal("init", "-w", "w")

    code, out, err = terminal("token", "create", "app", "--world", "w", "--expires", "30d")
    found = SECRET.findall(out)
    secret = out.splitlines()[-1]
    assert (code, err, len(found)) == (0, "", 1)
    assert SECRET.fullmatch(secret)
    assert authority_of(terminal, secret).verbs == {Verb.READ}

    code, out, _ = terminal("token", "list")
    assert re.fullmatch(rf"{found[0]}  active  app: read in w; expires [\d -]+:\d\d UTC\n", out)
    code, out, _ = terminal("token", "revoke", found[0])
    assert (code, out) == (0, f"Revoked token {found[0]}, app.\n")
    with raises_code("unauthorized"):
        authority_of(terminal, secret)
    assert f"{found[0]}  revoked  app" in terminal("token", "list")[1]


def test_secret_is_shown_once_and_stored_in_no_file(terminal: Terminal) -> None:
    terminal("init", "-w", "w")
    _, made = terminal.json("token", "create", "app", "-w", "w", "-r", "ada")
    hidden = made["secret"][20:]

    for command in (["list"], ["revoke", made["token"]["id"]], ["revoke", made["secret"]]):
        for mode in ([], ["--json"]):
            _, out, err = terminal("token", *command, *mode)
            assert hidden not in out + err
    for path, content in contents(terminal.folder).items():
        assert hidden.encode() not in content, path


def test_json_lists_every_member_of_a_token(terminal: Terminal) -> None:
    terminal("init", "-w", "w")
    world = terminal.json("status")[1]["worlds"][0]["id"]
    _, bound = terminal.json("token", "create", "a", "-w", "w", "-r", "bob", "-r", "ada")
    _, free = terminal.json(
        "token", "create", "b", "--all-worlds", *(f"--verb={verb}" for verb in Verb)
    )

    code, listed = terminal.json("token", "list")

    assert (code, listed["tokens"]) == (0, [bound["token"], free["token"]])
    assert bound["token"]["worlds"] == [world]
    assert (bound["token"]["verbs"], bound["token"]["readers"]) == (["follow"], ["ada", "bob"])
    assert (free["token"]["worlds"], free["token"]["readers"]) == ("unlimited", "unlimited")
    assert (free["token"]["state"], free["token"]["expires_at"]) == ("active", None)
    assert authority_of(terminal, free["secret"]) == OWNER


def test_token_for_metrics_has_no_world(terminal: Terminal) -> None:
    terminal("init", "-w", "w")

    code, made = terminal.json("token", "create", "prometheus", "--verb", "observe")

    assert (code, made["token"]["worlds"], made["token"]["verbs"]) == (0, [], ["observe"])
    assert authority_of(terminal, made["secret"]).may_observe()
    listed = terminal("token", "list")[1]
    assert "prometheus: observe, the metrics only; does not expire" in listed
    for more in (["-w", "w"], ["--all-worlds"], ["-w", "w", "--verb", "read"], ["--verb", "read"]):
        code, _, err = terminal("token", "create", "p", "--verb", "observe", *more)
        assert (code, err.count("\n")) == (2, 1), more


@proves("identity.token-labels")
def test_token_with_labels_is_described(terminal: Terminal) -> None:
    terminal("init", "-w", "w")
    create = ("token", "create")
    labels = ("--audience", "group:legal", "--audience", "user:ana@example.org")

    _, made = terminal.json(*create, "legal", "-w", "w", *labels)
    _, web = terminal.json(*create, "web", "-w", "w", "--impersonate")

    assert made["token"]["audience"] == ["group:legal", "user:ana@example.org"]
    assert (web["token"]["audience"], web["token"]["impersonate"]) == ([], True)
    assert authority_of(terminal, made["secret"]).audience == {
        *("group:legal", "user:ana@example.org")
    }
    listed = terminal("token", "list")[1]
    assert "legal: read in w, documents for everyone, group:legal, user:ana@example.org; " in listed
    assert "web: read in w, documents for everyone; may impersonate; does not expire" in listed


def test_token_of_a_deleted_world_is_shown_without_worlds(terminal: Terminal) -> None:
    terminal("init", "-w", "w")
    terminal("token", "create", "app", "-w", "w", "-r", "ada")
    terminal("delete", "-w", "w", "--all", "--yes")

    assert "app: follow as ada in no world; does not expire" in terminal("token", "list")[1]


def test_token_worlds_ignore_the_environment(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    terminal("init", "-w", "w")
    monkeypatch.setenv("TRUESPAN_WORLD", "w")

    assert terminal("token", "create", "app")[0] == 2
