"""A progress bar with rate and time left, on standard error, for people only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from truespan.ingest.report import Progress


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Give a function that shows progress; None when nobody would see it."""
    if hidden or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[chunks]} chunks"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=1.0, chunks=0, rate="")

        def on_progress(progress: Progress) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = f"{progress.chunks / elapsed:.1f}/s" if elapsed > 0.5 else ""
            bar.update(
                task,
                completed=progress.fraction,
                description=progress.current[:32] or "working",
                chunks=progress.chunks,
                rate=rate,
            )

        yield on_progress
