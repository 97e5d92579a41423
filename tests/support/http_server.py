"""A server process on a library: started, asked on loopback, and ended by its id."""

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.support.forked_process import ForkedProcess

TIMEOUT = 60.0
OUTPUT_SHOWN = 4000
"""Maximum number of characters of a failed server's output in the error."""
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without it, each request would read the certificates of the machine, which takes longer than the
request itself."""


@dataclass(frozen=True)
class Served:
    """A running server. `address` ends with a slash; every request has the `token`, if there is
    one.
    """

    address: str
    process: subprocess.Popen[str]
    token: str | None = None

    def under(self, token: str | None) -> "Served":
        """Return the same server with another token; None for no token."""
        return Served(self.address, self.process, token)

    def ask(self, method: str, path: str, **given: Any) -> httpx2.Response:
        """Send one request and return the whole reply; `given` are arguments of httpx2."""
        headers = dict(given.pop("headers", {}))
        if self.token is not None:
            headers.setdefault("authorization", f"Bearer {self.token}")
        url = self.address + path.removeprefix("/")
        return httpx2.request(method, url, headers=headers, timeout=TIMEOUT, verify=NO_TLS, **given)

    def get(self, path: str, **given: Any) -> httpx2.Response:
        return self.ask("GET", path, **given)

    def post(self, path: str, body: Any = None, **given: Any) -> httpx2.Response:
        """Send a JSON body, empty by default."""
        return self.ask("POST", path, **({"json": body} if body is not None else {}), **given)


@contextmanager
def served(
    library: Path, *options: str, errors: Path | None = None, quiet: bool = True
) -> Iterator[Served]:
    """Serve a library with `truespan serve` on a free port of this machine.

    The process is ended by its id and must exit with 0; unless `quiet` is false, its standard error
    must be empty.
    """
    said = errors or library.parent / f"{library.name}-served.log"
    command = [sys.executable, "-m", "truespan", "serve", "--library", str(library)]
    with said.open("w+", encoding="utf-8") as log:
        process = ForkedProcess(
            [*command, "--port", "0", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        )
        try:
            yield Served(_address(process, said), process)
            process.terminate()
            code = _wait(process, said)
            assert code == 0, f"The server ended with {code}. {_last_output(process, said)}"
        finally:
            process.kill()
            process.wait(30)
            assert process.stdout
            process.stdout.close()
    assert not quiet or said.read_text("utf-8") == ""


def _address(process: subprocess.Popen[str], said: Path) -> str:
    """Return the address that the server prints once it listens."""
    assert process.stdout
    lines: list[str] = []
    while line := process.stdout.readline():
        lines.append(line)
        try:
            return json.loads("".join(lines))["address"]
        except json.JSONDecodeError:
            continue
    raise AssertionError(f"It does not serve: {said.read_text('utf-8')}")


def _wait(process: subprocess.Popen[str], said: Path) -> int:
    try:
        return process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)
        raise AssertionError(
            f"The server did not end within 30 s. {_last_output(process, said)}"
        ) from None


def _last_output(process: subprocess.Popen[str], said: Path) -> str:
    """Return the end of the output of a stopped server on both streams."""
    assert process.stdout
    streams = {"output": process.stdout.read(), "errors": said.read_text("utf-8")}
    return " ".join(f"Its last {name}: {text[-OUTPUT_SHOWN:]!r}." for name, text in streams.items())
