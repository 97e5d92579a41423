"""Configurations with which MCP clients start `truespan mcp`, in the formats of common clients."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

from truespan.errors import InvalidArgument
from truespan.mcp.caller import WritePermissions

_UVX_FOLDER = "archive-v0"
"""The folder of environments that `uvx` makes and may remove again."""


class ServerCommand(Struct, frozen=True):
    """A server that a client starts: its library, world, reader and permissions."""

    library: Path
    world: str
    reader: str | None
    permissions: WritePermissions

    def arguments(self) -> list[str]:
        """Return the arguments of `truespan` that start the server from any folder."""
        whom = ["--owner"] if self.reader is None else ["--reader", self.reader]
        arguments = ["mcp", "--library", str(self.library), "--world", self.world, *whom]
        arguments += ["--may-move"] if self.permissions.may_move else []
        arguments += ["--may-ingest"] if self.permissions.may_ingest else []
        for folder in self.permissions.folders:
            arguments += ["--ingest-folder", folder]
        return arguments


def client_config(client: str, command: ServerCommand) -> str:
    """Return the configuration of a client that starts the server; raises InvalidArgument."""
    if client not in CLIENTS:
        raise InvalidArgument(
            f"There is no format for {client!r}.", advice=f"Known are: {', '.join(CLIENTS)}."
        )
    program, *before = _program()
    slug = re.sub("[^a-z0-9]+", "-", command.world.lower()).strip("-")
    name = f"truespan-{slug}" if slug else "truespan"
    entry = {"command": program, "args": [*before, *command.arguments()]}
    return CLIENTS[client](name, entry)


def _program() -> list[str]:
    """Return the command of this program with its full path: clients have another search path."""
    uvx = shutil.which("uvx")
    if uvx is not None and _UVX_FOLDER in Path(sys.prefix).parts:
        return [uvx, "truespan"]
    beside = Path(sys.executable).with_name("truespan")
    for found in (beside, beside.with_suffix(".exe")):
        if found.is_file():
            return [str(found)]
    return [sys.executable, "-m", "truespan"]


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _toml(name: str, entry: dict[str, Any]) -> str:
    # Strings and lists of strings are written as in JSON.
    values = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[mcp_servers.{name}]", *values])


CLIENTS = {
    "desktop": lambda name, entry: _json({"mcpServers": {name: entry}}),
    "vscode": lambda name, entry: _json({"servers": {name: {"type": "stdio", **entry}}}),
    "zed": lambda name, entry: _json({"context_servers": {name: {"source": "custom", **entry}}}),
    "codex": _toml,
}
"""The format of each client. Most clients use the format of the desktop."""
