"""A process that is killed just before its n-th durable step.

Run as `python -m tests.support.crash_process FOLDER WORLD ACTION STEP [PATH]`. It exits with 0 if
it ends before the step, and dies by SIGKILL otherwise.
"""

import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

from tests.support.state_embedder import StateEmbedder
from tests.support.worlds import DirectParser, ManualClock, WordCounter, sqlite_store
from truespan.core.clock import SystemProcesses
from truespan.engine.components import Components
from truespan.engine.library import Library
from truespan.files.assets import AssetFolder
from truespan.files.sources import FileSources
from truespan.files.uploads import UploadFolder
from truespan.index.edge.client import EdgeIndex
from truespan.ingest import pipeline, queues
from truespan.ingest.workers.client import DraftWorkers
from truespan.parsing import supported
from truespan.retrieval.word_counts import count_chunks
from truespan.store.engines.session import Part
from truespan.types.job import IngestJob
from truespan.types.source import Upload

DURABLE = {
    "stage", "keep_vectors", "mark_embedded", "activate", "tombstone", "purge", "record_failures",
    "finish_repairs", "rebuild", "mark_pending", "upsert", "flush", "delete",
    "delete_stale", "add_generation", "write_chunks", "move_alias", "retire_generation", "drop",
    "remove_generation", "add", "record", "keep_derived", "stage_images", "publish",
    "remove",
    "forget_vectors", "restore_text", "distrust", "drop_foreign_vectors", "drop_tenant", "discard",
    "mark_all_pending",
    "requeue", "start", "interrupt", "take_over", "receive", "sweep",
    "erase", "rewrite_file", "finish", "delete_world", "remove_all",
}  # fmt: skip


class Countdown:
    """Counts durable steps over all wrapped parts, and ends the process at one."""

    def __init__(self, step: int) -> None:
        self.left = step

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """A part of a library whose durable steps are counted."""

    def __init__(self, inner: Any, countdown: Countdown) -> None:
        self._inner = inner
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        if isinstance(member, Part):
            return Mortal(member, self._countdown)
        if name not in DURABLE:
            return member

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._countdown.tick()
            return member(*args, **kwargs)

        return counted


STORE_URL = "store.url"
"""A file that names the database of a folder's store; without it, the store is a file there."""


def _store(folder: Path, clock: ManualClock) -> Any:
    if not (folder / STORE_URL).exists():
        return sqlite_store(folder / "store.db", clock)
    from truespan.extensions.cluster.postgres import Address, PostgresDatabase
    from truespan.store import Store
    from truespan.types.token import Secret

    return Store(PostgresDatabase(Address(Secret((folder / STORE_URL).read_text()))), clock)


def library(folder: Path, step: int = 0, jobs: int = 1) -> Library:
    """Open a library on the real store and the real index, with the embedder of the tests."""
    countdown = Countdown(step)
    clock = ManualClock()
    if jobs > 1:
        # Workers for small files too, and several groups.
        queues.MIN_BYTES, pipeline.GROUP_CHUNKS = 0, 8
    return Library(
        Components(
            store=Mortal(_store(folder, clock), countdown),  # type: ignore[arg-type]
            index=Mortal(EdgeIndex(folder / "index", reserve=0), countdown),  # type: ignore[arg-type]
            embedder=StateEmbedder(),
            counter=WordCounter(),
            sources=FileSources(supported),
            parser=DirectParser(),
            assets=Mortal(AssetFolder(folder / "assets", reserve=0), countdown),  # type: ignore[arg-type]
            uploads=Mortal(UploadFolder(folder / "uploads", reserve=0), countdown),  # type: ignore[arg-type]
            processes=SystemProcesses(),
            clock=clock,
            workers=DraftWorkers(jobs, DirectParser(), WordCounter(), count_chunks),
        )
    )


def main(arguments: list[str]) -> None:
    folder, world, action, step = arguments[:4]
    jobs = 4 if action == "ingest with workers" else 1
    with library(Path(folder), int(step), jobs) as opened:
        chosen = opened.world(world)
        match action:
            case "ingest" | "ingest with workers":
                chosen.ingest(arguments[4])
            case "upload":
                chosen.jobs.submit(IngestJob([Upload("tale.txt", Path(arguments[4]))]))
                opened._components.queue.wait()  # type: ignore[attr-defined]
            case "serve":
                print(*(job.id for job in opened.server.resume_waiting()))
                opened._components.queue.wait()  # type: ignore[attr-defined]
            case "delete":
                chosen.documents.delete("1")
            case "delete world":
                opened.delete_world(chosen.name)
            case "repair":
                chosen.repair()
            case "search":
                chosen.search("harbour by night", floor=0.0)
            case "reindex":
                number = int(arguments[4]) if arguments[4:] and arguments[4].isdigit() else None
                chunking = "sentences" if number is None else None
                chosen.generations.reindex(chunking=chunking, generation=number)
            case "promote":
                chosen.generations.promote(int(arguments[4]))
            case "rollback":
                chosen.generations.rollback()
            case "remove":
                chosen.generations.remove(int(arguments[4]))
            case "doctor":
                opened.doctor([chosen.name], apply=True)
            case "treat":
                opened.maintenance.apply_plan(pickle.loads(Path(arguments[4]).read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1:])
