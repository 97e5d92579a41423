"""Truespan for programs that are not Python: HTTP, MCP, the web page and their shared parts.

Owns: routes, MCP tools, the page, sign-in by OpenID Connect, pictures of pages, metrics and traces.
Does not own: any decision about what a caller may see or what is found.
Must hold: an operation passes arguments on and returns the results of the engine.
"""

from __future__ import annotations

from truespan.tables import Commands, Tables

_HERE = "truespan.extensions.server"


def register(tables: Tables) -> None:
    """Add the commands, and rows to the tables of the engine."""
    tables.commands += (
        Commands("Serve", f"{_HERE}.serve_command", ("serve", "mcp")),
        Commands("Models", f"{_HERE}.models_command", ("models",)),
    )
    tables.components |= {
        "chat_servers": f"{_HERE}.chat_servers:LocalChatServers",
        "find_user": f"{_HERE}.users:find_user",
        "identities": f"{_HERE}.openid:open_identities",
    }
    tables.store_parts["requests"] = f"{_HERE}.request_rows:RequestRows"
    tables.members |= {
        "Documents.picture": f"{_HERE}.pictures.draw:picture_of",
        "Library.server": f"{_HERE}.library:LibraryServer",
        "Reader.picture": f"{_HERE}.pictures.draw:read_picture_of",
    }
    tables.observers |= {
        "metrics": f"{_HERE}.metrics:MetricsObserver",
        "tracing": f"{_HERE}.tracing:TracingObserver",
    }
    tables.pictures |= {
        "html": f"{_HERE}.pictures.whole:draw_web_page",
        "image": f"{_HERE}.pictures.whole:draw_image",
        "pdf": f"{_HERE}.pictures.pdf:draw_page",
    }
