"""Times are ISO 8601 in UTC in every HTTP reply and in every --json output."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interfaces.http_client import serve_library, until
from tests.interfaces.tenants import BOUNDARY, form
from tests.interfaces.test_cli import NIGHT, Terminal, terminal
from tests.promises import proves
from tests.support.worlds import make_library
from truespan.core.clock import format_time
from truespan.extensions.server.http.openapi import make_document
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.maintenance.delete import digest_of

__all__ = ["terminal"]

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def times_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all members that are times, by name."""
    if isinstance(value, list):
        for entry in value:
            yield from times_in(entry)
    elif isinstance(value, dict):
        for name, entry in value.items():
            if name == "at" or name.endswith("_at"):
                yield name, entry
            yield from times_in(entry)


def require_iso(value: Any, *expected: str) -> None:
    found = dict(times_in(value))
    assert found.keys() >= set(expected), found
    for name, time in times_in(value):
        assert time is None or ISO.fullmatch(time), (name, time)


def test_time_is_written_in_utc() -> None:
    assert format_time(0.0) == "1970-01-01T00:00:00.000Z"
    assert format_time(1_769_851_800.25) == "2026-01-31T09:30:00.250Z"


@proves("interfaces.iso-times")
def test_every_time_in_the_openapi_document_is_a_date_time() -> None:
    schemas = json.loads(make_document(OPERATIONS, needs_token=False))["components"]["schemas"]
    checked = 0
    for kind, schema in schemas.items():
        for name, member in schema.get("properties", {}).items():
            if name == "at" or name.endswith("_at"):
                variants = [one for one in member.get("anyOf", [member]) if one["type"] != "null"]
                assert variants == [{"type": "string", "format": "date-time"}], (kind, name)
                checked += 1
    assert checked >= 7


@proves("interfaces.iso-times")
def test_http_replies_have_iso_times(tmp_path: Path) -> None:
    lib = make_library(tmp_path / "library")
    lib.world("w", a__txt=NIGHT)
    with serve_library(lib.library) as client:
        headers = [("content-type", f"multipart/form-data; boundary={BOUNDARY}")]
        path = "/v1/worlds/w/documents"
        sent = client.send("POST", path, headers=headers, body=form({}))
        job = sent.header("location") or ""
        until(lambda: client.json("GET", job).content["job"]["state"] == "done")
        require_iso(sent.content, "created_at", "seen_at", "finished_at")
        examined = client.json("POST", "/v1/worlds/w/doctor", {"apply": False})
        doctor = examined.header("location") or ""
        until(lambda: client.json("GET", doctor).content["job"]["state"] == "done")
        require_iso(client.json("GET", doctor).content, "created_at", "finished_at", "at")
        require_iso(client.json("GET", "/v1/worlds/w/jobs").content, "created_at")
        events = client.json("GET", job, headers=[("accept", "text/event-stream")]).body.decode()
        require_iso(json.loads(events.partition("data: ")[2]), "created_at")
        require_iso(client.json("GET", "/v1/worlds/w/generations").content, "created_at")
        client.json("POST", "/v1/worlds/w/answer", {"query": "When did the lamp go out?"})
        require_iso(client.json("GET", "/v1/worlds/w/usage").content, "created_at")
        receipt = client.json("DELETE", f"{path}/a.txt").content
        require_iso(receipt, "deleted_at")
        assert receipt["digest"] == digest_of(receipt)


@proves("interfaces.iso-times")
def test_json_outputs_have_iso_times(terminal: Terminal) -> None:
    terminal("init", "-w", "w")
    terminal.write("empty.txt", " ")
    terminal.write("night.txt", NIGHT)
    terminal("ingest", str(terminal.files), "-w", "w")
    for command, expected in (
        (["token", "create", "t", "-w", "w", "--expires", "1d"], ["created_at", "expires_at"]),
        (["token", "list"], ["created_at", "expires_at", "revoked_at"]),
        (["jobs", "show", "-w", "w"], ["created_at", "seen_at", "finished_at"]),
        (["generations", "-w", "w"], ["created_at"]),
        (["backup", str(terminal.folder / "b.backup")], ["created_at"]),
    ):
        require_iso(terminal.json(*command)[1], *expected)
    job = terminal.json("jobs", "show", "-w", "w")[1]["jobs"][0]["id"]
    require_iso(terminal.json("jobs", "show", job, "-w", "w")[1], "created_at", "at")

    terminal("ask", "When did the lamp go out?", "-w", "w")
    require_iso(terminal.json("status", "--usage", "-w", "w")[1], "created_at")

    receipt = terminal.json("delete", "night.txt", "-w", "w")[1]["receipt"]
    require_iso(receipt, "deleted_at")
    assert receipt["digest"] == digest_of(receipt)
