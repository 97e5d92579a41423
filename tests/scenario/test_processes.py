"""Several concurrent processes on one library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.crash_process import library
from tests.support.forked_process import ForkedProcess

CHILD = """
import json, sys
from pathlib import Path
from tests.support.crash_process import library

folder, number = Path(sys.argv[1]), sys.argv[2]
with library(folder) as opened:
    world = opened.world("shared")
    empty = 0
    for turn in range(6):
        path = folder / f"own-{number}.txt"
        path.write_text(f"Process {number} wrote turn {turn} about the harbour. " * 30)
        report = world.ingest(str(path))
        assert not report.failures, report.failures
        result = world.search("harbour process wrote", top_k=50, floor=0.0)
        empty += not result.passages
        kinds = {entry.code for entry in result.skipped}
        assert kinds <= {"orphan_point"}, kinds
    print(json.dumps({"empty": empty}))
"""


@proves("store.second-process")
@pytest.mark.parametrize("processes", [2, 5])
def test_processes_ingest_and_search_one_world_together(tmp_path: Path, processes: int) -> None:
    with library(tmp_path) as opened:
        world = opened.create_world("shared")
        (tmp_path / "base.txt").write_text("The base document is about the harbour.")
        world.ingest(str(tmp_path / "base.txt"))

        running = [
            ForkedProcess(
                [sys.executable, "-c", CHILD, str(tmp_path), str(number)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(processes)
        ]
        outputs = [process.communicate(timeout=240) for process in running]

        assert [process.returncode for process in running] == [0] * processes, outputs
        assert [json.loads(out)["empty"] for out, _ in outputs] == [0] * processes
        world.repair()
        assert opened.doctor(["shared"])["shared"].counts() == {}
        assert world.status().documents == processes + 1
        assert world.status().pending == 0
        opened._components.index.retire()  # type: ignore[attr-defined]
