"""The web page: static files with a policy that allows no other sources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from truespan.errors import NotFound
from truespan.extensions.server.http.operation import CallContext, Reply, Routes

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = (("content-security-policy", POLICY), ("cache-control", "no-cache"))


# Shared by threads: caches of values that are only read.
@cache
def page_files() -> dict[str, bytes]:
    """Return the content of each file of the page by its path below `web`."""
    return dict(_files_in(files("truespan.extensions.server").joinpath("web"), ""))


def _files_in(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files_in(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in MEDIA_TYPES:
            yield prefix + entry.name, entry.read_bytes()


# These operations are public and not part of the API: the files contain no secrets.
# Shared by threads: filled while modules are imported, then only read.
_routes = Routes("Page", "The web page.")


@_routes.get("/", public=True, inline=True, ignores_query=True)
def page(context: CallContext) -> Reply[bytes]:
    """Get the page."""
    sign_in = context.library.server.sign_in
    reply = _send_file("index.html")
    if sign_in is None:
        return reply
    # The page exchanges the code of a sign-in at the provider.
    url = urlsplit(sign_in.token_url)
    policy = POLICY.replace("connect-src 'self'", f"connect-src 'self' {url.scheme}://{url.netloc}")
    headers = tuple((name, policy if value == POLICY else value) for name, value in PAGE_HEADERS)
    return replace(reply, headers=headers)


@_routes.get("/page/sign-in.json", public=True, inline=True)
def sign_in_options(context: CallContext) -> Reply[bytes]:
    """Get the options of signing in with the identity provider; null without one."""
    content = msgspec.json.encode(context.library.server.sign_in)
    return Reply(content, 200, PAGE_HEADERS, MEDIA_TYPES["json"])


@_routes.get("/page/{name:path}", public=True, inline=True)
def page_file(context: CallContext) -> Reply[bytes]:
    """Get a file of the page."""
    return _send_file(context.path["name"])


def _send_file(name: str) -> Reply[bytes]:
    content = page_files().get(name)
    if content is None:
        raise NotFound("route")
    return Reply(content, 200, PAGE_HEADERS, MEDIA_TYPES[name.rpartition(".")[2]])


PAGE_OPERATIONS = tuple(_routes.operations)
