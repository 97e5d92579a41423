"""A process that is killed just before it changes a file below a folder for the n-th time.

Run as `python -m tests.support.crash_files STEP FOLDER ACTION [ARGUMENTS]`. It exits with 0 if it
ends before that step, and dies by SIGKILL otherwise.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from msgspec.structs import replace

from tests.contract.index_contract import COSINE
from tests.support.forked_process import forked
from truespan.index.base import Collection
from truespan.index.edge.shard import Collections

WIDE = replace(COSINE, dimensions=64)
COLLECTION = Collection(WIDE.id, WIDE.dimensions, WIDE.distance.value)
CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir"}


def killed_at(step: int, folder: Path, action: str, *arguments: object) -> bool:
    """Run an action in a separate process; return whether it was killed at the step."""
    given = (str(step), str(folder), action, *map(str, arguments))
    done = forked("tests.support.crash_files", *given)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def _watch(step: int, folder: str) -> None:
    left = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        writes = event == "open" and str(arguments[1] or "")[:1] in ("w", "x", "a")
        if not writes and event not in CHANGES:
            return
        # Whole folders are removed by names relative to an open one.
        removes = event in ("os.remove", "os.rmdir") and arguments[1] != -1
        if removes or any(str(argument).startswith(folder) for argument in arguments[:2]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _watch_calls(step: int, file: str) -> None:
    """Die just before the n-th call of a function that changes a file."""
    left = step

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_filename.endswith(file):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)


def erase(folder: Path) -> None:
    """Rewrite the only collection of an index folder, in this process."""
    collections = Collections(folder)
    ticket, done = 0, False
    while not done:
        ticket, done = collections.erase(COLLECTION, ticket, 0)
    collections.close()


def main(arguments: Sequence[str]) -> None:
    step, folder, action, *rest = arguments
    import truespan
    from truespan.wiring import open_library

    match action:
        case "erase":
            _watch(int(step), folder)
            erase(Path(folder))
        case "backup":
            with open_library(rest[0]) as library:
                _watch(int(step), folder)
                library.backup(rest[1], replace=len(rest) > 2)
        case "restore":
            _watch(int(step), folder)
            truespan.restore(rest[0], rest[1])
        case "restore-rows":
            _watch_calls(int(step), "extensions/cluster/copy.py")
            truespan.restore(rest[0], rest[1])


if __name__ == "__main__":
    main(sys.argv[1:])
