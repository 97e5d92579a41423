"""Exit of a process with its own code while threads run."""

import subprocess
import sys

from tests.support.rows import each_row

SCRIPT = """
import atexit, sys, threading
from truespan.core.clock import end_process

class Finalised:
    def __del__(self):
        sys.__stdout__.write("finalised ")
        sys.__stdout__.flush()

kept = Finalised()
kept.itself = kept
atexit.register(print, "atexit", end=" ")
print("begun", end=" ")
if {thread}:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
end_process(7)
"""


@each_row(
    ("thread", "output"), [(False, ["begun", "atexit", "finalised"]), (True, ["begun", "atexit"])]
)
def test_process_ends_with_its_code_while_threads_run(thread: bool, output: list[str]) -> None:
    script = SCRIPT.replace("{thread}", str(thread))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (7, output, "")
