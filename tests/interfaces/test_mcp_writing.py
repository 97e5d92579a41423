"""MCP tools that write: their callers, effects and secrets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from mcp.shared.exceptions import MCPError

import truespan
from tests.interfaces.mcp_clients import BOOK, UNREAD, code_of, command, found_in, session, texts_of
from tests.interfaces.mcp_http import message_of, serving
from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.extensions.server.http.streamable import select_target
from truespan.extensions.server.mcp.caller import (
    NOTHING_WRITTEN,
    AnonymousAccess,
    CallerContext,
    WritePermissions,
    narrow_caller,
)
from truespan.extensions.server.mcp.server import call_tool
from truespan.extensions.server.mcp.tools import ROLES, role_for
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, Authority, Verb
from truespan.types.token import Principal

QUESTION = "Who had the key to the tower?"
MOVE = WritePermissions(may_move=True)
NOTE = WritePermissions(may_note=True)
NOTE_AND_MOVE = WritePermissions(may_move=True, may_note=True)
READ_UNTIL = 5
"""The last sentence of chapter one."""


class Caller:
    """A caller with permissions, whose tools are called in this process."""

    def __init__(
        self, lib: LibraryFixture, reader: str | None, permissions: WritePermissions
    ) -> None:
        world = WorldId(lib.library.world("w").id)
        self.role = role_for(reader, permissions)
        self.context = narrow_caller(lib.library, OWNER, world, reader, permissions)

    def call(self, name: str, **arguments: Any) -> Any:
        (tool,) = (tool for tool in self.role.tools if tool.name == name)
        subject = self.context if tool.writes else self.context.subject()
        result = call_tool(tool, arguments, subject)
        content = json.loads(msgspec.json.encode(result["structuredContent"]))
        jsonschema.validate(content, tool.to_json()["outputSchema"])
        self.everything = json.dumps(result, default=msgspec.to_builtins)
        self.text = "\n".join(block["text"] for block in result["content"])
        return content

    def refusal(self, name: str, **arguments: Any) -> str:
        return self.call(name, **arguments)["error"]["code"]


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path)
    world = made.library.create_world("w")
    world.ingest(made.write("lamp.md", BOOK), kind="book")
    world.ingest(made.write("other.md", "# Elsewhere\n\nThe gardener hid a spade.\n"), title="Digs")
    world.reader("ann").set_position("lamp.md", through_chapter="One")
    with made.library:
        yield made


# Roles


@proves("mcp.writes-opt-in", "mcp.no-position-argument")
def test_writing_tools_need_operator_and_token(lib: LibraryFixture) -> None:
    world = WorldId(lib.library.world("w").id)
    everything = WritePermissions(may_move=True, may_ingest=True)
    notes = WritePermissions(may_ingest=True)
    anonymous = AnonymousAccess(owner=True)
    rows = [
        # verbs of the token, reader in the address, what the operator allows, the role
        ("read write", None, NOTHING_WRITTEN, "owning"),
        ("read write", None, MOVE, "owning"),
        ("read", None, everything, "owning"),
        ("read write", None, notes, "noting"),
        ("read write", None, everything, "noting"),
        ("read follow write", "ann", NOTHING_WRITTEN, "reading"),
        ("read follow write", "ann", notes, "reading"),
        ("read follow write", "ann", MOVE, "moving"),
        ("follow", "ann", MOVE, "reading"),
        ("follow write", "ann", MOVE, "reading"),
        ("read follow", "ann", MOVE, "reading"),
        ("follow", "ann", NOTE, "reading and noting"),
        ("read follow write", "ann", NOTE_AND_MOVE, "moving and noting"),
        ("read write", None, NOTE, "owning"),
    ]
    for verbs, reader, permissions, expected in rows:
        authority = Authority(frozenset([world]), frozenset(map(Verb, verbs.split())))
        target = select_target(
            lib.library, anonymous, Principal("t", authority), "w", reader, permissions
        )
        assert target.role.name == expected, (verbs, reader, permissions)
        writes = expected not in ("owning", "reading", "reading and noting")
        assert (target.caller.writer is not None) == writes
        assert target.caller.world.access.authority.verbs == {Verb.FOLLOW if reader else Verb.READ}
    bound = Authority(frozenset([world]), frozenset([Verb.FOLLOW]), frozenset(["ann"]))
    assert (
        select_target(
            lib.library, anonymous, Principal("t", bound), "w", permissions=MOVE
        ).role.name
        == "reading"
    )
    for response, role in ((AnonymousAccess("w", "ann"), "moving"), (anonymous, "noting")):
        local = Principal(None, OWNER)
        target = select_target(lib.library, response, local, "w", permissions=everything)
        assert target.role.name == role
    writing = {"set_position", "add_note"}
    offered = {role.name: {tool.name for tool in role.tools} & writing for role in ROLES}
    assert offered == {
        "reading": set(),
        "moving": {"set_position"},
        "owning": set(),
        "noting": {"add_note"},
        "reading and noting": {"add_note"},
        "moving and noting": {"set_position", "add_note"},
    }


@proves("mcp.writes-opt-in")
def test_writing_tool_refuses_a_caller_without_permission(lib: LibraryFixture) -> None:
    world = lib.library.world("w")
    for role, name, arguments in (
        (ROLES[1], "set_position", {"book": "lamp.md", "sentence": 8}),
        (ROLES[3], "add_note", {"title": "x", "text": "y"}),
    ):
        (tool,) = (tool for tool in role.tools if tool.name == name)
        result = call_tool(tool, arguments, CallerContext(world, "ann"))
        assert result["structuredContent"]["error"]["code"] == "not_allowed"
    assert world.reader("ann").position().sid == READ_UNTIL
    assert len(world.documents.list()) == 2


@proves("mcp.writes-opt-in")
def test_a_server_writes_only_with_its_option(library: Path) -> None:
    with session(command(library, "--reader", "ann"), library.parent / "plain.log") as plain:
        assert "set_position" not in plain.tools()
        with pytest.raises(MCPError, match="--may move") as refused:
            plain.call("set_position", sentence=8)
        assert refused.value.error.code == -32602
    moving = command(library, "--reader", "ann", "--may", "move")
    with session(moving, library.parent / "moving.log") as mover:
        hints = mover.tools()["set_position"].annotations
        assert hints is not None
        assert hints.read_only_hint is False
        back = found_in(mover.call("set_position", through_chapter="One"))
        forth = mover.call("set_position", sentence=back["before"])
    with truespan.open(library) as opened:
        where = opened.world("w").reader("ann").position()
    assert (back["position"]["sid"], back["before"]) == (5, 8)
    assert found_in(forth)["position"]["sid"] == where.sid == 8
    assert "it was sentence 5" in texts_of(forth)[0]
    ingesting = command(library, "--owner", "--may", "ingest")
    with session(ingesting, library.parent / "ingesting.log") as owner:
        assert set(owner.tools()) == {"search", "retrieve", "add_note"}
        added = found_in(owner.call("add_note", title="Tides", text="High water is at noon."))
        again = owner.call("add_note", title="Tides", text="It is at one.")
        found = owner.call("search", query="When is high water?", top_k=1)
    with truespan.open(library) as opened:
        opened.world("w").documents.delete(added["doc_id"])
    assert code_of(again) == "invalid_argument"
    assert texts_of(found)[0].startswith("[1] Tides, sentence 0\n~~~\nHigh water is at noon.\n~~~")


@proves("mcp.writes-opt-in", "authority.only-narrows")
def test_mcp_over_http_follows_permissions_of_tokens(lib: LibraryFixture) -> None:
    def token(**allowed: Any) -> str:
        return lib.library.tokens.create("a token", worlds="w", **allowed)[1].reveal()

    full, reading = token(verbs=["read", "follow", "write"]), token(verbs=["read", "follow"])
    bound = token(readers="ann")
    permissions = WritePermissions(may_move=True, may_ingest=True)
    move = {"name": "set_position", "arguments": {"through_chapter": "Two"}}
    note = {"name": "add_note", "arguments": {"title": "Tides", "text": "High water at noon."}}
    with serving(lib.library, AnonymousAccess(), permissions=permissions) as at:
        for key, path, call, allowed in (
            (reading, "/w/ann", move, False),
            (bound, "/w/ann", move, False),
            (full, "/w", move, False),
            (reading, "/w", note, False),
            (full, "/w/ann", note, False),
            (full, "/w/ann", move, True),
            (full, "/w", note, True),
        ):
            session = at.begin(key, path)
            listed = message_of(at.call(session, "tools/list", key, path))["result"]["tools"]
            reply = message_of(at.call(session, "tools/call", key, path, **call))
            assert (call["name"] in [tool["name"] for tool in listed]) == allowed, (path, call)
            assert ("result" in reply) == allowed, reply
            if not allowed:
                assert reply["error"]["code"] == -32602
        assert lib.library.world("w").reader("ann").position().sid == 8
        # A session with tools that write is unknown to a token without them.
        session = at.begin(full, "/w/ann")
        assert at.call(session, "tools/list", reading, "/w/ann").status_code == 404


# Positions


@proves("mcp.writes-opt-in", "reading.never-past-position")
def test_set_position_moves_both_ways_and_reports_the_previous(lib: LibraryFixture) -> None:
    ann = Caller(lib, "ann", MOVE)

    forward = ann.call("set_position", through_chapter="Two")
    assert (forward["position"]["sid"], forward["before"]) == (8, READ_UNTIL)
    assert "Osric lit the lamp" in ann.text
    assert "Before, it was sentence 5." in ann.text
    far = ann.call("set_position", book="lamp.md", passage="copied the key in candle wax")
    assert far["position"]["sid"] == 11
    back = ann.call("set_position", sentence=forward["before"])
    assert (back["position"]["sid"], back["before"]) == (READ_UNTIL, 11)
    for word in UNREAD:
        assert word not in ann.everything
    ann.call("retrieve_context", query=QUESTION)
    assert "Storm" not in ann.everything
    assert ann.call("set_position", sentence=-1)["position"]["last_sentence"] is None
    assert "nothing read yet" in ann.text


@proves("mcp.writes-opt-in", "reading.never-past-position", "reading.non-interference")
def test_refused_position_reveals_nothing_unread(lib: LibraryFixture) -> None:
    ann, world = Caller(lib, "ann", MOVE), lib.library.world("w")
    asked = [
        {"through_chapter": "T"}, {"through_chapter": "Nine"}, {"through_chapter": "99"},
        {"sentence": 9_999}, {"passage": "the"}, {"passage": "not in this book at all"}, {},
        {"sentence": 1, "through_chapter": "One"},
    ]  # fmt: skip

    def replies() -> list[str]:
        said = []
        for arguments in asked:
            assert ann.refusal("set_position", **arguments) == "invalid_argument", arguments
            said.append(ann.everything)
        return said

    before = replies()
    assert "Chapters reached so far: The Lamp; One: The Keeper." in before[1]
    for word in (*UNREAD, "Storm", "Three"):
        assert word not in "".join(before)
    ahead = "## Two: Tea\n\nThe tea was cold.\n\n## Three: Trains\n\nThe train left. The end.\n"
    world.ingest(lib.write("lamp.md", BOOK.partition("## Two")[0] + ahead), kind="book")
    assert replies() == before
    assert world.reader("ann").position().sid == READ_UNTIL


def test_reader_with_permission_lists_books_and_begins_one(lib: LibraryFixture) -> None:
    bob = Caller(lib, "bob", MOVE)

    listed = bob.call("list_books")
    assert listed["books"] == []
    assert [book["title"] for book in listed["others"]] == ["lamp.md", "Digs"]
    assert "set_position" in bob.text
    assert bob.refusal("set_position", through_chapter="1") == "invalid_argument"
    assert "list_books" in bob.text
    assert bob.refusal("set_position", book="nowhere", through_chapter="1") == "document_not_found"
    begun = bob.call("set_position", book="digs", through_chapter="1")
    assert (begun["before"], begun["position"]["source"]) == (None, "other.md")
    listed = bob.call("list_books")
    assert [book["source"] for book in listed["books"]] == ["other.md"]
    assert [book["source"] for book in listed["others"]] == ["lamp.md"]
    bob.call("get_reading_position", book="lamp.md")
    assert "Call list_books" in bob.text


# Documents


@proves("mcp.writes-opt-in")
def test_note_is_searchable_and_replaces_only_on_request(lib: LibraryFixture) -> None:
    owner = Caller(lib, None, WritePermissions(may_ingest=True))
    world = lib.library.world("w")

    note = owner.call("add_note", title="a/b \\ c", text="The ferry sails at ten.", tags=["sea"])
    assert (note["title"], note["source"]) == ("a/b \\ c", "a-b - c.note.md")
    assert world.documents.get(note["doc_id"]).tags == ("sea",)
    owner.call("search", query="ferry sails at ten", top_k=1)
    assert "The ferry sails at ten." in owner.text
    assert owner.refusal("add_note", title="a/b \\ c", text="Never.") == "invalid_argument"
    assert "replace" in owner.text
    replaced = owner.call("add_note", title="a/b \\ c", text="It sails at two.", replace=True)
    assert replaced == note
    assert "at two" in world.documents.text(note["doc_id"])
    # A note has the name of no file.
    owner.call("add_note", title="lamp.md", text="Not the book.")
    owner.call("add_note", title="lamp", text="Not the book.")
    assert "Osric" in world.documents.text("lamp.md")
    long = "ü" * 200
    owner.call("add_note", title=long, text="Long.")
    assert owner.refusal("add_note", title=long, text="Longer.") == "invalid_argument"
    owner.call("add_note", title=long[:-1] + "x", text="Another.")
    assert owner.refusal("add_note", title="blank", text="  ") == "source_empty"


@proves("notes.up-to-the-position", "mcp.writes-opt-in")
def test_reader_writes_notes_and_lists_those_up_to_the_position(lib: LibraryFixture) -> None:
    reader = Caller(lib, "ann", NOTE)
    note = reader.call("add_note", text="Why the lamp?", first=2)
    assert (note["first"], note["sid"]) == (2, READ_UNTIL)
    assert reader.refusal("add_note", text="x", first=READ_UNTIL + 1) == "invalid_argument"
    assert len(reader.call("list_notes", search="lamp")["notes"]) == 1
    lib.library.world("w").reader("ann").set_position("lamp.md", sentence=1)

    assert reader.call("list_notes")["notes"] == []
