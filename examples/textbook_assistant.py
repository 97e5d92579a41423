"""A textbook assistant over HTTP: readers mark a passage, and ask about it or about a chapter.

It starts its own server on this machine and needs nothing but the standard library to talk to it:

    python examples/textbook_assistant.py my-library
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BOOK = Path(__file__).with_name("optics.md")
WORLD = "/v1/worlds/optics"
MARKED = "a ring of muscle lets the lens bulge, which shortens its focal length"
QUESTION = "Why do older people need reading glasses?"
BOUNDARY = "textbook-assistant"


@contextmanager
def serve(folder: str) -> Iterator[str]:
    """Serve a library on a free port of this machine; yield host and port."""
    command = [sys.executable, "-m", "truespan"]
    create = [*command, "init", "--library", folder, "--world", "optics"]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
    start = [*command, "serve", "--library", folder, "--port", "0", "--json"]
    server = subprocess.Popen(start, stdout=subprocess.PIPE, text=True)
    try:
        started = ""
        while not started.endswith("}\n") and server.stdout and (line := server.stdout.readline()):
            started += line
        yield urlsplit(json.loads(started)["address"]).netloc
    finally:
        server.terminate()
        server.wait()


class Assistant:
    """A client of the API for one textbook."""

    def __init__(self, host: str) -> None:
        self._connection = HTTPConnection(host)

    def call(self, path: str, body: Any = None, media_type: str = "application/json") -> Any:
        """Return the reply to a request as data; of a stream of events, the last one."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"Content-Type": media_type} if data else {"Accept": media_type}
        self._connection.request("POST" if data else "GET", WORLD + path, data, headers)
        reply = self._connection.getresponse()
        content = json.loads(reply.read().rpartition(b"data: ")[2])
        if reply.status >= 400:
            raise RuntimeError(f"{content['code']}: {content['detail']}")
        return content

    def add(self, book: Path) -> None:
        """Upload a textbook, and follow its job to the end."""
        part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{{}}"\r\n\r\n{{}}\r\n'
        file = part.format(f'file"; filename="{book.name}', book.read_text("utf-8"))
        form = f"{part.format('kind', 'book')}{file}--{BOUNDARY}--\r\n".encode()
        accepted = self.call("/documents", form, f"multipart/form-data; boundary={BOUNDARY}")
        ended = self.call(f"/jobs/{accepted['job']['id']}", media_type="text/event-stream")
        if ended["state"] != "done":
            raise RuntimeError(f"The job is {ended['state']}: {ended['error']}")

    def retrieve(self, **request: Any) -> Any:
        """Return a context bundle for `query`, `selected_text` or both, with filters."""
        return self.call("/retrieve", request)


def show(title: str, bundle: Any) -> None:
    """Print where each passage stands and what it says."""
    print(f"{title} [{bundle['status']}, {bundle['total_tokens']} tokens]")
    for place in bundle["metadata"]["located"]:
        print(f"  marked in {place['source']}, {place['chapter']}, {place['section']}")
    for chunk in bundle["retrieved_chunks"]:
        print(f"  {chunk['chapter']}: {' '.join(chunk['content'].split())}")


def main(folder: str) -> None:
    """Upload the book, then ask as a reader of it would."""
    with serve(folder) as host:
        assistant = Assistant(host)
        assistant.add(BOOK)
        show("Explain this.", assistant.retrieve(selected_text=MARKED, top_k=1))
        best = {"query": QUESTION, "granularity": "sentence", "top_k": 2}
        show(QUESTION, assistant.retrieve(**best, selected_text=MARKED))
        show("Only in chapter 2:", assistant.retrieve(**best, chapter="Chapter 2: Lenses"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "textbook-library")
