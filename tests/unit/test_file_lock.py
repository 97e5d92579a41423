"""File locks: exclusive, and released when their process ends."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from truespan.core.disk import FileLock

HOLDER = """
import sys
from pathlib import Path
from truespan.core.disk import FileLock
lock = FileLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


def test_second_lock_holder_waits_until_the_first_releases(tmp_path: Path):
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    assert not first.acquire()
    second.release()


def test_killed_process_releases_its_lock(tmp_path: Path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        while_it_lives = FileLock(tmp_path / "lock").acquire()
        holder.kill()

    after = FileLock(tmp_path / "lock")
    assert not while_it_lives
    assert after.acquire()
    after.release()


def test_waiting_holders_take_turns(tmp_path: Path):
    inside, most = [], []
    gate = threading.Barrier(6)

    def take_a_turn(number: int) -> None:
        gate.wait()
        with FileLock(tmp_path / "lock"):
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(take_a_turn, range(6)))

    assert most == [1] * 6
