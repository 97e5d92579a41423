"""An ending index process starts no request, and says so."""

import os
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import pytest

from truespan.index.base import Collection
from truespan.index.edge import channel
from truespan.index.edge.channel import Retiring, encode, receive
from truespan.index.edge.process import Activity, EdgeProcess


def test_late_request_is_not_started(tmp_path: Path):
    with closing(Activity(idle_seconds=60)) as activity:
        process = EdgeProcess(tmp_path, activity)
        activity.end()
        reply = process.answer(encode(("prepare", [Collection("0123456789abcdef", 4, "cosine")])))
    assert isinstance(reply, Retiring)
    assert not (tmp_path / "0123456789abcdef").exists()


def test_ending_process_admits_no_request_and_differs_from_idle():
    with closing(Activity(idle_seconds=60)) as retired, closing(Activity(idle_seconds=0)) as idle:
        retired.end()
        with idle.request() as admitted:
            assert admitted
        assert (retired.wait(), idle.wait()) == ("retired", "idle")

    with closing(Activity(idle_seconds=0)) as activity:
        with activity.request():
            pass
        activity.wait()
        with activity.request() as admitted:
            assert not admitted


def test_messages_before_the_end_are_read_and_later_ones_fail():
    client, process = Pipe()
    with client, process:
        client.send_bytes(b"before")
        channel.refuse_more(process)
        with pytest.raises(BrokenPipeError):
            client.send_bytes(b"after")
        assert process.recv_bytes() == b"before"


def test_message_is_read_whole_from_any_fragments(monkeypatch: pytest.MonkeyPatch):
    read = os.read
    for most in (1, 3, 4, 5, 1000):
        monkeypatch.setattr(os, "read", lambda file, size, most=most: read(file, min(size, most)))
        for message in (b"", b"a", bytes(range(256)) * 20):
            client, process = Pipe()
            with client, process:
                client.send_bytes(message)
                assert receive(process) == message, most


def test_truncated_or_oversized_message_is_an_error():
    for sent, error in (
        (b"\0\0", EOFError), (b"\0\0\0\5abc", EOFError), (b"\xff\xff\xff\xff", OSError),
        (b"\x7f\0\0\0abc", OSError), (b"\0\0\0\1ab", OSError),
    ):  # fmt: skip
        client, process = Pipe()
        with client, process:
            os.write(client.fileno(), sent)
            client.close()
            with pytest.raises(error):
                receive(process)
