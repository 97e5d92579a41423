"""The index process is shared, found, restarted and ended without anybody losing anything."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from tests.contract.index_contract import COSINE, EAST, leaning, new_scope, point, vector
from tests.promises import proves
from truespan.adapters import edge_channel
from truespan.adapters.edge_index import EdgeIndex
from truespan.adapters.edge_link import EdgeLink
from truespan.adapters.edge_wire import Collection, Done, Upsert, WirePoint
from truespan.adapters.file_lock import FileLock
from truespan.errors import IndexRefused, IndexUnavailable, StorageFull
from truespan.model.scope import Scope

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="speaks of POSIX signals")

SCOPE = new_scope()
MIB = 1 << 20

CLIENT = """
import sys
from pathlib import Path
from tests.contract.index_contract import COSINE, EAST, point, vector
from truespan.adapters import edge_channel
from truespan.adapters.edge_index import EdgeIndex
from truespan.model.scope import OWNER, Generation, Scope

scope = Scope(OWNER, sys.argv[2], Generation(1, COSINE))
folder = Path(sys.argv[1])
index = EdgeIndex(folder, reserve=0, idle_seconds=60)
print("ready", flush=True)
sys.stdin.readline()
index.prepare(scope)
index.upsert(scope, [point(scope, int(sys.argv[3]), vector(*EAST))])
print(edge_channel.published(folder).pid, flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An index folder whose process, if one is left, is ended after the test."""
    folder = tmp_path / "index"
    yield folder
    end_process(folder)


def end_process(folder: Path) -> None:
    if (address := edge_channel.published(folder)) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(address.pid, signal.SIGCONT)
            os.kill(address.pid, signal.SIGTERM)
    if folder.exists():
        wait_for_end(folder)


def wait_for_end(folder: Path) -> None:
    """Return once the process has let go of the folder."""
    with FileLock(folder / edge_channel.LOCK):
        pass


def kill(pid: int) -> None:
    """Kill a process that this one started, and return once nothing of it is left."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not exists(pid))


def freeze(pid: int) -> None:
    """Stop a process that this one started, and return once it stands still."""
    os.kill(pid, signal.SIGSTOP)
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds; fail if it does not within a while."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        threading.Event().wait(0.005)


def process_of(folder: Path) -> int:
    """Return the id of the process that serves the folder."""
    address = edge_channel.published(folder)
    assert address is not None
    return address.pid


def opened(folder: Path, *, points: int = 0, **options: float) -> EdgeIndex:
    """Open the index, with so many points flushed."""
    index = EdgeIndex(folder, reserve=0, **{"idle_seconds": 60, **options})
    index.prepare(SCOPE)
    if points:
        index.upsert(SCOPE, [point(SCOPE, n, leaning(n / points)) for n in range(points)])
        index.flush(SCOPE)
    return index


def start_client(folder: Path, scope: Scope, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CLIENT, str(folder), scope.world, str(number)]
    pipe = subprocess.PIPE
    client = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    return client


# One process for all


@proves("store.second-process")
def test_five_programs_that_start_at_once_share_one_index_process(folder: Path):
    clients = [start_client(folder, SCOPE, number) for number in range(5)]

    answers = [client.communicate("go\n") for client in reversed(clients)]

    assert [answer[1] for answer in answers] == [""] * 5
    assert {int(answer[0]) for answer in answers} == {process_of(folder)}
    assert opened(folder).count(SCOPE) == 5
    assert (folder / edge_channel.LOG).read_text().count(" start\n") == 1


@proves("store.second-process")
def test_the_process_outlives_its_starter_and_keeps_none_of_its_streams(folder: Path):
    client = start_client(folder, SCOPE, 0)

    output, errors = client.communicate("go\n")  # returns only when nobody holds the pipes

    server = int(output)
    assert (errors, client.returncode) == ("", 0)
    assert os.getsid(server) == server != os.getsid(0)
    assert opened(folder).count(SCOPE) == 1
    assert process_of(folder) == server


@proves("store.second-process")
def test_threads_that_search_at_once_each_get_their_own_answer(folder: Path):
    index = opened(folder, points=50)

    def nearest(number: int) -> str:
        [hit] = index.search(SCOPE, leaning(number / 50), limit=1, floor=None)
        return hit.chunk_id

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(nearest, list(range(50)) * 10))

    assert answers == [point(SCOPE, n, vector(*EAST)).chunk_id for n in range(50)] * 10


@proves("store.second-process")
def test_a_forked_child_does_not_read_the_replies_of_its_parent(folder: Path):
    index = opened(folder, points=50)
    before = index.search(SCOPE, leaning(0.5), limit=3, floor=None)

    child = os.fork()
    if child == 0:  # the child must not return into pytest
        same = [index.search(SCOPE, leaning(0.5), limit=3, floor=None) for _ in range(50)]
        os._exit(0 if same == [before] * 50 else 1)
    counts = {index.count(SCOPE) for _ in range(50)}

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert counts == {50}


@proves("store.second-process")
def test_programs_with_another_runtime_directory_find_the_same_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    opened(folder, points=3)
    server = process_of(folder)

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert opened(folder).count(SCOPE) == 3
    assert process_of(folder) == server


@proves("store.second-process")
def test_a_copied_folder_is_not_served_by_the_process_of_the_original(folder: Path):
    index = opened(folder, points=3)
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)

    copied = opened(copy)
    copied.drop(SCOPE)

    assert (index.count(SCOPE), copied.count(SCOPE)) == (3, 0)
    assert process_of(copy) != process_of(folder)
    end_process(copy)


@proves("store.second-process")
def test_a_folder_with_a_very_long_path_works(tmp_path: Path):
    folder = tmp_path.joinpath(*["a long way down the tree of folders"] * 5)
    assert len(str(folder)) > 150

    assert opened(folder, points=3).count(SCOPE) == 3
    end_process(folder)


@proves("store.second-process")
@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_a_runtime_directory_that_others_can_enter_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    shared = tmp_path / "truespan"
    shared.mkdir()
    shared.chmod(mode)

    assert opened(folder, points=1).count(SCOPE) == 1
    assert list(shared.iterdir()) == []


# Who is let in


@proves("store.second-process")
def test_a_client_with_another_key_is_refused_and_others_are_served_on(folder: Path):
    index = opened(folder, points=3)
    address = edge_channel.published(folder)
    assert address is not None

    for _ in range(3):
        with pytest.raises(edge_channel.Refusal):
            edge_channel.connect(address, b"x" * 32, 5)

    assert index.count(SCOPE) == 3
    assert process_of(folder) == address.pid


@proves("store.second-process")
def test_a_key_that_was_replaced_under_a_running_process_is_a_clear_error(folder: Path):
    opened(folder)
    (folder / "key").write_bytes(b"x" * 32)

    with pytest.raises(IndexRefused, match="another key"):
        opened(folder)


@proves("store.second-process")
def test_clients_that_say_nothing_or_nonsense_hold_up_nobody(folder: Path):
    opened(folder, points=3)
    address = edge_channel.published(folder)
    assert address is not None

    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(Client(address.name, "AF_UNIX"))
        for _ in range(20):
            stack.enter_context(Client(address.name, "AF_UNIX")).send_bytes(b"nonsense")
        count = EdgeIndex(folder, reserve=0).count(SCOPE)

    assert count == 3
    assert process_of(folder) == address.pid


# Ends and new beginnings


@proves("store.second-process")
def test_a_process_killed_between_requests_is_replaced_unnoticed(folder: Path):
    index = opened(folder, points=20)
    killed = process_of(folder)

    kill(killed)

    assert index.count(SCOPE) == 20
    assert process_of(folder) != killed


@proves("errors.provider-or-index")
def test_a_process_killed_during_a_search_is_an_error_and_the_next_search_works(folder: Path):
    index = opened(folder, points=20)
    killed = process_of(folder)
    freeze(killed)

    with ThreadPoolExecutor(1) as thread:
        search = thread.submit(index.search, SCOPE, vector(*EAST), limit=3, floor=None)
        eventually(somebody_waits_for_a_reply)
        os.kill(killed, signal.SIGKILL)
        error = search.exception()

    assert isinstance(error, IndexUnavailable)
    assert error.retryable
    assert len(index.search(SCOPE, vector(*EAST), limit=3, floor=None)) == 3
    assert index.count(SCOPE) == 20


def somebody_waits_for_a_reply() -> bool:
    """Say whether a thread has sent its request and is reading."""
    frames = [frame for frame in sys._current_frames().values() if frame]
    return any(frame.f_code.co_name == "_recv" for frame in frames)


@proves("errors.provider-or-index")
def test_a_process_that_does_not_answer_is_an_error_in_time(folder: Path):
    index = opened(folder, points=3)
    hasty = EdgeIndex(folder, reserve=0, request_timeout=0.1)
    hasty.search(SCOPE, vector(*EAST), limit=1, floor=None)
    server = process_of(folder)
    freeze(server)

    with pytest.raises(IndexUnavailable, match="in time"):
        hasty.count(SCOPE)
    os.kill(server, signal.SIGCONT)

    assert index.count(SCOPE) == 3
    assert process_of(folder) == server


@proves("errors.provider-or-index")
def test_a_process_that_stops_reading_is_an_error_in_time(folder: Path):
    opened(folder, points=3)
    hasty = EdgeIndex(folder, reserve=0, request_timeout=0.1)
    hasty.search(SCOPE, vector(*EAST), limit=1, floor=None)
    freeze(process_of(folder))
    points = [point(SCOPE, n, vector(*EAST), chapter="c" * 20_000) for n in range(128)]

    with pytest.raises(IndexUnavailable, match="in time"):
        hasty.upsert(SCOPE, points)


@proves("store.second-process")
def test_an_idle_process_ends_although_clients_are_connected_and_comes_back(folder: Path):
    index = opened(folder, points=20, idle_seconds=0.05)
    first = (folder / edge_channel.LOG).read_text().split()[1]

    wait_for_end(folder)
    count = index.count(SCOPE)

    assert count == 20
    assert f" {first} stop: idle" in (folder / edge_channel.LOG).read_text()


@proves("store.second-process")
def test_requests_that_meet_an_ending_process_are_not_lost(folder: Path):
    index = opened(folder, points=20)
    enough = threading.Event()

    def keep_counting() -> set[int]:
        counts = set()
        while not enough.is_set():
            counts.add(index.count(SCOPE))
        return counts

    with ThreadPoolExecutor(4) as threads:
        counting = [threads.submit(keep_counting) for _ in range(4)]
        try:
            for _ in range(10):
                ended = process_of(folder)
                os.kill(ended, signal.SIGTERM)
                eventually(lambda ended=ended: serves_anew(folder, ended))
        finally:
            enough.set()

    assert [count.result() for count in counting] == [{20}] * 4


def serves_anew(folder: Path, ended: int) -> bool:
    """Say whether another process than the one that was ended serves the folder."""
    address = edge_channel.published(folder)
    return address is not None and address.pid != ended


@proves("store.second-process")
def test_a_process_told_to_end_leaves_everything_flushed_and_closed(folder: Path):
    index = opened(folder, points=20)
    index.upsert(SCOPE, [point(SCOPE, 20, vector(*EAST))])

    os.kill(process_of(folder), signal.SIGTERM)
    wait_for_end(folder)

    assert (folder / edge_channel.LOG).read_text().endswith("stop: signal\n")
    assert edge_channel.published(folder) is None
    assert index.count(SCOPE) == 21


@proves("store.second-process")
def test_what_a_killed_process_left_behind_is_no_obstacle(folder: Path):
    opened(folder, points=3)
    address = edge_channel.published(folder)
    assert address is not None
    kill(address.pid)
    assert Path(address.name).exists()
    assert edge_channel.published(folder) == address

    assert opened(folder).count(SCOPE) == 3


@proves("errors.provider-or-index")
def test_a_process_that_cannot_start_is_an_error_that_says_where_to_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    folder.mkdir()
    (folder / edge_channel.LOCK).mkdir()  # cannot be opened as a file

    with pytest.raises(IndexUnavailable, match=edge_channel.LOG):
        opened(folder)
    (folder / edge_channel.LOCK).rmdir()


@proves("errors.no-secrets")
def test_the_log_names_no_point_and_no_world_and_does_not_grow_forever(folder: Path):
    folder.mkdir()
    (folder / edge_channel.LOG).write_bytes(b"old\n" * 300_000)
    index = opened(folder, points=20)
    index.search(SCOPE, vector(*EAST), limit=3, floor=0.1)
    with pytest.raises(IndexRefused):
        index.delete(SCOPE, ["no uuid"])  # type: ignore[list-item]
    index.retire()
    wait_for_end(folder)

    log = (folder / edge_channel.LOG).read_text()
    first = point(SCOPE, 0, vector(*EAST))
    assert "old" not in log
    assert not any(secret in log for secret in (SCOPE.world, first.chunk_id, first.text_hash))
    assert (folder / "key").read_bytes().hex() not in log
    assert len(log.splitlines()) == 3


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 96 MiB, which only the super-user can make."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=96m,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk can only be mounted by the super-user")
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this system does not let the super-user mount a small disk")
    try:
        yield disk
        end_process(disk / "index")
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path, *, leave: int) -> Path:
    """Write a file that leaves so many bytes free."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        while (free := shutil.disk_usage(disk).free) > leave:
            file.write(bytes(min(MIB, free - leave)))
            file.flush()
    return ballast


@proves("store.disk-reserve")
def test_below_the_reserve_nothing_is_written_and_reading_goes_on(small_disk: Path):
    folder = small_disk / "index"
    index = EdgeIndex(folder, reserve=32 * MIB, idle_seconds=60)
    index.prepare(SCOPE)
    index.upsert(SCOPE, [point(SCOPE, 0, vector(*EAST))])
    ballast = fill(small_disk, leave=31 * MIB)

    with pytest.raises(StorageFull) as refusal:
        index.upsert(SCOPE, [point(SCOPE, n, vector(*EAST)) for n in range(1, 300)])
    while_full = index.count(SCOPE), len(index.search(SCOPE, vector(*EAST), limit=9, floor=0.5))
    ballast.unlink()
    index.upsert(SCOPE, [point(SCOPE, 1, vector(*EAST))])

    assert refusal.value.reserve > 32 * MIB > refusal.value.free
    assert while_full == (1, 1)
    assert index.count(SCOPE) == 2


@proves("errors.provider-or-index")
def test_a_disk_that_is_really_full_loses_nothing_that_was_flushed(small_disk: Path):
    folder = small_disk / "index"
    index = opened(folder, points=500)
    ballast = fill(small_disk, leave=MIB)

    with pytest.raises((IndexUnavailable, IndexRefused)):
        write_without_looking(folder, batches=200)
    ballast.unlink()
    end_process(folder)

    kept = {p.chunk_id for page in index.scan(SCOPE) for p in page}
    assert kept >= {point(SCOPE, n, vector(*EAST)).chunk_id for n in range(500)}


def write_without_looking(folder: Path, *, batches: int) -> None:
    """Write as a client would that demands no free space, until the index cannot."""
    link = EdgeLink(folder, idle_seconds=60, start_timeout=30, request_timeout=30)
    collection = Collection(COSINE.id, 4, "cosine")
    for batch in range(batches):
        points = [
            WirePoint(made.chunk_id, made.vector, "h" * 64, 1, 0, 0, 0, "c" * 500, "s", "text")
            for made in (point(SCOPE, 1000 + 64 * batch + n, vector(*EAST)) for n in range(64))
        ]
        reply = link.ask(Upsert(collection, SCOPE.tenant, points, 0))
        if not isinstance(reply, Done):
            raise IndexRefused("The index said so itself.")
