"""Ingestion with several worker processes: the same result as with one, even if workers die."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.promises import proves
from tests.support.crash_process import library
from tests.support.worlds import WordCounter
from truespan.engine.ingestion import Ingestion
from truespan.engine.library import Library
from truespan.ingest import pipeline, queues
from truespan.ingest.metadata import derive_metadata
from truespan.ingest.source_drafts import DraftMaker
from truespan.ingest.workers import client
from truespan.ingest.workers.client import DraftWorkers
from truespan.parsing.sandbox.client import ChildParser
from truespan.types.document import Derivable
from truespan.types.job import DocumentState
from truespan.types.source import DocumentOptions

_WITHOUT = {"jobs", "job_documents", "job_lines", "query_cache", "usage", "sqlite_sequence"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use workers for small files too, and several groups."""
    monkeypatch.setattr(queues, "MIN_BYTES", 0)
    monkeypatch.setattr(pipeline, "GROUP_CHUNKS", 8)


@contextmanager
def opened_with(folder: Path, jobs: int) -> Iterator[Library]:
    with library(folder, jobs=jobs) as opened:
        try:
            yield opened
        finally:
            opened._components.index.retire()  # type: ignore[attr-defined]


def write_files(folder: Path, count: int = 12) -> None:
    """Write texts of several lengths, a Markdown file, copies, and files that are refused.

    They are ordinary English: loading the detector of languages takes most of a worker's time.
    """
    folder.mkdir()
    for number in range(count):
        sentences = [
            f"This is the tale of number {number}, and it was told at the harbour {place}."
            for place in range(5 + 9 * number)
        ]
        (folder / f"{number:02}.txt").write_text(" ".join(sentences))
    section = "# One\n\nThis is the first of all.\n\n# Two\n\nThat was the second of it. "
    (folder / "headings.md").write_text(section * 20)
    (folder / "copy.txt").write_text((folder / "03.txt").read_text())
    (folder / "empty.txt").write_text(" \n ")
    (folder / "broken.docx").write_bytes(b"PK\x03\x04 no archive")
    (folder / "z-copy.txt").write_text((folder / "05.txt").read_text())


def read_rows(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of a store, apart from the records of jobs."""
    connection = apsw.Connection(str(folder / "store.db"), flags=apsw.SQLITE_OPEN_READONLY)
    found: Any = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    rows = {
        name: sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr)
        for (name,) in found.fetchall()
        if name not in _WITHOUT
    }
    connection.close()
    return rows


@proves("ingest.same-result-with-workers")
@pytest.mark.parametrize("copies", ["keep", "link", "refuse"])
def test_ingest_with_workers_writes_the_same_rows_and_points(tmp_path: Path, copies: str) -> None:
    files, first, second = tmp_path / "files", tmp_path / "first", tmp_path / "second"
    write_files(files)
    if copies == "keep":
        (files / "german.txt").write_text("Die Lampe stand im Hafen, und niemand kannte sie. " * 5)
    first.mkdir()
    with opened_with(first, 1) as opened:
        opened.create_world("tales")
    shutil.copytree(first, second)
    found: list[Any] = []
    # Starting a worker takes a second.
    for folder, jobs in ((first, 1), (second, 4 if copies == "keep" else 2)):
        with opened_with(folder, jobs) as opened:
            world = opened.world("tales")
            report = world.ingest(str(files), copies=copies)
            scope = world.access.scope()
            assert scope is not None
            points = [point for page in opened._components.index.scan(scope) for point in page]
            failures = [(each.name, each.code, each.message) for each in report.failures]
            counts = report.ingested, failures, report.unchanged, report.chunks, report.embedded
            languages = {each.name: each.language for each in world.documents.list()}
            points.sort(key=lambda point: point.chunk_id)
            found.append((counts, report.warnings, points, languages))
    assert found[0] == found[1]
    assert len(found[0][0][0]) >= 13
    assert {*found[0][3].values()} == ({"en", "de"} if copies == "keep" else {"en"})
    assert {code for _, code, _ in found[0][0][1]} >= {"source_empty"}
    assert read_rows(first) == read_rows(second)


class _Killer:
    """Kills a worker as soon as it has started, `times` times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, setup: bytes) -> Any:
        worker = client._Worker(setup)
        if self.left:
            self.left -= 1
            os.kill(worker.process.pid, signal.SIGKILL)
        return worker


@proves("ingest.same-result-with-workers")
def test_killed_worker_is_replaced_and_its_document_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = tmp_path / "files", tmp_path / "library"
    write_files(files, 6)
    folder.mkdir()
    monkeypatch.setattr(client, "start_worker", _Killer(1))
    with opened_with(folder, 2) as opened:
        report = opened.create_world("tales").ingest(str(files))
    assert {each.name for each in report.failures} == {"empty.txt", "broken.docx"}


@proves("ingest.same-result-with-workers")
def test_document_that_kills_two_workers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = tmp_path / "files", tmp_path / "library"
    files.mkdir()
    folder.mkdir()
    for name in ("a", "b"):
        (files / f"{name}.txt").write_text(f"A tale of {name}.")
    monkeypatch.setattr(client, "start_worker", _Killer(4))
    with opened_with(folder, 2) as opened:
        report = opened.create_world("tales").ingest(str(files))
    assert {each.code for each in report.failures} == {"loader_crashed"}


@proves("ingest.same-result-with-workers")
def test_ingest_without_workers_if_the_counter_cannot_be_sent(tmp_path: Path) -> None:
    class OwnCounter(WordCounter):
        """A counter that exists in this function only."""

    files, folder = tmp_path / "files", tmp_path / "library"
    write_files(files, 6)
    folder.mkdir()
    with opened_with(folder, 2) as opened:
        parser, _, count_words = opened._components.workers._tools  # type: ignore[union-attr]
        assert not DraftWorkers(2, parser, OwnCounter(), count_words).can_start()
        report = opened.create_world("tales").ingest(str(files), jobs=2)
    assert len(report.ingested) == 9


@proves("ingest.same-result-with-workers")
def test_unexpected_error_of_a_worker_is_raised_in_this_process(tmp_path: Path) -> None:
    files, folder = tmp_path / "files", tmp_path / "library"
    write_files(files, 6)
    folder.mkdir()
    with opened_with(folder, 2) as opened:
        parser, _, count_words = opened._components.workers._tools  # type: ignore[union-attr]
        made: list[str] = []

        def make_here(task: Any) -> Any:
            made.append(task.source.name)
            raise ZeroDivisionError

        world = opened.create_world("tales")
        scope = world.access.writable_scope()
        maker = DraftMaker(Ingestion(world.access.components, scope).deps, scope)
        source = next(iter(opened._components.sources.find([str(files)], DocumentOptions())))
        task = maker.prepare(source, None)
        own = DraftWorkers(2, parser, None, count_words)  # type: ignore[arg-type]
        assert own.can_start()
        with pytest.raises(ZeroDivisionError):
            own.make(task, make_here)  # type: ignore[arg-type]
        own.close()
        assert made == ["00.txt"]


@proves("ingest.metadata-after-embedding")
def test_metadata_failures_during_parsing_are_reported_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = tmp_path / "files", tmp_path / "library"
    write_files(files, 6)
    folder.mkdir()
    left = {"05.txt": 2, "04.txt": 1}

    def derive(source: Derivable) -> str:
        if left.get(source.title, 0):
            left[source.title] -= 1
            raise ValueError(source.title)
        return derive_metadata(source)

    monkeypatch.setattr(pipeline, "derive_metadata", derive)
    with opened_with(folder, 2) as opened:
        world = opened.create_world("tales")
        report = world.ingest(str(files), copies="link")
        number = next(each.number for each in world.documents.list() if each.name == "05.txt")
        warning = f"The metadata of document {number} could not be derived."
        assert [line for line in report.warnings if "metadata" in line] == [warning]
        scope = world.access.scope()
        assert scope is not None
        missing = opened._components.store.revisions.missing_metadata(scope)
        assert [ref.document for ref in missing] == [number]


@proves("ingest.same-result-with-workers")
def test_ingest_of_unchanged_files_starts_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "files"
    write_files(files)
    for name in ("empty.txt", "broken.docx"):
        (files / name).unlink()
    (tmp_path / "library").mkdir()
    with opened_with(tmp_path / "library", 2) as opened:
        world = opened.create_world("tales")
        first = world.ingest(str(files))
        started: list[str] = []
        monkeypatch.setattr(client, "start_worker", lambda _setup: started.append("worker"))
        monkeypatch.setattr(ChildParser, "parse", lambda *_: started.append("parser"))
        again = world.ingest(str(files))
        states = {each.state for each in world.jobs.documents(again.job)}
    assert (again.unchanged, again.ingested, started) == (len(first.ingested), [], [])
    assert states == {DocumentState.UNCHANGED}
