"""The page: its files as the package holds them, under a policy that lets nothing else in."""

from __future__ import annotations

from functools import cache, partial
from importlib.resources import files

from truespan.errors import RouteNotFound
from truespan.http.call import Call, CallContext, Reply

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


@cache
def page_files() -> dict[str, bytes]:
    """Return every file of the page by its name."""
    folder = files("truespan.web").joinpath("static")
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in KINDS
    }


def _file(name: str | None, asked: CallContext) -> Reply:
    wanted = name or asked.path["name"]
    content = page_files().get(wanted)
    if content is None:
        raise RouteNotFound
    headers = (("content-security-policy", POLICY), ("cache-control", "no-cache"))
    return Reply(content, 200, headers, KINDS[wanted.rpartition(".")[2]])


def page_calls() -> tuple[Call, ...]:
    """Return the addresses of the page. They are no part of the API, and give out no secret."""
    return (
        Call(
            "GET",
            "/",
            "page",
            "The page",
            partial(_file, "index.html"),
            bytes,
            open=True,
            light=True,
        ),
        Call(
            "GET",
            "/page/{name}",
            "pageFile",
            "A file of it",
            partial(_file, None),
            bytes,
            open=True,
            light=True,
        ),
    )
