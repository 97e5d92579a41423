"""Drafts that workers prepare in advance: their order, and the bytes that are read ahead."""

from collections.abc import Iterator
from threading import Lock
from typing import Any

import pytest

from truespan.errors import SourceRefused
from truespan.ingest import queues
from truespan.ingest.queues import DraftQueue
from truespan.ingest.source_drafts import SourceDraft
from truespan.types.source import Source


class Content:
    def __init__(self, size: int, digest: str) -> None:
        self.data, self.digest = bytes(size), digest


class Task:
    def __init__(self, source: Source, digest: str) -> None:
        self.source, self.content = source, Content(source.size, digest)


class Maker:
    """Prepares sources without reading them; the digest of a source is its name up to a dash."""

    def __init__(self) -> None:
        self.ahead = self.most_ahead = 0
        self.completed: list[str] = []
        self.seen: dict[str, list[str]] = {}

    def prepare(self, source: Source, _known: Any, on_content: Any) -> Any:
        digest = source.name.partition("-")[0]
        on_content(digest)
        self.seen[source.name] = [*self.completed]
        if source.name.startswith("same"):
            return SourceDraft()
        if source.name.startswith("refused"):
            raise SourceRefused("source_empty", source.name)
        self.ahead += source.size
        self.most_ahead = max(self.most_ahead, self.ahead)
        return Task(source, digest)

    def run(self, _task: Any) -> Any:
        raise AssertionError("workers make all drafts")

    def complete(self, task: Any, draft: Any) -> SourceDraft:
        self.ahead -= task.source.size
        self.completed.append(task.source.name)
        return SourceDraft(task.source, draft)


class Workers:
    """Workers that answer with the name of the source."""

    jobs = 4

    def __init__(self) -> None:
        self._lock = Lock()
        self.made: list[str] = []

    def make(self, task: Any, _make_here: Any) -> Any:
        with self._lock:
            self.made.append(task.source.name)
        if task.source.name.startswith("empty"):
            raise SourceRefused("source_empty", task.source.name)
        return task.source.name


def source(name: str, size: int = 1) -> Source:
    return Source(path=name, name=name, doc_id=name, size=size)


def run(maker: Maker, names: list[str], size: int = 1) -> Iterator[str]:
    queue = DraftQueue(maker, Workers())  # type: ignore[arg-type]
    for made_of, made in queue.make_drafts([source(name, size) for name in names], {}):
        is_refused = isinstance(made, SourceRefused)
        yield f"{made_of.name}!{made.code}" if is_refused else f"{made_of.name}={made.draft}"


def test_draft_queue_keeps_the_order_of_the_sources() -> None:
    names = [f"{kind}{place}" for place in range(40) for kind in ("a", "same", "refused", "empty")]
    found = list(run(Maker(), names))
    expected = {"a": "={0}", "same": "=None", "refused": "!source_empty", "empty": "!source_empty"}
    assert found == [name + expected[name.rstrip("0123456789")].format(name) for name in names]


def test_draft_queue_reads_a_limited_number_of_bytes_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "MAX_BYTES_AHEAD", 100)
    maker = Maker()
    assert len(list(run(maker, [f"s{place}" for place in range(50)], size=30))) == 50
    assert maker.most_ahead == 90
    # A source that is larger than the limit is read alone.
    maker = Maker()
    assert len(list(run(maker, [f"s{place}" for place in range(5)], size=1000))) == 5
    assert maker.most_ahead == 1000


def test_draft_queue_reads_a_limited_number_of_sources_ahead() -> None:
    maker = Maker()
    results = run(maker, [f"s{place}" for place in range(100)])
    next(results)
    assert len(maker.seen) == queues.TASKS_PER_WORKER * Workers.jobs
    results.close()  # type: ignore[attr-defined]


def test_draft_queue_completes_the_first_of_two_copies_before_the_second() -> None:
    maker = Maker()
    list(run(maker, ["x-1", "y-1", "x-2"]))
    assert "x-1" in maker.seen["x-2"]
    assert maker.seen["y-1"] == []
