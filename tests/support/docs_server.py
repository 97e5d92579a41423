"""A documented server for a newcomer: started in the background, and asked with curl.

Pages show a server at its usual port. Here it gets a free one, and addresses are turned to that on
the way in and back on the way out, so that pages can be followed side by side.
"""

import shlex
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from tests.support.http_server import NO_TLS, TIMEOUT, Served, served

SHOWN = "127.0.0.1:8700"
"""Where pages show a server to be."""


class Behind:
    """The server of a page, once it has been started."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._server: Served | None = None

    def start(self, words: list[str]) -> str:
        """Start `truespan serve` and return its output with the documented address."""
        library = Path(words[words.index("--library") + 1])
        others = [word for word in words[1:] if word not in ("--library", str(library), "&")]
        self._server = self._open.enter_context(served(library.absolute(), *others))
        return f"Truespan serves {library} at http://{SHOWN}/\n"

    def stop(self) -> None:
        """Stop the server, if there is one."""
        self._open.close()
        self._server = None

    def inward(self, text: str) -> str:
        """Return documented text with the real address."""
        return text.replace(SHOWN, self._real) if self._server else text

    def outward(self, text: str) -> str:
        """Return output with the documented address."""
        return text.replace(self._real, SHOWN) if self._server else text

    @property
    def _real(self) -> str:
        assert self._server
        return self._server.address.removeprefix("http://").strip("/")


def curl(command: str) -> str:
    """Do what curl does with the few options of the pages, and return its output."""
    told = _options().parse_args(shlex.split(command, comments=True)[1:])
    headers = dict(_pair(given, ":") for given in told.header)
    body: dict[str, Any] = {}
    if told.json is not None:
        headers.setdefault("Content-Type", "application/json")
        body["content"] = told.json.encode()
    for name, value in (_pair(given, "=") for given in told.form):
        if value[:1] == "@":
            path = Path(value[1:])
            body.setdefault("files", {})[name] = (path.name, path.read_bytes())
        else:
            body.setdefault("data", {})[name] = value
    method = told.request or ("POST" if body else "GET")
    reply = httpx2.request(
        method, told.url, headers=headers, timeout=TIMEOUT, verify=NO_TLS, **body
    )
    told_of = [f"{name}: {value}" for name, value in reply.headers.items()] if told.include else []
    status = [f"HTTP/1.1 {reply.status_code} {reply.reason_phrase}"] if told.include else []
    return "\n".join([*status, *told_of, reply.text]) + "\n"


def _options() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-N", "--no-buffer", action="store_true")
    parser.add_argument("-i", "--include", action="store_true")
    parser.add_argument("-X", "--request")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-F", "--form", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("url")
    return parser


def _pair(given: str, mark: str) -> tuple[str, str]:
    name, _, value = given.partition(mark)
    return name, value.strip()
