"""How the processor time of every call grows with what a caller chooses.

Run as `python -m tools.growth` (`make growth`). A server on a new library gets every call of
its HTTP interface and every tool of MCP, as the bearer of a token that may read and write, with
three sizes of each argument, header and part of the address; then the same calls on worlds, books
and readers of three sizes; then documents that are made to be expensive. Processor time is that of
the server's process, without those that parse and search. A row is wrong if its time grows faster
than its size and is more than a glance; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from bench.free import end_index_process
from tests.interfaces.http_client import Client, Response, serve_library
from tests.support.hostile_texts import HOSTILE_TEXTS

import truespan
from truespan.engine.library import Library
from truespan.extensions.server.http.operation import Operation
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.providers.local import LocalModel
from truespan.providers.token_counter import WordPieceCounter
from truespan.types.profile import Distance, EmbeddingLimits, EmbeddingProfile
from truespan.types.scope import UNLIMITED, Verb
from truespan.types.vectors import Vector

VERBS = [Verb.READ, Verb.FOLLOW, Verb.WRITE]
SIZES = (1 << 14, 1 << 16, 1 << 18)
"""Characters of an argument, or bytes of a body."""
DOCUMENTS = (100, 200, 400)
CHARACTERS = (100_000, 200_000, 400_000)
READERS = (20, 80, 320)
INGESTED = (50_000, 100_000, 200_000)
FASTEST = 1.35
"""The largest exponent that still counts as linear: caches and memory make it a little more."""
GLANCE = 0.05
"""Seconds below which growth does not matter, as long as the size is bounded."""
STYLES = ("a", '"', "tide ", "\u0301", "…", "９", "[{", "%2F", "aé-")
MCP = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
SENTENCE = "The tide comes in twice a day, and keeper {} of the lamp counts it. "


class CheapEmbedder:
    """Embeds a text by its hash, and counts as the local model does."""

    profile = EmbeddingProfile(
        provider="growth",
        model="hash",
        revision="1",
        dimensions=32,
        distance=Distance.COSINE,
        document_mode="passage",
        query_mode="plain",
        input_limit=512,
    )
    endpoint = "nowhere"
    limits = EmbeddingLimits(items=256, tokens=10**9, in_flight=1, joint=False)

    def __init__(self, counter: WordPieceCounter) -> None:
        self.count_query = counter.count

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        seed = int.from_bytes(sha256(text.encode(errors="replace")).digest()[:8], "big")
        numbers = np.random.default_rng(seed).standard_normal(32, dtype=np.float32)
        # All texts are close to each other, so that every search finds something.
        return Vector((numbers / 40 + 1).astype("<f4").tobytes())


@dataclass(frozen=True)
class Row:
    """What one call cost at each size."""

    call: str
    grows: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    statuses: frozenset[int]

    @property
    def exponent(self) -> float:
        """Return by which power of the size the time grew."""
        first, last = (max(self.seconds[place], 1e-4) for place in (0, -1))
        return math.log(last / first) / math.log(self.sizes[-1] / self.sizes[0])

    @property
    def wrong(self) -> bool:
        slow = self.exponent > FASTEST and self.seconds[-1] > GLANCE
        return slow or any(status >= 500 for status in self.statuses)

    def __str__(self) -> str:
        times = "".join(f"{1000 * seconds:>9.1f}" for seconds in self.seconds)
        statuses = ",".join(map(str, sorted(self.statuses)))
        mark = "WRONG" if self.wrong else ""
        return (
            f"{self.call[:58]:<58} {self.grows[:34]:<34} {self.sizes[-1]:>8}{times}"
            f" {self.exponent:>6.2f}  {statuses:<8} {mark}"
        )


def measure(
    call: str,
    grows: str,
    sizes: Sequence[int],
    ask: Callable[[int], Response | int],
    times: int = 2,
) -> Row:
    """Ask some times with each size, and again if the first times look wrong."""
    statuses: set[int] = set()
    best = [math.inf] * len(sizes)
    row = Row(call, grows, tuple(sizes), tuple(best), frozenset())
    for _ in range(3):
        for place, size in enumerate(sizes):
            for _ in range(times):
                began = time.process_time()
                answer = ask(size)
                best[place] = min(best[place], time.process_time() - began)
                statuses.add(answer if isinstance(answer, int) else answer.status)
        row = Row(call, grows, tuple(sizes), tuple(best), frozenset(statuses))
        if not row.wrong:
            break
    return row


def fill(style: str, size: int) -> str:
    return (style * (size // len(style) + 1))[:size]


# Arguments


BODIES: dict[str, dict[str, Any]] = {
    "Question": {"query": "tide"},
    "ChatQuestion": {"query": "tide", "world": "w"},
    "NewPosition": {"book": "1"},
    "NewWorld": {},
    "RetrieveRequest": {},
}


def argument_rows(client: Client, token: str, places: dict[str, str]) -> Iterator[Row]:
    """Grow each argument of each call, and the parts that all requests have."""
    for operation in OPERATIONS:
        name = f"{operation.method} {operation.path}"
        parameters = re.findall(r"\{(\w+)[^}]*\}", operation.path)
        for parameter in parameters:
            yield worst(name, f"path {parameter}", grow_path(client, token, operation, parameter))
        address = at(operation.path, places)
        query = getattr(operation.query_type, "__struct_fields__", ())
        for field in query:
            yield worst(
                name,
                f"query {field}",
                lambda style, size, field=field, operation=operation, address=address: client.send(
                    operation.method,
                    f"{address}?{field}={quoted(fill(style, min(size, 40_000)))}",
                    token=token,
                ),
            )
        fields = getattr(operation.body_type, "__struct_fields__", ())
        for field in fields:
            yield worst(name, f"body {field}", grow_field(client, token, operation, address, field))
            yield worst(
                name,
                f"body {field} (list)",
                grow_field(client, token, operation, address, field, as_list=True),
            )
        if fields and operation.body_type is not None:
            for kind, make in ODD_BODIES.items():
                yield measure(
                    name,
                    kind,
                    SIZES,
                    lambda size, make=make, operation=operation, address=address: client.send(
                        operation.method,
                        address,
                        token=token,
                        headers=[("content-type", "application/json")],
                        body=make(size).encode(),
                    ),
                )
    for header in ("authorization", "idempotency-key", "x-rag-domain", "accept", "cookie", "range"):
        yield worst(
            "POST search",
            f"header {header}",
            lambda style, size, header=header: client.send(
                "POST",
                at("/v1/worlds/{world}/search", places),
                token=token,
                headers=[(header, fill(style, size // 8).encode("ascii", "replace"))],
                body=b'{"query": "tide"}',
            ),
        )


ODD_BODIES: dict[str, Callable[[int], str]] = {
    "nested lists": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "nested objects": lambda size: '{"a":' * (size // 6) + "1" + "}" * (size // 6),
    "many keys": lambda size: "{" + ",".join(f'"k{n}":1' for n in range(size // 10)) + "}",
    "the same key": lambda size: "{" + ",".join(['"query":"a"'] * (size // 12)) + "}",
    "a long number": lambda size: '{"top_k":' + "9" * size + "}",
    "a long fraction": lambda size: '{"floor":0.' + "1" * size + "}",
    "escapes": lambda size: '{"query":"' + "\\u0041" * (size // 6) + '"}',
    "white space": lambda size: "{" + " " * size + '"query":"tide"}',
    "not JSON": lambda size: "x" * size,
}


def grow_path(
    client: Client, token: str, operation: Operation, parameter: str
) -> Callable[[str, int], Response]:
    def ask(style: str, size: int) -> Response:
        values = {"world": "w", "reader": "ann", "document": "1"}
        values[parameter] = quoted(fill(style, min(size, 40_000)))
        method = "GET" if operation.method == "DELETE" else operation.method
        return client.send(method, at(operation.path, values), token=token)

    return ask


def grow_field(
    client: Client,
    token: str,
    operation: Operation,
    address: str,
    field: str,
    *,
    as_list: bool = False,
) -> Callable[[str, int], Response]:
    assert operation.body_type is not None
    base = BODIES.get(operation.body_type.__name__, {"query": "tide", "chunk_id": "0" * 36})

    def ask(style: str, size: int) -> Response:
        # The longest that is accepted, and longer ones.
        value: Any = fill(style, size)
        if as_list:
            value = [fill(style, 8)] * (size // 12)
        return client.json(operation.method, address, {**base, field: value}, token=token)

    return ask


def accepted_rows(client: Client, token: str, places: dict[str, str]) -> Iterator[Row]:
    """Grow what is accepted up to its limit: queries, selections, passages and lists."""
    sizes = (250, 1000, 4000)
    world = at("/v1/worlds/{world}", places)
    calls: dict[str, Callable[[str], tuple[str, str, Any]]] = {
        "search query": lambda text: ("POST", "/search", {"query": text, "mode": "hybrid"}),
        "retrieve query": lambda text: ("POST", "/retrieve", {"query": text, "mode": "hybrid"}),
        "retrieve selected_text": lambda text: ("POST", "/retrieve", {"selected_text": text}),
        "retrieve both": lambda text: (
            "POST", "/retrieve", {"selected_text": text, "query": "tide"}
        ),
        "answer query": lambda text: ("POST", "/answer", {"query": text}),
        "reader query": lambda text: ("POST", "/readers/ann/retrieve", {"query": text}),
        "position passage": lambda text: (
            "PUT", "/readers/ann/position", {"book": "large.txt", "passage": text}
        ),
        "retrieve tags": lambda text: (
            "POST", "/retrieve", {"query": "tide", "tags": list(text[:2000])}
        ),
        "retrieve documents": lambda text: (
            "POST", "/retrieve", {"query": "tide", "documents": [*map(str, range(len(text)))]}
        ),
    }  # fmt: skip

    def ask(make: Callable[[str], tuple[str, str, Any]], style: str, size: int) -> Response:
        method, path, body = make(fill(style, size))
        return client.json(method, world + path, body, token=token)

    for name, make in calls.items():
        for styles in (("tide ", "a "), ('"', "'", "-"), ("…", "a", "\u0301", "的")):
            yield worst(
                name,
                f"characters {' '.join(map(repr, styles))}",
                lambda style, size, make=make: ask(make, style, size),
                styles=styles,
                sizes=sizes,
            )


def worst(
    call: str,
    grows: str,
    ask: Callable[[str, int], Response],
    *,
    styles: Sequence[str] = STYLES,
    sizes: Sequence[int] = SIZES,
) -> Row:
    """Return the row of the style that grows worst, and every status of all."""
    found = [measure(call, grows, sizes, lambda n, style=style: ask(style, n)) for style in styles]
    row = max(found, key=lambda row: (row.wrong, row.seconds[-1]))
    statuses = frozenset(status for one in found for status in one.statuses)
    return Row(row.call, row.grows, row.sizes, row.seconds, statuses)


def quoted(text: str) -> str:
    return quote(text, safe="")


def at(path: str, places: dict[str, str]) -> str:
    """Return an address with its parameters; one that is not known gets a blank."""
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: places.get(found[1], "none"), path)


# MCP


def mcp_rows(client: Client, token: str) -> Iterator[Row]:
    """Grow each argument of each tool."""
    headers = list(MCP.items())

    def post(body: Any, extra: Sequence[tuple[str, str]] = ()) -> Response:
        content = json.dumps(body).encode()
        return client.send("POST", "/mcp", token=token, headers=[*headers, *extra], body=content)

    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "growth", "version": "1"},
    }
    began = post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    session = [("mcp-session-id", began.header("mcp-session-id") or "")]
    post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    reply = post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, session)
    lines = [line[5:] for line in reply.body.decode().splitlines() if line.startswith("data:")]
    listed = json.loads(lines[-1] if lines else reply.body)
    for tool in listed["result"]["tools"]:
        schema = tool["inputSchema"]
        base = dict.fromkeys(schema.get("required", ()), "tide")
        for field in schema.get("properties", {}):
            for as_list in (False, True):

                def ask(
                    style: str,
                    size: int,
                    tool: dict[str, Any] = tool,
                    base: dict[str, Any] = base,
                    field: str = field,
                    as_list: bool = as_list,
                ) -> Response:
                    text = fill(style, size)
                    value = [fill(style, 8)] * (size // 12) if as_list else text
                    params = {"name": tool["name"], "arguments": {**base, field: value}}
                    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
                    return post(body, session)

                yield worst(f"MCP {tool['name']}", f"{field}{' (list)' * as_list}", ask)


# Data


def data_rows(client: Client, token: str, library: Library, folder: Path) -> Iterator[Row]:
    """Make the same calls on worlds, books and readers of three sizes."""
    for count in DOCUMENTS:
        world = library.create_world(f"documents-{count}")
        files = folder / f"files-{count}"
        files.mkdir()
        for number in range(count):
            (files / f"{number}.txt").write_text(SENTENCE.format(number))
        world.ingest([str(files)], kind="book", tags=["a", "b"])
        world.reader("ann").set_position("0.txt", sentence=0)
    for size in CHARACTERS:
        file = folder / f"large-{size}.md"
        sentences = "".join(SENTENCE.format(n) + "\n\n" * (n % 9 == 0) for n in range(size // 70))
        file.write_text(sentences[:size])
        world = library.create_world(f"characters-{size}")
        world.ingest([str(file)], kind="book")
        world.reader("ann").set_position(
            file.name, sentence=world.documents.get("1").sentences // 2
        )
    for count in READERS:
        world = library.create_world(f"readers-{count}")
        world.ingest([str(folder / f"large-{CHARACTERS[0]}.md")], kind="book")
        for number in range(count):
            world.reader(f"reader-{number}").set_position("1", sentence=number)
        world.reader("ann").set_position("1", sentence=5)
    calls: dict[str, tuple[str, str, Any]] = {
        "GET world": ("GET", "", None),
        "GET documents": ("GET", "/documents", None),
        "GET document": ("GET", "/documents/1", None),
        "GET sentences": ("GET", "/documents/1/sentences?offset=0&limit=1", None),
        "GET sentences, last page": ("GET", "/documents/1/sentences?offset=9000", None),
        "GET no document": ("GET", "/documents/none", None),
        "search": ("POST", "/search", {"query": "tide {}"}),
        "search, many": ("POST", "/search", {"query": "tide {}", "top_k": 100_000, "floor": 0}),
        "search fused": ("POST", "/search", {"query": "tide {}", "mode": "hybrid"}),
        "retrieve": ("POST", "/retrieve", {"query": "tide {}"}),
        "retrieve fused": ("POST", "/retrieve", {"query": "tide {}", "mode": "hybrid"}),
        "retrieve tags": ("POST", "/retrieve", {"query": "tide {}", "tags": ["a", "b"]}),
        "retrieve chapter": ("POST", "/retrieve", {"query": "tide {}", "chapter": "One"}),
        "retrieve selection": ("POST", "/retrieve", {"selected_text": SENTENCE.format(1)}),
        "retrieve absent selection": ("POST", "/retrieve", {"selected_text": "absent " * 700}),
        "answer": ("POST", "/answer", {"query": "tide {}"}),
        "reader books": ("GET", "/readers/ann/books", None),
        "reader position": ("GET", "/readers/ann/position", None),
        "reader retrieve": ("POST", "/readers/ann/retrieve", {"query": "tide {}"}),
        "reader sentences": ("GET", "/readers/ann/sentences?offset=0&limit=1", None),
        "set position by passage": (
            "PUT", "/readers/ann/position", {"book": "1", "passage": SENTENCE.format(1).strip()}
        ),
        "set position by chapter": (
            "PUT", "/readers/ann/position", {"book": "1", "through_chapter": "1"}
        ),
        "usage": ("GET", "/usage?limit=10000", None),
        "jobs": ("GET", "/jobs", None),
    }  # fmt: skip
    number = iter(range(10**9))

    def ask(kind: str, call: tuple[str, str, Any], size: int) -> Response:
        method, path, body = call
        if body is not None:
            # Another query each time: the cache of queries must not hide anything.
            body = json.loads(json.dumps(body).replace("{}", str(next(number))))
        return client.json(method, f"/v1/worlds/{kind}-{size}{path}", body, token=token)

    kinds = {"documents": DOCUMENTS, "characters": CHARACTERS, "readers": READERS}
    for kind, sizes in kinds.items():
        for name, call in calls.items():
            yield measure(
                name, kind, sizes, lambda size, kind=kind, call=call: ask(kind, call, size)
            )


def document_rows(library: Library, folder: Path) -> Iterator[Row]:
    """Ingest documents that are made to be expensive."""
    for number, (name, pattern) in enumerate(HOSTILE_TEXTS.items()):
        for kind in ("book", "document"):
            world = library.create_world(f"hostile-{number}-{kind}")

            def ingest(size: int, pattern: str = pattern, kind: str = kind, world=world) -> int:
                file = folder / "hostile.txt"
                text = fill(pattern, size) + f" {time.perf_counter_ns()}"
                file.write_text(text, "utf-8")
                world.ingest([str(file)], kind=kind)
                return 200

            yield measure(f"ingest {kind}", name, INGESTED, ingest, times=1)


@contextmanager
def opened(folder: Path) -> Iterator[Library]:
    """Give a library with a world that has a large document, and a reader."""
    counter = WordPieceCounter(LocalModel())
    with truespan.open(
        folder / "library", create=True, embedder=CheapEmbedder(counter), counter=counter
    ) as library:
        try:
            world = library.create_world("w")
            text = "".join(SENTENCE.format(number) for number in range(3000))
            (folder / "large.txt").write_text(text + '"' * 50_000 + "…" * 50_000)
            world.ingest([str(folder / "large.txt")], kind="book")
            world.reader("ann").set_position("large.txt", sentence=500)
            yield library
        finally:
            end_index_process(library)


def main() -> int:
    """Print a table and return 1 if a row is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("arguments", "accepted", "mcp", "data", "documents")
    parser.add_argument("--only", choices=parts, action="append")
    wanted = parser.parse_args().only or parts
    wrong: list[Row] = []
    # Requests that are not HTTP are expected.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    print(f"{'call':<58} {'grows':<34} {'largest':>8}{'ms':>9}{'ms':>9}{'ms':>9} growth  status")
    with (
        tempfile.TemporaryDirectory(prefix="truespan-growth-") as name,
        opened(Path(name)) as library,
    ):
        _, secret = library.tokens.create("growth", worlds=["w"], verbs=VERBS)
        _, everywhere = library.tokens.create("everywhere", worlds=UNLIMITED, verbs=VERBS)
        places = {"world": "w", "reader": "ann", "document": "1"}
        with serve_library(library) as client:
            token = secret.reveal()
            rows = {
                "arguments": lambda: argument_rows(client, token, places),
                "accepted": lambda: accepted_rows(client, token, places),
                "mcp": lambda: mcp_rows(client, token),
                "data": lambda: data_rows(client, everywhere.reveal(), library, Path(name)),
                "documents": lambda: document_rows(library, Path(name)),
            }
            for part in wanted:
                for row in rows[part]():
                    print(row, flush=True)
                    wrong += [row] if row.wrong else []
    print(f"{len(wrong)} rows are wrong." if wrong else "All rows grow linearly or are bounded.")
    for row in wrong:
        print(row)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
