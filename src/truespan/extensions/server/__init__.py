"""Truespan for programs that are not Python: HTTP, MCP, the web page and what they need.

Owns: routes, MCP tools, the page, sign-in by OpenID Connect, pictures of pages, metrics and traces.
Does not own: any decision about what a caller may see or what is found.
Must hold: an operation passes arguments on and returns the results of the engine.
"""

from __future__ import annotations

from truespan.tables import Commands, Tables

_HERE = "truespan.extensions.server"


def register(tables: Tables) -> None:
    """Add the commands."""
    tables.commands += (
        Commands("Serve", f"{_HERE}.serve_command", ("serve", "mcp", "worker", "token")),
        Commands("Models", f"{_HERE}.models_command", ("models",)),
    )
