"""Every handler of an operating system error checks whether a resource ran out."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "truespan"
ASKS = ("resource_error", "require_descriptor", "_failure(")
"""What finds out whether a resource ran out."""

HARMLESS = {
    "files/assets.py:stage_images": "raised again, to where it is asked",
    "files/assets.py:_claim": "raised again, to where it is asked",
    "files/assets.py:copy_published": "a copy follows, which fails for the same reason",
    "files/backup.py:write": "a rename follows, which needs neither room nor a descriptor",
    "ingest/workers/client.py:_free_memory": "what is unknown counts as enough",
    "ingest/workers/client.py:ask": "the worker is replaced, and starting one asks",
    "files/jail.py:_is_folder": "looks at a name, which needs no descriptor",
    "files/jail.py:_open_in_jail": "raised again, to where it is asked",
    "files/sources.py:_resolve": "looks at names, which needs no descriptor",
    "files/sources.py:exists": "checks a name; an unknown error counts as existing",
    "files/sources.py:_add_file": "looks at a name; reading the file follows",
    "files/sources.py:_add_folder": "looks at names, which needs no descriptor",
    "extensions/crawl/watch.py:_begin": "waits and tries again after any error",
    "extensions/server/http/server.py:_listen": "binds an open socket; the message has the reason",
    "index/edge/channel.py:published": "a start of the process follows, which needs more",
    "index/edge/channel.py:_private_directory": "the next place is tried",
    "index/edge/client.py:_connect": "the connection is open, and another is tried",
    "index/edge/client.py:_exchange": "writes to a socket that is open",
    "index/edge/client.py:start": "writes to a socket that is open, and is made again",
    "index/edge/process.py:_serve": "writes to a socket that is open",
    "index/edge/process.py:_accept": "waits until a descriptor is free",
    "extensions/cluster/queue.py:run": "waits and tries again after any error",
    "extensions/server/mcp/stdio.py:_write": "writes to a pipe that is open",
    "parsing/sandbox/process.py:_address_space": "an estimate; 0 means unknown",
    "extensions/proof/verify.py:main": "runs alone; names the file and the error",
    "extensions/server/chat_file.py:write_connection": "the page says that it was not written",
    "extensions/server/chat_file.py:remove_connection": "the page says that it was not written",
    "extensions/formats/ocr.py:_read_frames": "reads from memory; an error means a broken image",
}
"""Where nothing is asked, and why that is right."""


def handlers() -> Iterator[tuple[str, str]]:
    """Yield each place that catches OSError, as file and function, with its source."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "OSError" not in text:
            continue
        tree = ast.parse(text)
        owners: dict[ast.AST, str] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                own = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
                owners[child] = own or owners.get(node, "")
        for node in ast.walk(tree):
            if not isinstance(node, ast.ExceptHandler) or node.type is None:
                continue
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(isinstance(kind, ast.Name) and kind.id == "OSError" for kind in caught):
                name = f"{path.relative_to(SOURCE).as_posix()}:{owners[node]}"
                yield name, ast.get_source_segment(text, node) or ""


def test_handlers_of_os_errors_check_for_exhausted_resources() -> None:
    found = list(handlers())
    missing = {
        place
        for place, source in found
        if not any(word in source for word in ASKS)
        and source.split(":\n", 1)[-1].strip() != "raise"
    }
    assert missing - HARMLESS.keys() == set()
    assert HARMLESS.keys() - {place for place, _ in found} == set(), "no longer there"
