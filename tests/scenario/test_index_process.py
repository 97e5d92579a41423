"""One index process serves all programs that open a library, and no others."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from tests.contract.index_contract import EAST, leaning, point, vector
from tests.interfaces.http_client import until
from tests.promises import proves
from tests.support.index_process import SCOPE, end_process, opened, process_of
from truespan.core.disk import FileLock
from truespan.errors import IndexRefused, IndexUnavailable
from truespan.index.edge import channel
from truespan.index.edge.channel import VERSION, Hello, encode
from truespan.index.edge.client import EdgeIndex, StartWait
from truespan.types.scope import Scope

CLIENT = """
import sys
from pathlib import Path
from tests.contract.index_contract import COSINE, EAST, point, vector
from truespan.index.edge import channel
from truespan.index.edge.client import EdgeIndex
from truespan.types.scope import OWNER, Generation, Scope

scope = Scope(OWNER, sys.argv[2], Generation(1, COSINE))
folder = Path(sys.argv[1])
index = EdgeIndex(folder, reserve=0, idle_seconds=60)
print("ready", flush=True)
sys.stdin.readline()
index.prepare(scope)
index.upsert(scope, [point(scope, int(sys.argv[3]), vector(*EAST))])
print(channel.published(folder).pid, flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An index folder; its process is ended after the test."""
    folder = tmp_path / "index"
    yield folder
    end_process(folder)


def start_client(folder: Path, scope: Scope, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CLIENT, str(folder), scope.world, str(number)]
    pipe = subprocess.PIPE
    client = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    return client


# One process for all


@proves("store.second-process")
def test_five_concurrent_programs_share_one_index_process(folder: Path):
    clients = [start_client(folder, SCOPE, number) for number in range(5)]

    answers = [client.communicate("go\n") for client in reversed(clients)]

    assert [answer[1] for answer in answers] == [""] * 5
    assert {int(answer[0]) for answer in answers} == {process_of(folder)}
    assert opened(folder).count(SCOPE) == 5
    assert (folder / channel.LOG).read_text().count(" start\n") == 1


@proves("store.second-process")
def test_index_process_outlives_its_starter(folder: Path):
    client = start_client(folder, SCOPE, 0)

    output, errors = client.communicate("go\n")  # returns only when no process holds the pipes

    server = int(output)
    assert (errors, client.returncode) == ("", 0)
    assert os.getsid(server) == server != os.getsid(0)
    assert opened(folder).count(SCOPE) == 1
    assert process_of(folder) == server


@proves("store.second-process")
def test_concurrent_searches_get_their_own_answers(folder: Path):
    index = opened(folder, points=50)

    def nearest(number: int) -> str:
        [hit] = index.search(SCOPE, leaning(number / 50), limit=1, floor=None)
        return hit.chunk_id

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(nearest, list(range(50)) * 10))

    assert answers == [point(SCOPE, n, vector(*EAST)).chunk_id for n in range(50)] * 10


@proves("store.second-process")
def test_forked_child_does_not_read_replies_of_its_parent(folder: Path):
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
def test_index_process_is_found_from_other_runtime_folders(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    opened(folder, points=3)
    server = process_of(folder)

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert opened(folder).count(SCOPE) == 3
    assert process_of(folder) == server


@proves("store.second-process")
def test_copied_folder_gets_its_own_index_process(folder: Path):
    index = opened(folder, points=3)
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)

    copied = opened(copy)
    copied.drop(SCOPE)

    assert (index.count(SCOPE), copied.count(SCOPE)) == (3, 0)
    assert process_of(copy) != process_of(folder)
    end_process(copy)


@proves("store.second-process")
def test_folder_with_a_very_long_path_works(tmp_path: Path):
    folder = tmp_path.joinpath(*["a long way down the tree of folders"] * 5)
    assert len(str(folder)) > 150

    assert opened(folder, points=3).count(SCOPE) == 3
    end_process(folder)


@proves("store.second-process")
@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_runtime_directory_open_to_others_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    shared = tmp_path / "truespan"
    shared.mkdir()
    shared.chmod(mode)

    assert opened(folder, points=1).count(SCOPE) == 1
    assert list(shared.iterdir()) == []


# Authentication


@proves("store.second-process")
def test_client_with_another_key_is_refused(folder: Path):
    index = opened(folder, points=3)
    address = channel.published(folder)
    assert address is not None

    for _ in range(3):
        with pytest.raises(channel.Refusal):
            channel.connect(address, b"x" * 32, 5)

    assert index.count(SCOPE) == 3
    assert process_of(folder) == address.pid


@proves("store.second-process")
def test_client_that_ignores_its_refusal_gets_no_reply(folder: Path):
    opened(folder)
    address = channel.published(folder)
    assert address is not None

    with Client(address.name, "AF_UNIX") as connection:
        channel.limit_waiting(connection, 5)
        connection.recv_bytes()
        connection.send_bytes(b"not the answer to the challenge")
        connection.recv_bytes()
        with contextlib.suppress(ConnectionError):
            connection.send_bytes(encode(Hello(VERSION, channel.identity(folder))))
        with pytest.raises((EOFError, ConnectionError)):
            connection.recv_bytes()


@proves("store.second-process")
def test_key_replaced_while_the_process_runs_is_an_error(folder: Path):
    opened(folder)
    (folder / "key").write_bytes(b"x" * 32)

    with pytest.raises(IndexRefused, match="another key"):
        opened(folder)


@proves("store.second-process")
def test_silent_or_invalid_clients_block_no_other(folder: Path):
    opened(folder, points=3)
    address = channel.published(folder)
    assert address is not None

    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(Client(address.name, "AF_UNIX"))
        for _ in range(20):
            stack.enter_context(Client(address.name, "AF_UNIX")).send_bytes(b"nonsense")
        count = EdgeIndex(folder, reserve=0).count(SCOPE)

    assert count == 3
    assert process_of(folder) == address.pid


@proves("store.second-process")
def test_slow_start_is_awaited_while_it_continues(folder: Path):
    index = EdgeIndex(folder, reserve=0, idle_seconds=60, start_timeout=0.2)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: index.collections(), range(4))) == [[]] * 4
    index.close()

    assert (folder / channel.LOG).read_text().count(" start\n") == 1


@proves("store.second-process")
def test_blocked_start_ends_with_a_reason(folder: Path):
    folder.mkdir()
    index = EdgeIndex(folder, reserve=0, idle_seconds=60, start_timeout=0.1)
    with FileLock(folder / channel.LOCK):
        for _ in range(2):
            with pytest.raises(
                IndexUnavailable, match=r"The index process \(\d+\) (did|was)"
            ) as found:
                index.collections()
            assert found.value.retryable
    # The same process continues.
    index.collections()
    index.close()
    assert (folder / channel.LOG).read_text().count(" start\n") == 1


@proves("store.second-process")
def test_idle_start_is_abandoned():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        waiting = StartWait(0.2)
        until(lambda: waiting.check(idle.pid) is not None)
        assert "did nothing" in str(waiting.check(idle.pid))
        idle.communicate(b"\n")
