"""Child processes that parse documents: their results and their restrictions."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.hostile_texts import HOSTILE_TEXTS
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.sample_texts import story
from tests.support.worlds import make_library
from truespan.errors import SourceRefused
from truespan.ingest.canonical import assemble
from truespan.parsing import load
from truespan.parsing.sandbox.client import ChildFailed, ChildLink, ChildParser
from truespan.parsing.sandbox.process import Limits, Task, peak_memory
from truespan.text.sentences import split_sentences
from truespan.types.source import ParseOptions
from truespan.types.text import Block, BlockKind, CanonicalText, Place, Sentence

TEXT = b"CHAPTER I\n\nA first paragraph.\n\nA second one, with \xe2\x80\x9cquotes\xe2\x80\x9d.\n"
SAME_MODULES = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
SECRET = "the butler did it"
SLOW = b"* [a](b) *c* `d` **e** _f_ <g> &amp; " * 40_000


@pytest.fixture(scope="module")
def parser() -> Iterator[ChildParser]:
    made = ChildParser()
    yield made
    made.close()


@pytest.fixture(scope="module")
def probing() -> Iterator[ChildParser]:
    """A parser whose child does what a document's name says; see `tests.support.child_probe`."""
    made = ChildParser(cpu_seconds=1, output_bytes=1000, module="tests.support.child_probe")
    yield made
    made.close()


def said(parser: ChildParser, name: str, content: object = "") -> str:
    return parser.parse(name, str(content).encode()).blocks[0].text


# What comes back


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", TEXT),
        ("a.md", b"# One\n\nText with *marks*.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
        ("a.pdf", make_pdf([Page(column(["One page."])), Page(column(["Another page."]))])),
        ("großer name \udcff.txt", TEXT),
        ("folder/a.txt", TEXT),
    ],
)
def test_child_returns_what_its_loader_returns(parser: ChildParser, name: str, content: bytes):
    assert parser.parse(name, content, ParseOptions(images=True)) == load(
        name, content, ParseOptions(images=True)
    )


def test_each_option_reaches_the_child(probing: ChildParser):
    usual = ParseOptions()
    for name in ("images", "hidden_sheets", "running_heads"):
        changed = usual._replace(**{name: not getattr(usual, name)})
        assert probing.parse("options", b"", changed).blocks[0].text == str(changed)
    # Recognition is costly, so that only a format with pictures of text gets it.
    recognised = usual._replace(ocr=True)
    assert probing.parse("options", b"", recognised).blocks[0].text == str(usual)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.xyz", b"text", "source_unsupported"), ("a.txt", b"\x00\x01\x02", "source_not_text"),
        ("a.txt", b" \n", "source_empty"), ("folder/a.pdf", b"%PDF-1.4", "source_broken"),
    ],
)  # fmt: skip
def test_child_refuses_files_like_the_loader(
    parser: ChildParser, name: str, content: bytes, kind: str
):
    with raises_code(kind) as caught:
        parser.parse(name, content)
    with raises_code(kind) as expected:
        load(name, content)

    assert str(caught.value) == str(expected.value)


LONG = 20_000


@proves("loader.child-process")
def test_child_splits_text_like_this_process(parser: ChildParser):
    chapter = Place("Chapter 1. It began.", None)
    texts = {
        name: CanonicalText(f"{pattern * (LONG // len(pattern))}\n\nThe end.", (0,), (chapter,))
        for name, pattern in HOSTILE_TEXTS.items()
    }
    blocks = [Block(BlockKind.HEADING, "Chapter 1. It began.", "Chapter 1. It began.")]
    blocks += [Block(BlockKind.PARAGRAPH, line) for line in story(300).split("\n") if line]
    texts["a story"] = assemble(blocks)
    texts["nothing"] = CanonicalText("")

    different = [
        (name, language)
        for name, canonical in texts.items()
        for language in ("en", "de", "ja")
        if parser.split(name, canonical, language) != split_sentences(canonical, language)
    ]

    assert not different


def test_sentences_that_differ_from_the_text_are_refused(probing: ChildParser):
    text = CanonicalText("One two. Three.")
    assert probing.split("a.txt", text, "0,8,9,15") == [Sentence(0, 0, 8), Sentence(1, 9, 15)]

    for bounds in (
        "0,8",  # The end is missing.
        "9,15",  # The beginning is missing.
        "0,7,9,15",  # A full stop is missing.
        "0,9,9,15",  # A sentence ends with white space.
        "0,8,4,15",  # Two overlap.
        "9,15,0,8",  # They are out of order.
        "0,8,9,16",  # One ends after the text.
        "0,8,8,8,9,15",  # One is empty.
        "0,1,1,1,1,8,9,15",  # One is empty within a word.
        "0,8,9",  # One has no end.
    ):
        with raises_code("loader_crashed"):
            probing.split("a.txt", text, bounds)


@proves("loader.child-process")
def test_splitting_has_the_limits_of_parsing(probing: ChildParser):
    text, found = CanonicalText("1073741824"), {}
    for deed in ("spin", "wait_deaf", "fault", "fail"):
        with pytest.raises(SourceRefused) as caught:
            probing.split("a.txt", text, deed)
        found[deed] = caught.value.code

    assert found == {
        "spin": "source_too_costly",
        "wait_deaf": "source_too_costly",
        "fault": "loader_crashed",
        "fail": "loader_crashed",
    }


@proves("tenants.no-stall")
def test_ingestion_never_runs_the_segmenter_in_its_own_process(
    parser: ChildParser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(language: str, text: str) -> list[str]:
        raise AssertionError("The segmenter ran in the process that serves requests.")

    monkeypatch.setattr("sentencex.segment", refuse)

    world = make_library(tmp_path, parser=parser).world(a__txt="“He said. " * 1000)

    assert [document.name for document in world.documents.list()] == ["a.txt"]


def test_advice_of_a_loader_reaches_the_caller(probing: ChildParser):
    with raises_code("source_broken") as caught:
        said(probing, "refuse")

    assert caught.value.advice == "Do this."


def test_concurrent_threads_get_their_own_answers(parser: ChildParser):
    texts = [f"This is text {number}." for number in range(40)]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: parser.parse("a.txt", text.encode()), texts))

    assert [loaded.blocks[0].text for loaded in found] == texts


@pytest.mark.parametrize("ballast", [0, 300 << 20], ids=["a small parent", "a large parent"])
def test_one_child_serves_many_documents(parser: ChildParser, ballast: int):
    """The system counts the memory of a parent as used by its children."""
    held = b"x" * ballast
    parser.close()
    parser.parse("a.txt", TEXT)
    before = set(parser.idle_pids)
    for _ in range(5):
        parser.parse("a.txt", TEXT)

    assert set(parser.idle_pids) == before
    assert len(held) == ballast


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a process's size in /proc")
def test_child_with_too_much_memory_is_replaced(probing: ChildParser):
    said(probing, "repeat", 1)
    (before,) = probing.idle_pids

    assert said(probing, "keep", 300 << 20) == "kept"

    assert before not in probing.idle_pids
    assert said(probing, "repeat", 1) == "a"


# Limits


@proves("loader.child-process")
def test_document_over_the_time_limit_is_refused():
    parser = ChildParser(cpu_seconds=1, cpu_seconds_per_mb=0)

    with raises_code("source_too_costly"):
        parser.parse("a.md", SLOW)

    assert parser.parse("a.txt", TEXT).blocks
    parser.close()


@proves("loader.child-process")
def test_cpu_time_is_limited_separately():
    child = ChildLink("tests.support.child_probe")
    ten_minutes = Limits(memory=1 << 30, cpu=1, wall=600.0, output=1000)

    with pytest.raises(ChildFailed) as caught:
        child.ask(Task.PARSE, "spin", b"", ten_minutes)

    assert caught.value.code == "source_too_costly"
    child.kill()


@proves("loader.child-process")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_stalled_child_is_ended_before_and_after_reading(size: int):
    child = ChildLink("tests.support.child_probe")
    child.ask(Task.PARSE, "repeat", b"1", Limits(1 << 30, cpu=1, wall=60.0, output=1000))
    os.kill(child.process.pid, signal.SIGSTOP)

    # More than a pipe holds cannot even be sent.
    with pytest.raises(ChildFailed) as caught:
        child.ask(Task.PARSE, "repeat", b"1" * size, Limits(1 << 30, 1, wall=0.2, output=1000))

    assert caught.value.code == "source_too_costly"
    child.kill()


@pytest.mark.timeout(60)
def test_nothing_more_is_sent_to_a_child_that_is_ending(monkeypatch: pytest.MonkeyPatch):
    child = ChildLink("tests.support.child_probe")
    child.ask(Task.PARSE, "repeat", b"1", Limits(1 << 30, cpu=1, wall=60.0, output=1000))
    os.kill(child.process.pid, signal.SIGSTOP)
    # A process that waits for a disk ends later than it is killed.
    end = threading.Timer(0.2, child.process.kill)
    monkeypatch.setattr(child.process, "kill", end.start)
    sent: list[int] = []

    def write(pipe: int, data: memoryview, real: Callable[..., int] = os.write) -> int:
        sent.append(len(data))
        return real(pipe, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(ChildFailed):
        child.ask(Task.PARSE, "repeat", bytes(1 << 20), Limits(1 << 30, 1, wall=0.2, output=1000))

    assert len(sent) < 10
    end.join()
    monkeypatch.undo()
    child.kill()


@proves("loader.child-process")
def test_document_over_the_memory_limit_is_refused():
    parser = ChildParser(memory_bytes=60 << 20)

    with raises_code("source_too_costly"):
        parser.parse("a.txt", b"a\n\n" * 500_000)

    assert parser.parse("a.txt", TEXT).blocks
    parser.close()


@proves("loader.child-process")
def test_document_that_expands_too_much_is_refused():
    parser = ChildParser(output_bytes=1000)

    with raises_code("source_too_large"):
        parser.parse("a.txt", b"a\n\n" * 1000)

    assert parser.parse("a.txt", TEXT).blocks
    parser.close()


@proves("loader.child-process")
@pytest.mark.parametrize(
    ("probe", "content", "kind"),
    [
        # Each takes two seconds of the processor, as the tests of limits above do.
        *in_test_or_prove([], [("spin", "", "source_too_costly")]),
        ("wait", "", "source_too_costly"),
        ("wait_deaf", "", "source_too_costly"),
        ("allocate", 4 << 30, "source_too_costly"),
        ("repeat", 1 << 20, "source_too_large"),
        ("fault", "", "loader_crashed"),
        ("leave", "", "loader_crashed"),
        ("fail", SECRET, "loader_crashed"),
        ("half_a_character", "", "loader_crashed"),
    ],
)
def test_any_loader_failure_fails_one_document(
    probing: ChildParser, probe: str, content: object, kind: str
):
    with pytest.raises(SourceRefused) as caught:
        said(probing, probe, content)

    assert caught.value.code == kind
    assert caught.value.name == probe
    assert said(probing, "repeat", 3) == "aaa"


def test_library_exit_for_lack_of_memory_is_too_costly():
    # A child inherits the peak of its parent, so it has to hold more than this process ever did.
    limit = max(1 << 30, 2 * peak_memory())
    parser = ChildParser(memory_bytes=limit, cpu_seconds=30, module="tests.support.child_probe")

    with pytest.raises(SourceRefused) as caught:
        said(parser, "hoard", limit * 7 // 10)

    parser.close()
    assert caught.value.code == "source_too_costly"


def test_bug_report_has_its_location_and_no_document_text(probing: ChildParser):
    with raises_code("loader_crashed") as caught:
        said(probing, "fail", SECRET)

    notes = "".join(caught.value.__notes__)
    assert "ValueError" in notes
    assert SECRET not in notes + str(caught.value)


# What it may not do


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.setblocking(False)
        yield made


@proves("loader.child-process")
def test_a_child_cannot_connect(probing: ChildParser, listener: socket.socket):
    assert said(probing, "connect", listener.getsockname()[1]) == "refused: Forbidden"
    with pytest.raises(BlockingIOError):
        listener.accept()


@proves("loader.child-process")
@pytest.mark.parametrize(
    "probe",
    ["bind", "resolve", "write", "append", "remove", "rename", "make_folder", "link", "run",
     "shell", "fork", "kill"],
)  # fmt: skip
def test_child_cannot_change_files(probing: ChildParser, probe: str, tmp_path: Path):
    file = tmp_path / "kept"
    file.write_text("as it was")

    assert said(probing, probe, file) == "refused: Forbidden"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("kept", "as it was")]


@proves("loader.child-process")
def test_native_code_in_a_child_cannot_write(probing: ChildParser, tmp_path: Path):
    file = tmp_path / "kept"
    file.touch()

    assert said(probing, "write_natively", file) == "-1"
    assert file.read_bytes() == b""


def test_output_of_a_library_does_not_corrupt_answers(
    probing: ChildParser, capfd: pytest.CaptureFixture[str]
):
    assert said(probing, "speak", SECRET) == "spoke"
    assert said(probing, "repeat", 2) == "aa"
    assert capfd.readouterr() == ("", "")


def test_child_has_no_keys(probing: ChildParser, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    probing.close()

    assert "SOME_API_KEY" not in said(probing, "environment")


# How it ends


@proves("loader.child-process")
def test_child_killed_while_idle_is_replaced(parser: ChildParser):
    parser.parse("a.txt", TEXT)
    for pid in parser.idle_pids:
        os.kill(pid, signal.SIGKILL)

    assert parser.parse("a.txt", TEXT).blocks


@proves("loader.child-process")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at a process's times in /proc")
def test_child_killed_while_parsing_fails_one_document():
    parser = ChildParser()
    parser.parse("a.txt", TEXT)
    (pid,) = parser.idle_pids
    killer = threading.Thread(target=kill_at_work, args=[pid, ticks(pid) + 20])
    killer.start()

    with raises_code("loader_crashed"):
        parser.parse("a.md", SLOW)

    killer.join()
    assert parser.parse("a.txt", TEXT).blocks
    parser.close()


def ticks(pid: int) -> int:
    """Return the processor time that a process has used, in hundredths of a second."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def kill_at_work(pid: int, until: int) -> None:
    while ticks(pid) < until:
        pass
    os.kill(pid, signal.SIGKILL)


PARENT = """
import os, signal, sys
from truespan.parsing.sandbox.client import ChildParser
parser = ChildParser(cpu_seconds=1, module="tests.support.child_probe")
parser.parse("repeat", b"1")
print(parser.idle_pids[0], flush=True)
sys.stdin.readline()
if sys.argv[1] == "at work":
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    parser.parse("wait", b"")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches a process that is not ours")
@pytest.mark.parametrize("doing", ["nothing", "at work"])
def test_a_child_ends_when_its_parent_is_killed(doing: str):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, doing],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=SAME_MODULES,
    ) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert not ended(child, 0)
            parent.communicate("now\n")
            assert ended(child, 30)
        finally:
            os.close(child)


def ended(child: int, seconds: float) -> bool:
    return bool(select.select([child], [], [], seconds)[0])


def test_an_interrupt_does_not_reach_a_child(probing: ChildParser):
    assert said(probing, "interrupt") == "went on"
    said(probing, "repeat", 1)
    assert all(os.getpgid(pid) != os.getpgrp() for pid in probing.idle_pids)


INTERRUPTED = """
import os, signal, threading
from truespan.parsing.sandbox.client import ChildParser
# Whoever runs this in the background may have it ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
parser = ChildParser(module="tests.support.child_probe")
parser.parse("repeat", b"1")
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    parser.parse("wait", b"")
except KeyboardInterrupt:
    print("interrupted", len(parser.idle_pids), flush=True)
print(parser.parse("repeat", b"2").blocks[0].text)
parser.close()
"""


def test_answer_after_an_interrupt_belongs_to_its_request():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        check=False,
        env=SAME_MODULES,
    )

    assert (done.stdout, done.stderr) == ("interrupted 0\naa\n", "")


def test_closing_ends_the_children_and_later_use_starts_new_ones():
    parser = ChildParser()
    parser.parse("a.txt", TEXT)
    (pid,) = parser.idle_pids

    parser.close()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert parser.parse("a.txt", TEXT).blocks
    parser.close()


def test_child_that_cannot_start_is_reported():
    parser = ChildParser(module="truespan.parsing.no_such_module")

    with raises_code("loader_crashed") as caught:
        parser.parse("a.txt", TEXT)

    assert "installation" in caught.value.advice


SILENT = """
import os, signal, sys
if sys.argv[0].endswith("child_killed.py"):
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause()
"""


@pytest.mark.parametrize("module", ["child_late", "child_killed"])
def test_delayed_child_start_can_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
):
    (tmp_path / f"{module}.py").write_text(SILENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    parser = ChildParser(module=module, start_seconds=0.5 if module == "child_late" else 60.0)

    with raises_code("loader_not_started") as caught:
        parser.parse("a.txt", TEXT)

    assert caught.value.retryable
    assert "installation" not in str(caught.value)
    assert parser.idle_pids == []


@proves("loader.child-process")
def test_loader_exit_with_free_memory_is_a_crash() -> None:
    roomy = ChildParser(cpu_seconds=1, module="tests.support.child_probe", memory_bytes=64 << 30)

    with raises_code("loader_crashed"):
        said(roomy, "abort", "")

    roomy.close()


GREEDY_PARENT = """
held = bytearray(400 << 20)
held[::4096] = b"x" * len(held[::4096])
del held
from tests.support.hostile.registry import HOSTILE, Trap
import tests.support.hostile.pdf
from truespan.parsing.sandbox.client import ChildParser
from truespan.errors import SourceRefused
source, content = HOSTILE["pdf-forms-that-double"](Trap("http://127.0.0.1:9/", "no", "no"))
# Long, so that memory runs out first on any machine.
parser = ChildParser(cpu_seconds=60, memory_bytes=300 << 20)
try:
    parser.parse(source, content)
except SourceRefused as refusal:
    print(refusal.code)
parser.close()
"""


def test_large_file_is_too_costly_after_the_parent_used_more() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GREEDY_PARENT], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["source_too_costly"]
