"""The watching of folders on the command line: a line for each job."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from truespan.cli.app import complete
from truespan.cli.follow import ProgressLines
from truespan.cli.output.start import count_unchanged
from truespan.cli.terminal import echo, pluralize, write_error
from truespan.errors import TruespanError
from truespan.ingest.report import IngestReport, Progress
from truespan.types.text import list_some
from truespan.wire.serialize import problem

if TYPE_CHECKING:
    from truespan.engine.world import World

_MAX_NAMED = 3


def follow_folders(
    world: World, folders: Sequence[str], options: dict[str, Any], *, as_json: bool
) -> int:
    """Watch folders until a signal arrives, and print a line for each job."""

    def encode(value: Any) -> str:
        return msgspec.json.encode(value).decode()

    complaint, lines = "", None

    def complain(error: TruespanError, pause: float) -> None:
        nonlocal complaint
        if str(error) == complaint:
            return
        complaint = str(error)
        if as_json:
            echo(encode({"error": problem(error), "retry_seconds": pause}))
        else:
            retry = f" Next attempt in {pause:.0f} s." if pause else ""
            write_error(f"truespan: {complete(complaint)}{retry}\n")

    def on_progress(progress: Progress) -> None:
        nonlocal lines
        if not as_json:
            # Its clock begins with the job.
            lines = lines or ProgressLines(write_error, time.monotonic)
            lines(progress)

    options |= {"on_error": complain, "on_progress": on_progress}
    with world.documents.watch(folders, **options) as watch:
        signals = signal.SIGINT, signal.SIGTERM
        earlier = {number: signal.signal(number, lambda *_: watch.stop()) for number in signals}
        try:
            if not as_json:
                write_error("Watching. Ctrl-C stops it.\n")
            for report in watch:
                complaint, lines = "", None
                echo(encode(report) if as_json else show_watched(report))
                sys.stdout.flush()
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)
    return 0


def show_watched(report: IngestReport) -> str:
    """Return the result of a job of a watch on one line."""

    def name(label: str, names: Sequence[str]) -> Iterator[str]:
        if names:
            yield f"{label} {list_some(names, _MAX_NAMED)}"

    parts = [
        *name("ingested", report.ingested),
        *([count_unchanged(report)] if report.unchanged else ()),
        *name("moved", [f"{moved.before} to {moved.after}" for moved in report.moved]),
        *name("removed", report.removed),
        *name("failed", [failure.message for failure in report.failures]),
        *(f"note: {warning}" for warning in report.warnings),
        f"{pluralize(report.embedded, 'text')} embedded",
    ]
    return "; ".join(parts)
