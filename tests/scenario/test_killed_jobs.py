"""A background job that crashes its process is given up after the configured number of crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.promises import proves
from tests.support.worlds import make_library
from truespan.engine.components import MAX_CRASHES
from truespan.types.job import JobState

RUN = """
import os, sys
from pathlib import Path
from tests.support.worlds import make_library
from truespan.types.source import Upload

lib = make_library(Path(sys.argv[1]), store="sqlite")
# As if the operating system killed the process while it embeds the document.
lib.embedder.before = lambda: os._exit(9)
if sys.argv[2] == "submit":
    lib.library.create_world("world").ingest(
        [Upload("a.txt", b"The tide comes in.")], background=True
    )
else:
    print(len(lib.library.server.resume_waiting()), flush=True)
lib.library._components.queue.wait()
"""


@proves("tenants.no-stall")
def test_a_job_that_ends_its_process_is_not_taken_up_for_ever(tmp_path: Path) -> None:
    def run(action: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(tmp_path), action],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        return done.returncode, done.stdout.strip()

    assert run("submit") == (9, "")
    restarts = [run("resume") for _ in range(MAX_CRASHES)]

    taken = [(9, "1")] * (MAX_CRASHES - 1)
    assert restarts == [*taken, (0, "0")]
    with make_library(tmp_path, store="sqlite").library as library:
        [job] = library.world("world").jobs.list()
        assert (job.state, job.crashes) == (JobState.INTERRUPTED, MAX_CRASHES)
