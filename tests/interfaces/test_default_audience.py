"""The audience of new documents of a world: chosen by every interface, stored and carried."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import truespan
from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.cli import run
from truespan.engine.world import World
from truespan.errors import InvalidArgument, StoreDamaged
from truespan.extensions.cluster.copy import copy_rows, rows_of
from truespan.ingest.draft import Preparation
from truespan.types.audience import AudienceRule

LEGAL = ("group:legal",)


def labels_in(world: World) -> dict[str, tuple[str, ...]]:
    return {document.name: document.audience for document in world.documents.list()}


@proves("audience.default")
def test_new_documents_have_the_audience_of_their_world(tmp_path: Path) -> None:
    rules = (AudienceRule(("group:hr",), "hr/**"),)
    lib = make_library(tmp_path, preparation=Preparation(audiences=rules))
    world = lib.library.create_world("world", audience=["group:legal"])
    world.add_text("A lamp.", id="lamp.txt")
    world.add_text("A rope.", id="rope.txt", audience=["everyone"])
    lib.write("f/hr/pay.txt", "The payroll.")
    lib.write("f/side.txt", "The side.")
    world.ingest(str(tmp_path / "files" / "f"))
    expected = {"lamp.txt": LEGAL, "rope.txt": ("everyone",), "pay.txt": ("group:hr",)}
    assert labels_in(world) == {**expected, "side.txt": LEGAL}

    world.set_defaults(audience=[])
    world.add_text("A lamp again.", id="lamp.txt")
    world.add_text("A secret.", id="secret.txt")
    assert labels_in(world) == {**expected, "side.txt": LEGAL, "secret.txt": ()}
    assert lib.library.create_world("plain").documents.default_audience == ("everyone",)


@proves("audience.declared")
def test_new_rule_applies_to_unchanged_files(tmp_path: Path, lib: LibraryFixture, world: World):
    lib.write("f/hr/pay.txt", "The payroll.")
    world.ingest(str(tmp_path / "files" / "f"))
    assert labels_in(world) == {"pay.txt": ("everyone",)}

    rules = (AudienceRule(("group:hr",), "hr/**"),)
    components = replace(world.access.components, preparation=Preparation(audiences=rules))
    ruled = World(replace(world.access, components=components))
    assert ruled.ingest(str(tmp_path / "files" / "f")).unchanged == 1
    assert labels_in(world) == {"pay.txt": ("group:hr",)}


@proves("audience.default")
def test_world_may_require_an_audience(lib: LibraryFixture) -> None:
    world = lib.library.create_world("world", audience_required=True)
    assert world.documents.default_audience is None
    report = world.add_texts(["A lamp."], ids=["lamp.txt"])
    assert [failure.code for failure in report.failures] == ["audience_missing"]
    assert world.add_text("A lamp.", id="lamp.txt", audience=LEGAL).failures == []
    assert world.add_text("A lamp at night.", id="lamp.txt").failures == []
    assert labels_in(world) == {"lamp.txt": LEGAL}

    world.set_defaults("contract")
    assert (world.documents.default_audience, world.defaults) == (None, "contract")
    world.set_defaults(audience_required=False)
    assert world.documents.default_audience == ("everyone",)
    with pytest.raises(InvalidArgument):
        world.set_defaults(audience=["a"], audience_required=True)
    with pytest.raises(InvalidArgument):
        lib.library.create_world("other", audience=[" "])


@proves("audience.default")
def test_default_audience_is_hidden_from_callers_with_labels(lib: LibraryFixture) -> None:
    world = lib.library.create_world("world", audience=["group:hr"])
    limited = world.for_audience(["group:legal"])
    assert limited.documents.default_audience is None
    with raises_code("world_not_found"):
        limited.set_defaults(audience=["group:legal"])
    token = lib.library.tokens.create("t", worlds=["world"], audience=["group:legal"])[1].reveal()
    with serve_library(lib.library) as client:
        replies = [
            client.json("GET", path, token=token).body
            for path in ("/v1/worlds", "/v1/worlds/world")
        ]
    assert not any(b"group:hr" in reply for reply in replies)


@proves("audience.default")
def test_default_audience_is_set_over_http(lib: LibraryFixture) -> None:
    with serve_library(lib.library) as client:
        made = client.json("POST", "/v1/worlds", {"name": "w", "audience": ["group:b", "group:a"]})
        assert made.status == 201

        def change(**body: Any) -> Any:
            return client.json("PUT", "/v1/worlds/w/defaults", body).content.get(
                "audience", "error"
            )

        assert client.json("GET", "/v1/worlds/w").content["audience"] == ["group:a", "group:b"]
        assert change(defaults="contract") == ["group:a", "group:b"]
        assert change(audience_required=True) is None
        assert change(audience=[]) == []
        assert change(audience=["x"], audience_required=True) == "error"


@proves("audience.default")
def test_default_audience_is_set_by_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:

    def show(*arguments: str) -> Any:
        capsys.readouterr()
        assert run([*arguments, "--library", str(tmp_path / "l")]) == 0
        said = capsys.readouterr().out
        return json.loads(said) if "--json" in arguments else said

    show("init", "--world", "w", "--audience", "group:legal")
    show("init", "--world", "w", "--audience", "group:other")
    assert show("config", "-w", "w", "--json")["audience"] == ["group:legal"]
    assert "New documents are for group:legal." in show("config", "-w", "w")
    assert "must declare an audience" in show("config", "--audience-required")
    assert show("config", "--audience-optional", "--json")["audience"] == ["everyone"]


@proves("audience.default", "audience.carried")
def test_default_audience_is_copied_and_checked(tmp_path: Path) -> None:
    lib = make_library(tmp_path / "one", store="sqlite")
    lib.library.create_world("a", audience=["group:legal"])
    lib.library.create_world("b", audience_required=True)
    server: LibraryFixture = make_library(tmp_path / "server", store="postgres")
    back = make_library(tmp_path / "back", store="sqlite")
    copy_rows(rows_of(lib.store), rows_of(server.store))
    copy_rows(rows_of(server.store), rows_of(back.store))
    for copy in (server, back):
        found = {entry.name: entry.audience for entry in copy.library.worlds()}
        assert found == {"a": LEGAL, "b": None}

    for copy, table in ((back, "worlds"), (server, "directory")):
        for text in ("'everyone'", "NULL"):
            copy.sql(f"UPDATE {table} SET audience = {text} WHERE name = 'a'")
            with pytest.raises(StoreDamaged):
                copy.library.world("a")


@proves("audience.default", "audience.carried")
def test_default_audience_is_part_of_backups(tmp_path: Path) -> None:
    with truespan.open(tmp_path / "one", create=True) as library:
        library.create_world("a", audience=["group:legal"])
        library.backup(tmp_path / "backup")
    truespan.restore(tmp_path / "backup", tmp_path / "two")
    with truespan.open(tmp_path / "two") as library:
        assert library.world("a").documents.default_audience == LEGAL
