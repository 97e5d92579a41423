"""Callers of MCP, their permission to write, and the types of tools and roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from truespan.extensions.proof.wire import with_receipt, with_signed
from truespan.extensions.server.arguments import Arguments, arguments_schema, with_contract_names
from truespan.extensions.server.mcp.resources import ResourceProvider
from truespan.types.ids import WorldId
from truespan.types.scope import Authority, Verb

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.reader import Reader
    from truespan.engine.world import World

WRITING = (Verb.READ, Verb.WRITE)
READ_ONLY = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


class WritePermissions(Struct, frozen=True):
    """Changes that the operator allows to callers; by default none.

    With `may_move`, a reader's session can set that reader's position; with `may_note`, it can add
    notes of that reader. With `may_ingest`, the owner's session can add notes as documents.
    """

    may_move: bool = False
    may_ingest: bool = False
    may_note: bool = False

    def allow(self, reader: str | None) -> bool:
        """Return whether a reader, or with None the owner, may write."""
        return self.may_ingest if reader is None else self.may_move


NOTHING_WRITTEN = WritePermissions()


class CallerContext(Struct, frozen=True):
    """A world opened with the caller's authority, and the reader, if the caller is one.

    `writer` is the same world with the authority to write; None if the caller may not write.
    """

    world: World
    reader: str | None = None
    writer: World | None = None

    def subject(self) -> Reader | World:
        """Return the reader or world that tools use."""
        return self.world if self.reader is None else self.world.reader(self.reader)


def narrow_caller(
    library: Library,
    authority: Authority,
    world: WorldId,
    reader: str | None,
    permissions: WritePermissions,
) -> CallerContext:
    """Return the caller of a world, narrowed to reading it, or to one reader of it.

    The caller may write if the operator and the authority both allow it. Setting a position
    searches the whole book, so it needs the right to read the book.
    """
    if reader is None:
        narrowed = authority.narrow(worlds=[world], verbs=[Verb.READ])
    else:
        narrowed = authority.as_reader(world, reader)
    found = library.under(narrowed).world(world, create=False)
    if not permissions.allow(reader) or not all(authority.may(verb, world) for verb in WRITING):
        return CallerContext(found, reader)
    writing = authority.narrow(worlds=[world], verbs=WRITING)
    writer = library.under(writing).world(world, create=False)
    return CallerContext(found, reader, writer)


class AnonymousAccess(Struct, frozen=True):
    """Access of callers without a token; by default none.

    With a reader, that reader's tools; with `owner`, the owner's. A world restricts both to it.
    """

    world: str | None = None
    reader: str | None = None
    owner: bool = False


class ErrorDetail(Struct, frozen=True):
    """An error. `code` is stable; `retryable` says whether to retry the same call."""

    code: str
    message: str
    advice: str
    retryable: bool


class ErrorResult(Struct, frozen=True):
    """The result of a call that was refused or failed."""

    error: ErrorDetail


class Tool(Struct, frozen=True):
    """A tool: its description, its types, and the functions that run it and render its result.

    `run` gets the reader or world; if the tool `writes`, the whole `CallerContext`. `render` gets
    the same and the result.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type
    run: Callable[[Any, Any], Any]
    render: Callable[[Any, Any], list[str]]
    hints: dict[str, bool] = field(default_factory=lambda: READ_ONLY)
    writes: bool = False
    signs: bool = False
    """Whether a call can ask for a signed receipt of the result."""

    @property
    def accepted(self) -> type[Arguments]:
        """The arguments of a call."""
        return with_signed(self.arguments) if self.signs else self.arguments

    def to_json(self, *, contract: bool = False) -> dict[str, Any]:
        """Return the tool as the protocol lists it, with the names of the `contract` if asked.

        The schema of the result includes errors because some clients validate failed calls too.
        """
        either, definitions = msgspec.json.schema_components(
            [with_receipt(self.result) if self.signs else self.result, ErrorResult],
            ref_template="#/$defs/{name}",
        )
        schema = arguments_schema(self.accepted)
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": with_contract_names(schema) if contract else schema,
            "outputSchema": {"type": "object", "anyOf": list(either), "$defs": definitions},
            "annotations": self.hints,
        }


class Role(Struct, frozen=True):
    """Tools and resources for one kind of caller."""

    name: str
    instructions: str
    tools: Sequence[Tool]
    resources: ResourceProvider
