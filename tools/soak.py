"""Twelve clients on one server while documents are replaced and deleted.

Run as `python -m tools.soak --minutes 3` (`make soak`). Three clients write: each replaces and
deletes documents of its own. Nine read: searches, context, pages of sentences, readers, jobs and
all the rest. Every version of a document has its own words, so that each reply can be compared with
the versions that existed while it was made. At the end no reply may have been a server error, no
reply may show what never existed together, memory must be flat, and the doctor must find nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from tests.support.http_server import Served, served

import truespan
from truespan.wiring import open_library

WORLD = "w"
WRITERS, READERS = 3, 9
DOCUMENTS = 4
"""Documents of each writer."""
SAMPLE_SECONDS = 1.0
MOST_GROWTH = 1.15
"""How much more memory the last third of the time may need than the second."""
MARK = re.compile(r"\bmark(\d+)x(\d+)z\b")
SENTENCE = re.compile(r"In mark(\d+)x(\d+)z [^.]*\.")
SUBJECTS = ("tide", "lamp", "clock", "keeper", "harbour", "storm", "key", "ferry")


def text_of(document: int, version: int) -> str:
    """Return a version of a document: every sentence names both."""
    choose = random.Random(document * 10_007 + version)
    lines = [
        f"In mark{document}x{version}z the {choose.choice(SUBJECTS)} number {place} met the "
        f"{choose.choice(SUBJECTS)}."
        for place in range(choose.randrange(20, 60))
    ]
    return "# One\n\n" + " ".join(lines[:10]) + "\n\n# Two\n\n" + " ".join(lines[10:]) + "\n"


@dataclass
class Version:
    """A version of a document, from when it may be seen to when it cannot be any more."""

    version: int
    since: float
    until: float = float("inf")


@dataclass
class History:
    """Which versions of which documents existed when, and what was wrong."""

    versions: dict[int, list[Version]] = field(default_factory=dict)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, document: int, version: int) -> None:
        """Note that a version may be seen from now on."""
        with self.lock:
            self.versions.setdefault(document, []).append(Version(version, time.monotonic()))

    def end_before(self, document: int, version: int) -> None:
        """Note that versions before this one cannot be seen any more."""
        with self.lock:
            for known in self.versions.get(document, ()):
                if known.version < version:
                    known.until = min(known.until, time.monotonic())

    def note(self, call: str, status: int) -> None:
        with self.lock:
            self.statuses[call, status] += 1

    def complain(self, what: str) -> None:
        with self.lock:
            self.wrong.append(what)

    def check(self, call: str, texts: list[str], began: float) -> None:
        """Compare what a reply shows with the versions that existed while it was made."""
        ended = time.monotonic()
        shown: dict[int, set[int]] = {}
        for text in texts:
            for document, version in MARK.findall(text):
                shown.setdefault(int(document), set()).add(int(version))
        for document, versions in shown.items():
            if len(versions) > 1:
                self.complain(f"{call}: document {document} in versions {sorted(versions)}")
            with self.lock:
                known = {one.version: one for one in self.versions.get(document, ())}
            for version in versions:
                one = known.get(version)
                if one is None or one.since > ended or one.until < began:
                    self.complain(f"{call}: document {document}, version {version} was not there")
        for text in texts:
            for found in SENTENCE.finditer(" ".join(text.split())):
                if found[0] not in text_of(int(found[1]), int(found[2])):
                    self.complain(f"{call}: not in document {found[1]}: {found[0]}")


class Caller:
    """One client with its own connection."""

    def __init__(self, server: Served, history: History, seed: int) -> None:
        self.history = history
        self.random = random.Random(seed)
        self.http = httpx2.Client(base_url=server.address, timeout=120)

    def ask(self, call: str, method: str, path: str, **given: Any) -> httpx2.Response:
        reply = self.http.request(method, f"v1/worlds/{WORLD}{path}", **given)
        self.history.note(call, reply.status_code)
        if reply.status_code >= 500:
            self.history.complain(f"{call}: {reply.status_code} {reply.text[:200]}")
        return reply


def write(caller: Caller, number: int, stopping: Callable[[], bool]) -> None:
    """Replace and delete the documents of one writer."""
    history, version = caller.history, 0
    while not stopping():
        version += 1
        document = number * DOCUMENTS + caller.random.randrange(DOCUMENTS)
        name = f"d{document}.md"
        if version > DOCUMENTS and caller.random.random() < 0.2:
            reply = caller.ask("delete", "DELETE", f"/documents/{name}")
            if reply.status_code == 200:
                history.end_before(document, version)
            continue
        history.begin(document, version)
        content = text_of(document, version).encode()
        reply = caller.ask(
            "upload",
            "POST",
            "/documents",
            files={"file": (name, content, "text/markdown")},
            data={"kind": "book"},
        )
        if reply.status_code != 202:
            history.complain(f"upload: {reply.status_code} {reply.text[:200]}")
            continue
        job = reply.json()["job"]["id"]
        while (state := caller.ask("job", "GET", f"/jobs/{job}").json()["job"]["state"]) in (
            "queued",
            "running",
        ):
            time.sleep(0.05)
        if state != "done":
            history.complain(f"upload: the job ended {state}")
            continue
        history.end_before(document, version)


def texts_in(value: Any) -> list[str]:
    """Return every text in a reply that names a version."""
    if isinstance(value, str):
        return [value] if MARK.search(value) else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in texts_in(part)]


def read(caller: Caller, number: int, stopping: Callable[[], bool]) -> None:
    """Use every call that reads, and the positions of a reader."""
    choose, reader = caller.random, f"reader-{number}"
    while not stopping():
        query = " ".join(choose.sample(SUBJECTS, 3)) + f" {choose.randrange(20)}"
        document = choose.randrange(WRITERS * DOCUMENTS)
        name = f"d{document}.md"
        calls: dict[str, tuple[str, str, Any]] = {
            "search": ("POST", "/search", {"query": query, "floor": 0}),
            "search fused": ("POST", "/search", {"query": query, "mode": "hybrid", "floor": 0}),
            "retrieve": ("POST", "/retrieve", {"query": query, "language": None}),
            "retrieve fused": ("POST", "/retrieve", {"query": query, "mode": "hybrid"}),
            "retrieve one": ("POST", "/retrieve", {"query": query, "documents": [name]}),
            "selection": ("POST", "/retrieve", {"selected_text": f"number {document} met the"}),
            "answer": ("POST", "/answer", {"query": query}),
            "documents": ("GET", "/documents", None),
            "document": ("GET", f"/documents/{name}", None),
            "sentences": ("GET", f"/documents/{name}/sentences?offset=2&limit=20", None),
            "position": ("PUT", f"/readers/{reader}/position", {"book": name, "sid": 5}),
            "positions": ("GET", f"/readers/{reader}/position", None),
            "books": ("GET", f"/readers/{reader}/books", None),
            "reader": ("POST", f"/readers/{reader}/retrieve", {"query": query, "book": name}),
            "reading": ("GET", f"/readers/{reader}/sentences?book={name}", None),
            "jobs": ("GET", "/jobs", None),
            "usage": ("GET", "/usage", None),
            "world": ("GET", "", None),
            "generations": ("GET", "/generations", None),
            "chunk": ("GET", "/chunks/00000000-0000-0000-0000-000000000000", None),
        }
        call = choose.choice(list(calls))
        method, path, body = calls[call]
        began = time.monotonic()
        reply = caller.ask(call, method, path, **({} if body is None else {"json": body}))
        if reply.status_code == 200:
            caller.history.check(call, texts_in(reply.json()), began)


def memory_of(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def run(server: Served, minutes: float, seed: int) -> tuple[History, list[float]]:
    """Let all clients work for some minutes; return what they saw and the memory samples."""
    history, end = History(), time.monotonic() + minutes * 60

    def work(task: Callable[..., None], number: int, place: int) -> None:
        caller = Caller(server, history, seed * 1000 + place)
        try:
            task(caller, number, lambda: time.monotonic() > end)
        except Exception:
            history.complain(traceback.format_exc())
        finally:
            caller.http.close()

    tasks = [(write, number) for number in range(WRITERS)]
    tasks += [(read, number) for number in range(READERS)]
    threads = [
        threading.Thread(target=work, args=(task, number, place))
        for place, (task, number) in enumerate(tasks)
    ]
    for thread in threads:
        thread.start()
    samples: list[float] = []
    while any(thread.is_alive() for thread in threads):
        samples.append(memory_of(server.process.pid))
        time.sleep(SAMPLE_SECONDS)
    return history, samples


def main() -> int:
    """Print what was done, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    # The index process may still be writing its last files when it was told to end.
    temporary = tempfile.TemporaryDirectory(prefix="truespan-soak-", ignore_cleanup_errors=True)
    with temporary as name:
        library = Path(name) / "library"
        with truespan.open(library, create=True) as opened:
            opened.create_world(WORLD)
        errors = Path(name) / "errors.log"
        with served(library, errors=errors, quiet=False) as server:
            history, samples = run(server, asked.minutes, asked.seed)
        if said := errors.read_text("utf-8"):
            history.complain(f"the server wrote: {said[:2000]}")
        doctor = subprocess.run(
            [sys.executable, "-m", "truespan", "doctor", "--library", str(library), "--json"],
            capture_output=True,
            text=True,
        )
        open_library(library)._components.index.retire()  # type: ignore[attr-defined]
    for (call, status), count in sorted(history.statuses.items()):
        print(f"{call:<16} {status} {count:>8}")
    third = len(samples) // 3
    before, after = (statistics.median(part) for part in (samples[third:-third], samples[-third:]))
    total = sum(history.statuses.values())
    shown = " ".join(f"{sample:.0f}" for sample in samples[:: max(len(samples) // 20, 1)])
    print(f"{total} replies; memory in MiB over time: {shown}")
    if after > before * MOST_GROWTH:
        history.complain(f"memory grew from {before:.0f} to {after:.0f} MiB")
    if doctor.returncode:
        history.complain(f"doctor: {doctor.stdout[-2000:]}{doctor.stderr[-2000:]}")
    for what, count in Counter(history.wrong).most_common(20):
        print(f"WRONG {count} times: {what}")
    print(json.dumps({"replies": total, "wrong": len(history.wrong)}))
    return 1 if history.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
