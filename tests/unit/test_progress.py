"""Progress of a run: sources that were read, chunks and tokens a second, and the device."""

from pathlib import Path

from tests.support.worlds import make_library
from truespan.cli.follow import describe_rates, describe_work
from truespan.ingest.report import Progress

START = Progress(0.0, 0, 35, 0, 0, "note.md")


def test_progress_names_work_rates_and_device() -> None:
    assert describe_work(Progress(0.0, 0, 35, 0, 0, "note.md", read=12)) == "reading 12 of 35"
    assert describe_work(Progress(0.2, 3, 35, 9, 9, "note.md", read=12)) == "note.md"
    assert describe_work(Progress(0.2, 3, 35, 9, 9, "")) == "working"
    busy = Progress(0.2, 3, 35, 6000, 6000, "note.md", tokens=1_500_000, device="cuda NVIDIA H200")
    assert describe_rates(START, 9.0) == ""
    assert describe_rates(busy, 0.1) == "6000 chunks, on cuda NVIDIA H200"
    assert (
        describe_rates(busy, 2.0) == "6000 chunks, 3,000.0/s, 750,000 tokens/s, on cuda NVIDIA H200"
    )


def test_run_reports_read_sources_and_tokens(tmp_path: Path) -> None:
    lib, shown = make_library(tmp_path), list[Progress]()
    world = lib.world()
    pages = [lib.write(f"{name}.md", f"# {name}\n\nThe lamp burned.") for name in "abc"]
    world.ingest(pages, on_progress=shown.append)
    assert [progress.read for progress in shown if not progress.chunks] == [1, 2, 3]
    assert all(not progress.tokens for progress in shown if not progress.chunks)
    stored = sum(document.chunks for document in world.documents.list())
    assert (shown[-1].read, shown[-1].chunks) == (3, stored)
    assert shown[-1].tokens > stored
    assert shown[-1].device == ""
