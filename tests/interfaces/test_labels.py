"""Labels, metadata and facets from the command line and over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.interfaces.http_client import Client, until
from tests.interfaces.tenants import BOUNDARY, form
from tests.interfaces.test_cli import NIGHT, Terminal, terminal
from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library

__all__ = ["terminal"]
URL = "https://wiki.example/night"


@proves("document.labels-cost-nothing", "request.facets")
def test_labels_on_the_command_line(terminal: Terminal) -> None:
    path = terminal.write("night.txt", NIGHT)
    assert terminal("init", "--world", "w")[0] == 0
    options = ("--meta", "team=a", "--meta", "year=2020", "--meta", 'code="007"', "--tag", "x")
    assert terminal("ingest", path, *options, "--source-url", URL)[0] == 0

    code, shown = terminal.json("show", "night.txt")
    assert shown["document"]["metadata"] == {"code": "007", "team": "a", "year": 2020}
    assert (shown["document"]["source_url"], shown["document"]["tags"]) == (URL, ["x"])
    code, out, _ = terminal("show", "night.txt")
    lines = (f"source: {URL}", "tags: x", 'code = "007"', 'team = "a"', "year = 2020")
    assert set(lines) <= set(out.splitlines())
    code, listing = terminal.json("status", "-w", "w")
    assert listing["documents"][0]["metadata"]["year"] == 2020
    assert "code=007, team=a, year=2020" in terminal("status", "-w", "w")[1]

    changes = ("--meta", "open=true", "--meta", "team=", "--tag", "", "--source-url", "")
    code, out, _ = terminal("label", "night.txt", *changes, "--version", "2.0")
    assert code == 0
    assert f"source: {path}" in out
    code, changed = terminal.json("label", "night.txt", "--meta", "year=2021")
    document = changed["document"]
    assert document["metadata"] == {"code": "007", "open": True, "year": 2021}
    assert (document["tags"], document["version"], document["source_url"]) == ([], "2.0", None)

    code, out, _ = terminal("status", "--by", "all", "-w", "w")
    assert "1 document, 1 chunk that can be searched" in out
    assert "metadata year: 1 document, from 2021 to 2021" in out
    assert "  1  007  1 chunk" in out
    code, found = terminal.json("status", "--by", "open", "--where", "year>=2021")
    assert found["facets"] == [
        {
            "key": "open", "metadata": True, "documents": 1, "more_values": 0, "least": None,
            "greatest": None,
            "values": [{"value": True, "kind": "boolean", "documents": 1, "chunks": 1}],
        }
    ]  # fmt: skip

    table = terminal.write("desk.csv", "ticket,body,by\nT-1,The lamp is out.,Ann\n")
    fields = ("--field", "text=body", "--field", "id=ticket", "--field", "metadata=by")
    assert terminal("ingest", table, *fields)[0] == 0
    code, shown = terminal.json("show", "desk.csv/T-1")
    assert shown["document"]["metadata"] == {"by": "Ann"}

    for arguments, reason in (
        (("ingest", path, "--meta", "team"), "--meta 'team' is not key=value."),
        (("ingest", path, "--meta", "a="), "has no value"),
        (("ingest", path, "--field", "body"), "--field 'body' is not NAME=FIELD"),
        (("ingest", path, "--field", "id=a", "--field", "id=b"), "--field id is given twice."),
        (("ingest", path, "--field", "title=a"), "fields must name the text"),
        (("ingest", path, "--source-url", "x"), "source_url must be"),
        (("label", "night.txt"), "nothing to change"),
        (("label", "night.txt", "--meta", "a=1", "--meta", "a="), "sets and removes the key 'a'"),
        (("ingest", path, "-o", "tags=a"), "Names are ocr"),
        (("search", "lamp", "-o", "neighbours"), "is not NAME=VALUE"),
        (("label", "absent.txt", "--tag", "x"), "absent.txt"),
        (("status", "--by", "all", "--where", "a!=1"), "--where"),
        (("status", "--where", "a=1"), "--where needs --by"),
        (("status", "--by", "all", "--freshness"), "--freshness"),
    ):
        code, _, err = terminal(*arguments)
        assert code != 0, arguments
        assert reason in err, arguments


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library")
    made.world("w")
    yield made
    made.library.close()


def upload(client: Client, **fields: str) -> Any:
    headers = [("content-type", f"multipart/form-data; boundary={BOUNDARY}")]
    body = form(fields, name="a.txt", text=NIGHT.encode())
    return client.send("POST", "/v1/worlds/w/documents", headers=headers, body=body)


@proves("document.labels-cost-nothing", "request.facets")
def test_labels_over_http(lib: LibraryFixture, client: Client) -> None:
    metadata = {"team": "a", "year": 2020, "topics": ["x", "y"]}
    accepted = upload(client, source_url=URL, metadata=json.dumps(metadata), tags="net")
    assert accepted.status == 202
    job = accepted.content["job"]["id"]
    until(lambda: client.json("GET", f"/v1/worlds/w/jobs/{job}").content["job"]["state"] == "done")
    [listed] = client.json("GET", "/v1/worlds/w/documents").content["documents"]
    assert (listed["metadata"], listed["source_url"], listed["tags"]) == (metadata, URL, ["net"])
    embedded = len(lib.embedder.documents)

    address = "/v1/worlds/w/documents/a.txt"
    changes = {"metadata": {"year": None, "open": True}, "tags": None, "language": "de"}
    changed = client.json("PATCH", address, changes)
    assert changed.status == 200
    assert changed.content["metadata"] == {"team": "a", "topics": ["x", "y"], "open": True}
    assert (changed.content["tags"], changed.content["language"]) == ([], "de")
    assert changed.content["source_url"] == URL
    assert client.json("PATCH", address, {}).content == changed.content
    shown = client.json("GET", address).content
    assert shown["document"] == changed.content
    assert shown["metadata"]["open"] is True
    assert len(lib.embedder.documents) == embedded

    query = f"?keys={quote(json.dumps(['topics', 'language']))}&limit=1"
    facets = client.json("GET", f"/v1/worlds/w/facets{query}").content
    assert [(facet["key"], facet["more_values"]) for facet in facets["facets"]] == [
        ("language", 0),
        ("topics", 1),
    ]
    conditions = quote(json.dumps({"team": {"any_of": ["b"]}}))
    assert (
        client.json("GET", f"/v1/worlds/w/facets?metadata={conditions}").content["documents"] == 0
    )

    for response, code in (
        (upload(client, metadata="[1]"), 400),
        (upload(client, metadata='{"a": NaN}'), 400),
        (upload(client, fields="[1]"), 400),
        (upload(client, fields='{"title": "a"}'), 400),
        (upload(client, source_url="lamp"), 400),
        (client.json("PATCH", address, {"title": "x"}), 400),
        (client.json("PATCH", address, {"language": None}), 400),
        (client.json("PATCH", address, {"metadata": {"x": "y" * 17_000}}), 400),
        (client.json("PATCH", "/v1/worlds/w/documents/b.txt", {"tags": []}), 404),
        (client.json("GET", "/v1/worlds/w/facets?keys=team"), 400),
        (client.json("GET", "/v1/worlds/w/facets?keys={}"), 400),
        (client.json("GET", "/v1/worlds/w/facets?limit=0"), 400),
        (client.json("GET", "/v1/worlds/none/facets"), 404),
    ):
        assert response.status == code, response.content
    assert client.json("GET", address).content["document"] == changed.content


def test_commands_print_no_direction_overrides(terminal: Terminal) -> None:
    """A terminal shows control characters of names and labels as escapes."""
    hostile, shown = "a\u202eb\u2066c\u2028d", R"a\u202eb\u2066c\u2028d"
    path = terminal.write("night.txt", NIGHT)
    assert terminal("init", "--world", "w")[0] == 0
    labels = ("--meta", f"team={hostile}", "--tag", hostile)
    assert terminal("ingest", path, *labels)[0] == 0

    for command in (("status", "--by", "all"), ("show", "night.txt"), ("status", "-w", "w")):
        code, out, _ = terminal(*command)
        assert (code, shown in out) == (0, True), out
        assert not set(hostile[1::2]) & set(out)
        code, found = terminal.json(*command)
        assert (code, hostile in json.dumps(found, ensure_ascii=False)) == (0, True)
    code, out, error = terminal("show", hostile)
    assert (code, set(hostile[1::2]) & set(out + error)) == (2, set())
