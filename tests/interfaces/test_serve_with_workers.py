"""A server on a library in PostgreSQL: uploads are ingested by a worker."""

import json
from pathlib import Path

import httpx2
import pytest

from tests.interfaces.test_cli import KEYS, Terminal
from tests.interfaces.test_upkeep_commands import a_worker
from tests.support.http_server import TIMEOUT, Served, served
from tests.support.postgres import fresh_database
from truespan.wiring import open_library


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "url").write_text(fresh_database().url.reveal())
    (folder / "truespan.toml").write_text('store_url_file = "url"\n')
    made = Terminal(tmp_path, capsys)
    assert made("init", "--world", "w")[0] == 0
    return made


def told_of(server: Served, job: str) -> list[str]:
    """Return the states in the events of a job until it is over."""
    address = f"{server.address}v1/worlds/w/jobs/{job}"
    accept = {"accept": "text/event-stream"}
    states = []
    with httpx2.stream("GET", address, headers=accept, timeout=TIMEOUT) as reply:
        for line in reply.iter_lines():
            if line.startswith("data:"):
                found = json.loads(line.removeprefix("data:"))
                states.append(found.get("job", found)["state"])
    return states


def test_worker_ingests_an_upload_and_events_report_it(terminal: Terminal) -> None:
    folder = terminal.folder / "library"
    with served(folder) as server:
        reply = server.ask(
            "POST", "v1/worlds/w/documents", files={"file": ("keys.md", KEYS.encode())}
        )
        assert reply.status_code == 202
        job = reply.json()["job"]["id"]
        # The server itself does nothing about it.
        assert server.get(f"v1/worlds/w/jobs/{job}").json()["job"]["state"] == "queued"
        with a_worker(terminal):
            states = told_of(server, job)
            repair = server.post("v1/worlds/w/doctor", {"repair": True}).json()["job"]
            looked = server.post("v1/worlds/w/doctor", {"apply": True}).json()["job"]
            ended = [told_of(server, one["id"])[-1] for one in (repair, looked)]
        assert (states[0] in ("queued", "running"), states[-1]) == (True, "done")
        assert ended == ["done", "done"]
        lines = server.get(f"v1/worlds/w/jobs/{looked['id']}").json()["lines"]
        assert lines[-1]["line"] == "Store and index agree: nothing to do."
        found = server.post("v1/worlds/w/search", {"query": "Where is the spare key?"}).json()
        assert found["passages"][0]["source"] == "keys.md"
    with open_library(folder) as library:
        library._components.index.retire()  # type: ignore[attr-defined]
