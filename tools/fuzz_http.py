"""Schemathesis over a running server: every call as the OpenAPI document has it, and as it has not.

Run as `python -m tools.fuzz_http --minutes 5 --seed 1`: the owner and three bearers of tokens each
get their share of the time, on a library of their own that is made for it. The exit code is 1 when
anything was found, and the report stands on standard output.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interfaces.mcp_clients import prepare
from tests.support.http_server import Served, served

import truespan
from truespan.types.scope import UNLIMITED, Verb
from truespan.wiring import open_library

RULES = Path(__file__).with_name("fuzz_http_rules.py")
OWNER = "owner"
BEARERS = ("bound to a reader", "who may only read", "whose token is revoked")
CALLERS = (OWNER, *BEARERS)

_CONFIG = """
hooks = {rules!r}
continue-on-failure = true
request-timeout = 60
{headers}

[warnings]
enabled = false

[generation]
database = "none"

[parameters]
"path.world" = "w"
"path.reader" = "ann"

# What is deleted is of another world, so that there is something left to ask.
[[operations]]
include-operation-id = "deleteWorld"
parameters = {{ "path.world" = "beside" }}

[[operations]]
include-operation-id = "deleteDocument"
parameters = {{ "path.world" = "beside" }}

# They would send requests to addresses that are made up.
[[operations]]
include-operation-id = "findChatServers"
enabled = false

[[operations]]
include-operation-id = "connectChatModel"
enabled = false
"""


@dataclass(frozen=True)
class Course:
    """Length of a run: examples for each call in these phases, or seconds.

    All calls are made unless some are named.
    """

    examples: int = 3
    phases: str = "examples,coverage,fuzzing,stateful"
    seed: int = 1
    seconds: int | None = None
    calls: tuple[str, ...] = ()

    def options(self) -> list[str]:
        """Return this as schemathesis has it."""
        limit = ["--max-time", str(self.seconds)] if self.seconds else []
        size = ["--max-examples", str(self.examples)]
        calls = [part for name in self.calls for part in ("--include-operation-id", name)]
        return [*size, "--phases", self.phases, "--seed", str(self.seed), *limit, *calls]


@dataclass(frozen=True)
class Found:
    """What a run had to say, and whether it found anything."""

    passed: bool
    report: str


def run(folder: Path, server: Served, course: Course) -> Found:
    """Hold a server against its own document; `folder` is for what schemathesis writes."""
    bearer = f'headers = {{ Authorization = "Bearer {server.token}" }}' if server.token else ""
    config = folder / "schemathesis.toml"
    config.write_text(_CONFIG.format(rules=str(RULES), headers=bearer), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
            *("run", f"{server.address}openapi.json", "--checks", "all", *course.options()),
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(RULES.parents[1]),
            "COLUMNS": "200",
            # Else proxies are looked for with every request.
            "NO_PROXY": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return Found(done.returncode == 0, done.stdout + done.stderr)


@contextmanager
def library_of(folder: Path) -> Iterator[Path]:
    """Give a library with two worlds, a book half read, and something to ask."""
    yield (library := prepare(folder))
    open_library(library)._components.index.retire()  # type: ignore[attr-defined]


def token_of(library: Path, caller: str) -> str | None:
    """Return the secret of a caller's token; the owner needs none."""
    if caller == OWNER:
        return None
    with truespan.open(library) as opened:
        bound = caller == BEARERS[0]
        record, secret = opened.tokens.create(
            caller,
            worlds=["w"],
            verbs=[Verb.FOLLOW if bound else Verb.READ],
            readers=["ann"] if bound else UNLIMITED,
        )
        if caller == BEARERS[2]:
            opened.tokens.revoke(record.id)
        return secret.reveal()


@contextmanager
def served_for(library: Path, caller: str) -> Iterator[Served]:
    """Serve a library for one caller, with a token if it has one."""
    token = token_of(library, caller)
    options = ["--world", "w", *(["--require-token"] if token else [])]
    # Bytes that are not HTTP are reported on standard error.
    with served(library, *options, quiet=False) as server:
        yield server.under(token)


def main() -> int:
    """Try every caller for its share of the time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    share = max(10, int(asked.minutes * 60 / len(CALLERS)))
    passed = True
    for caller in CALLERS:
        folder = Path(tempfile.mkdtemp(prefix="truespan-fuzz-http-"))
        try:
            with library_of(folder) as library, served_for(library, caller) as server:
                found = run(folder, server, Course(100, seed=asked.seed, seconds=share))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"--- {caller}\n{found.report}", flush=True)
        passed = passed and found.passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
