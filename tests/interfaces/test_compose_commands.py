"""The commands of compose.yaml and docs/deployment.md, in their order, on this machine.

Each runs with the environment and the settings of its service; only the addresses of the servers
and the folder of the secrets are this machine's.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import truespan
from tests.architecture.test_deployment import DEPLOY, ROOT, SERVICES, environment, resolved
from tests.interfaces.http_client import until
from tests.interfaces.test_cli import KEYS
from tests.promises import proves
from tests.support.http_server import served
from tests.support.postgres import (
    APPLICATION,
    OWNER_ROLE,
    Database,
    another_server,
    fresh_database,
    programs,
)
from tests.support.providers.ollama import Ollama
from tests.support.qdrant_loopback import QdrantLoopback
from truespan.cli import run
from truespan.extensions.cluster.postgres_server import prepare_store
from truespan.extensions.cluster.queue import prepare_queue

GUIDE = (ROOT / "docs" / "deployment.md").read_text("utf-8")


class Containers:
    """Runs the commands of services as their containers would."""

    def __init__(
        self,
        folder: Path,
        addresses: dict[str, str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.library = folder / "library"
        self.secrets = folder / "secrets"
        self._addresses = addresses
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.library.mkdir()
        settings = (DEPLOY / "truespan.toml").read_text("utf-8")
        (self.library / "truespan.toml").write_text(self._here(settings), encoding="utf-8")

    def _here(self, text: str) -> str:
        for theirs, ours in self._addresses.items():
            text = text.replace(theirs, ours)
        return text.replace("/run/secrets", str(self.secrets))

    def enter(self, service: str) -> None:
        """Set the environment of a service, without variables of others."""
        for name in {name for other in SERVICES for name in environment(other)}:
            self._monkeypatch.delenv(name, raising=False)
        for name, value in environment(service).items():
            self._monkeypatch.setenv(name, self._here(resolved(value)))
        self._monkeypatch.setenv("TRUESPAN_LIBRARY", str(self.library))

    def run(self, service: str, *words: str) -> tuple[int, str, str]:
        """Run a command of ours in a service: `docker compose run --rm SERVICE WORDS`."""
        self.enter(service)
        self._capsys.readouterr()
        code = run([*(words or SERVICES[service]["command"])])
        said = self._capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Containers]:
    database = fresh_database(prepared=False)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "store_url").write_text(database.url.reveal())
    (secrets / "store_owner_url").write_text(database.owner_url.reveal())
    (secrets / "qdrant_key").write_text("a" * 64)
    with QdrantLoopback() as qdrant, Ollama() as ollama:
        addresses = {
            environment("api")["TRUESPAN_INDEX_URL"]: qdrant.url,
            environment("api")["OLLAMA_BASE_URL"]: ollama.url,
        }
        yield Containers(tmp_path, addresses, monkeypatch, capsys)


def documented(command: str) -> list[str]:
    """Return the commands of the guide for a service in its first steps."""
    found = re.search(rf"docker compose run --rm api ({command} .*)", GUIDE)
    assert found is not None
    return shlex.split(found[1])


@proves("operations.compose-commands")
def test_deployment_commands_work_in_order(containers: Containers, tmp_path: Path):
    # Before the tables exist, every command names the one that creates them.
    code, _, said = containers.run("api", *documented("init"))
    assert (code, "prepare-store" in said) == (3, True)
    # Without the owner's address they cannot be created.
    assert containers.run("api", "prepare-store")[0] == 3
    assert containers.run("prepare")[0] == 0
    assert "up to date" in containers.run("prepare")[1]

    assert containers.run("api", *documented("init"))[0] == 0
    command = [resolved(word) for word in SERVICES["api"]["command"]]
    code, _, said = containers.run("api", *command)
    assert (code, "truespan token create" in said) == (2, True)
    code, made, _ = containers.run("api", *documented("token create"), "--json")
    assert code == 0
    token = json.loads(made)["secret"]

    containers.enter("api")
    options = [word for word in command[1:] if word not in ("--host", "0.0.0.0", "--port", "8700")]
    with served(containers.library, *options) as server:
        mine = server.under(token)
        check = SERVICES["api"]["healthcheck"]["test"]
        assert check[:3] == ["CMD", "python", "-c"]
        port = server.address.rsplit(":", 1)[1].strip("/")
        # How long it takes on a busy machine is not the question here.
        code = check[3].replace("8700", port).replace("timeout=5", "timeout=60")
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
        assert server.get("v1/worlds").status_code == 401
        files = {"file": ("keys.md", KEYS.encode())}
        sent = mine.ask("POST", "v1/worlds/reading/documents", files=files)
        assert sent.status_code == 202, sent.text

        assert containers.run("worker", "worker", "--once")[0] == 0
        job = sent.headers["location"]
        until(lambda: mine.get(job).json()["job"]["state"] == "done")
        found = mine.post("v1/worlds/reading/search", {"query": "Where is the spare key?"}).json()
        assert found["passages"][0]["source"] == "keys.md"
        check = SERVICES["worker"]["healthcheck"]["test"]
        code, shown, _ = containers.run("worker", *check[2:])
        assert (code, len(json.loads(shown)["worlds"])) == (0, 1)

    backup = tmp_path / "library.backup"
    assert containers.run("api", "backup", "--with-keys", str(backup))[0] == 0
    manifest: Any = truespan.verify_backup(backup)
    assert (manifest.worlds, manifest.documents) == (1, 1)


def database_commands(section: str) -> list[list[str]]:
    text = GUIDE.partition(f"# {section}\n")[2].partition("\n#")[0]
    lines = re.findall(r"docker compose exec -T postgres ([^`\n]*)", text)
    return [shlex.split(re.sub(r"[<>].*", "", line)) for line in lines]


def run_programs(database: Database, commands: list[list[str]], dump: Path) -> None:
    """Run commands against a database; those that read or write a dump use the file."""
    for name, *words in commands:
        changed = [
            word.replace("truespan_owner", OWNER_ROLE) if "owner" in word
            else word.replace("truespan", database.name)
            for word in words
        ]  # fmt: skip
        command = [programs() / name, f"--host={database.server.folder}", *changed]
        content = dump.read_bytes() if name == "pg_restore" else None
        done = subprocess.run(command, input=content, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), (name, done.stderr)
        if name == "pg_dump":
            dump.write_bytes(done.stdout)


@proves("operations.compose-commands")
def test_documented_commands_restore_a_dump(tmp_path: Path) -> None:
    (backup,), back = database_commands("Back up")[:1], database_commands("Roll back")
    restore = database_commands("Back up")[1:]
    assert [command[0] for command in [backup, *back]] == [
        *("pg_dump", "dropdb", "createdb", "pg_restore")
    ]
    assert [command[0] for command in restore] == ["pg_restore"]
    database, dump = fresh_database(), tmp_path / "dump"
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "truespan.toml").write_text('store_url_file = "url"\n')
    (folder / "url").write_text(database.url.reveal())

    def content() -> tuple[list[str], list[str]]:
        with truespan.open(folder) as library:
            worlds = [world.name for world in library.worlds()]
            return worlds, [token.name for token in library.tokens.list()]

    with truespan.open(folder) as library:
        library.create_world("reading")
        library.tokens.create("app", worlds=["reading"])
    run_programs(database, [backup], dump)
    with truespan.open(folder) as library:
        library.create_world("since")

    # Roll back on the same server.
    run_programs(database, back, dump)
    prepare_store(database.owner_url, APPLICATION, also=prepare_queue)
    assert content() == (["reading"], ["app"])

    # Restore on an empty server, which has the two roles and an empty database.
    running = another_server()
    with running.admin() as admin:
        admin.execute(cast("Any", f"CREATE DATABASE again OWNER {OWNER_ROLE} TEMPLATE template0"))
    again = Database(running, "again")
    (folder / "url").write_text(again.url.reveal())
    prepare_store(again.owner_url, APPLICATION, also=prepare_queue)
    run_programs(again, restore, dump)
    prepare_store(again.owner_url, APPLICATION, also=prepare_queue)
    assert content() == (["reading"], ["app"])
