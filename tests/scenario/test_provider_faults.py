"""Every fault of a provider on every protocol: its error, the number of requests, and the state of
the library.

A row is one fault. It strikes the requests that embed while three documents are ingested and while
a question is asked. Whatever happens, no chunk gets a vector that is not its own, the same command
goes on once the fault is over, and only the request contains the key.
"""

import io
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.providers.bench import KEY, SPEAKERS, Bench, Speaker
from tests.support.providers.loopback import Answer, Asked, Raw, Reaction, drops
from tests.support.worlds import LibraryFixture, MemoryIndex, similarity, vector_of
from truespan.engine.world import World
from truespan.errors import TruespanError
from truespan.ingest.embed import ATTEMPTS, CANARY

SECRET = "butlersecret"
MARK = "marked"
LATE = {
    "one.txt": f"The {SECRET} was seen in the garden.",
    "two.txt": f"A {MARK} letter lay on the table.",
    "three.txt": "Nobody had heard the carriage leave.",
}

React = Callable[[Bench, Asked], Reaction]
Act = Callable[[Bench], None]


@dataclass(frozen=True)
class Row:
    """A fault, its error code, and the number of requests that met it.

    `code` and `attempts` are those of an ingest. A question is asked once, and meets the same code
    unless `asked` says otherwise. `lost` are the documents that got no vector although the ingest
    as such went on; None when nothing of it was kept.
    """

    name: str
    fault: React | Act
    code: str
    attempts: int = 1
    asked: str | None = None
    lost: tuple[str, ...] | None = None
    met: tuple[int, ...] = (1,)
    """How many requests of a question may meet it."""
    slow: bool = False
    """Whether it is noticed by waiting."""
    way: bool = False
    """Whether the connection to the provider is broken, so that it receives nothing."""
    keyed_code: str | None = None
    """The code where keys are used, if it is another."""

    def __str__(self) -> str:
        return self.name

    def code_for(self, speaker: Speaker) -> str:
        return (self.keyed_code if speaker.keyed else None) or self.code


# How replies are broken


def status(number: int, **headers: str) -> React:
    def react(bench: Bench, asked: Asked) -> Reaction:
        answer = bench.speaker.complaint(number, f"no: {SECRET} {KEY}")
        answer.headers = headers
        return answer

    return react


def later(bench: Bench, asked: Asked) -> Reaction:
    answer = bench.speaker.complaint(429, "slow down")
    answer.headers = {"Retry-After": formatdate(bench.clock.time + 30, usegmt=True)}
    return answer


def no_model(bench: Bench, asked: Asked) -> Reaction:
    return bench.speaker.complaint(404, bench.speaker.no_model)


def page(bench: Bench, asked: Asked) -> Reaction:
    return Answer(body=f"<html>{SECRET} {KEY}".encode(), content_type="text/html")


def mistyped(bench: Bench, asked: Asked) -> Reaction:
    return bench.reply(bench.true(asked), content_type="text/plain")


def broken_off(bench: Bench, asked: Asked) -> Reaction:
    whole = bench.reply(bench.true(asked)).encoded()
    return Answer(body=whole[: len(whole) // 2])


def cut(bench: Bench, asked: Asked) -> Reaction:
    return bench.reply(bench.true(asked), cut=40)


def silent(bench: Bench, asked: Asked) -> Reaction:
    return Raw(bench.hang())


def hang_up(bench: Bench, asked: Asked) -> Reaction:
    return Raw()


def stuck(bench: Bench, asked: Asked) -> Reaction:
    def pieces() -> Iterator[bytes]:
        yield b'{"embeddings": [['
        yield from bench.hang()

    return Answer(pieces=pieces())


def dripping(bench: Bench, asked: Asked) -> Reaction:
    bench.clock.tick = 0.5
    return Answer(pieces=drops(b'{"embeddings": [['))


def elsewhere(bench: Bench, asked: Asked) -> Reaction:
    return Answer(307, {}, {"Location": f"{bench.server.url}/elsewhere"})


def flood(bench: Bench, asked: Asked) -> Reaction:
    return Answer(pieces=(b" " * (1 << 20) for _ in range(20)))


def huge(bench: Bench, asked: Asked) -> Reaction:
    return Raw([b"HTTP/1.1 200 OK\r\nContent-Length: 20971520\r\n\r\n{"])


def changed(change: Callable[[list[Any]], list[Any]]) -> React:
    return lambda bench, asked: bench.reply(change(bench.true(asked)))


def spoilt(change: Callable[[list[float]], Any]) -> React:
    """Change the vector of the marked text, or of the only one."""

    def react(bench: Bench, asked: Asked) -> Reaction:
        texts, vectors = bench.texts(asked), bench.true(asked)
        for place, text in enumerate(texts):
            if MARK in text:
                vectors[place] = change(vectors[place])
        return Answer(body=json.dumps(bench.speaker.content(vectors)).encode())

    return react


def many(react: React) -> React:
    """Fail batches and let single texts pass, like a server that finds a batch too large."""

    def chosen(bench: Bench, asked: Asked) -> Any:
        return react(bench, asked) if len(bench.texts(asked)) > 1 else None

    return chosen


UNAVAILABLE, REFUSED, BAD = "provider_unavailable", "provider_refused", "provider_bad_reply"
COOLDOWN, LARGE, MODEL = "provider_cooldown", "provider_batch_too_large", "model_unavailable"
TWO = ("two.txt",)

ROWS = [
    Row("refused connection", Bench.refuse, UNAVAILABLE, 0, way=True),
    Row("no such host", Bench.lose_name, UNAVAILABLE, 0, way=True),
    Row("time-out at connect", Bench.clog, UNAVAILABLE, 0, way=True, slow=True),
    Row("time-out before the first byte", silent, UNAVAILABLE, ATTEMPTS, slow=True),
    Row("time-out in the body", stuck, UNAVAILABLE, ATTEMPTS, slow=True),
    Row("slow drip", dripping, UNAVAILABLE, ATTEMPTS),
    # A connection kept from counting is closed first, and replaced in silence.
    Row("hangs up", hang_up, UNAVAILABLE, ATTEMPTS, met=(1, 2)),
    Row("body shorter than declared", cut, UNAVAILABLE, ATTEMPTS),
    Row("400", status(400), REFUSED),
    Row("401", status(401), REFUSED),
    Row("403", status(403), REFUSED),
    Row("404 model", no_model, MODEL),
    Row("413 for a batch", many(status(413)), "", 2, asked="", met=(0,), lost=()),
    Row("413 whatever it is", status(413), LARGE),
    Row("429", status(429), UNAVAILABLE, ATTEMPTS, keyed_code=COOLDOWN),
    Row(
        "429, seconds",
        status(429, **{"Retry-After": "7"}),
        UNAVAILABLE,
        ATTEMPTS,
        keyed_code=COOLDOWN,
    ),
    Row("429, date", later, UNAVAILABLE, ATTEMPTS, keyed_code=COOLDOWN),
    Row("429, huge", status(429, **{"Retry-After": "86400"}), UNAVAILABLE, keyed_code=COOLDOWN),
    Row("500", status(500), UNAVAILABLE, ATTEMPTS),
    Row("502", status(502), UNAVAILABLE, ATTEMPTS),
    Row("503", status(503), UNAVAILABLE, ATTEMPTS),
    Row("503, huge", status(503, **{"Retry-After": "86400"}), UNAVAILABLE),
    Row("truncated JSON", broken_off, BAD),
    Row("HTML", page, BAD),
    Row("wrong content type", mistyped, BAD),
    Row("fewer vectors", changed(lambda found: found[:-1]), BAD),
    Row("more vectors", changed(lambda found: [*found, found[0]]), BAD),
    Row("shuffled order", changed(lambda found: found[::-1]), BAD, asked="", met=(2,)),
    Row("all the same", changed(lambda found: [found[0]] * len(found)), BAD, asked="", met=(2,)),
    Row("fewer dimensions", spoilt(lambda vector: vector[:-1]), "", lost=TWO, asked=BAD),
    Row("more dimensions", spoilt(lambda vector: [*vector, 0.1]), "", lost=TWO, asked=BAD),
    Row("no dimensions", spoilt(lambda vector: []), "", lost=TWO, asked=BAD),
    Row("NaN", spoilt(lambda vector: [float("nan"), *vector[1:]]), "", lost=TWO, asked=BAD),
    Row("infinity", spoilt(lambda vector: [float("inf"), *vector[1:]]), "", lost=TWO, asked=BAD),
    Row("null in a vector", spoilt(lambda vector: [None, *vector[1:]]), "", lost=TWO, asked=BAD),
    Row("null for a vector", spoilt(lambda vector: None), "", lost=TWO, asked=BAD),
    Row("text in a vector", spoilt(lambda vector: [SECRET, *vector[1:]]), BAD),
    Row("zero vector", spoilt(lambda vector: [0.0] * len(vector)), "", lost=TWO, asked=BAD),
    Row("20 MB, undeclared", flood, BAD),
    Row("20 MB, declared", huge, BAD),
    Row("redirect", elsewhere, REFUSED),
]


def each_row() -> Callable[[Any], Any]:
    """Try each fault on every protocol, or in `make test` on all but one."""
    pairs = [
        pytest.param(row, speaker, id=f"{row}-{speaker}")
        for number, row in enumerate(ROWS)
        for place, speaker in enumerate(SPEAKERS)
        if in_test_or_prove(number % len(SPEAKERS), None) != place
    ]
    return pytest.mark.parametrize(("row", "speaker"), pairs)


# What is looked at


@contextmanager
def overheard() -> Iterator[io.StringIO]:
    """Record everything that is logged, at every level."""
    written = io.StringIO()
    listener = logging.StreamHandler(written)
    root = logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        yield written
    finally:
        root.setLevel(level)
        root.removeHandler(listener)


def code_of(call: Callable[[], Any]) -> str:
    """Return the code of a call's error, '' if there is none; the error contains no secret."""
    with overheard() as written:
        try:
            call()
            told, code = "", ""
        except TruespanError as error:
            told = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
            code = error.code
    for text in (told, written.getvalue()):
        assert KEY not in text
        assert SECRET not in text.lower()
    return code


def strike(bench: Bench, row: Row, when: Callable[[int], bool]) -> None:
    fault: Any = row.fault
    if row.slow:
        bench.tighten()
    # A kept connection that is closed is replaced in silence, which would count as an attempt.
    bench.embedder._client.close()
    if row.way:
        fault(bench)
    else:
        bench.plant(fault, when)


def names(world: World) -> set[str]:
    return {document.name for document in world.documents.list() if document.active}


def assert_true(lib: LibraryFixture, world: World) -> None:
    """Assert that every vector, in the store and in the index, belongs to its own text."""
    for chunk_id, point in lib.points(world).items():
        chunk = world.documents.chunk(chunk_id).chunk
        assert chunk is not None
        assert similarity(point.vector, vector_of(chunk.data.decode())) > 0.9999
    kept = lib.sql("SELECT text_hash, vector FROM vectors")
    true = {vector_of(text) for text in (*LATE.values(), "The tide comes in twice a day.")}
    for _, vector in kept:
        assert max(similarity(vector, one) for one in true) > 0.9999


def assert_no_key(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


# The matrix


@proves(
    "errors.no-secrets",
    "embedding.retries-transient-only",
    "embedding.count-and-canary",
    "embedding.vectors-checked",
    "errors.failure-changes-nothing",
)
@each_row()
def test_ingestion_fault_has_its_error_and_can_be_resumed(
    tmp_path: Path, row: Row, speaker: Speaker
) -> None:
    with Bench(speaker, tmp_path) as bench:
        lib, world = bench.built()
        paths = [lib.write(name, text) for name, text in LATE.items()]
        # The canary alone is spared, so that the batch is what the fault strikes.
        strike(bench, row, lambda texts: texts > 1 or row.attempts > 1 or row.code == LARGE)
        before = len(bench.clock.slept)

        code = code_of(lambda: world.ingest(paths))

        assert code == row.code_for(speaker)
        assert bench.counted(row.attempts) == row.attempts
        tries = ATTEMPTS if row.way else row.attempts
        waits = tries - 1 if code in (UNAVAILABLE, COOLDOWN) else 0
        assert len(bench.clock.slept) - before == waits
        expected = {"tide.txt"}
        if row.lost is not None:
            expected |= set(LATE) - set(row.lost)
        assert names(world) == expected
        assert len(lib.points(world)) == len(expected)
        assert_true(lib, world)
        assert_no_key(tmp_path)
        assert bench.server.to("/elsewhere") == []
    with Bench(speaker, tmp_path) as bench:
        assert_goes_on(bench, lib.index, paths)


def assert_goes_on(bench: Bench, index: MemoryIndex, paths: list[str]) -> None:
    """Assert that the same command reaches the usual result once the fault is over."""
    lib = bench.open(index)
    world = lib.library.world("world")

    assert world.ingest(paths).failures == []
    assert names(world) == {"tide.txt", *LATE}
    assert len(lib.points(world)) == 4
    assert_true(lib, world)
    assert CANARY not in str(lib.sql("SELECT text FROM chunks"))


@pytest.mark.contract
@proves("embedding.down-is-an-error", "errors.no-secrets", "errors.cooldown-before-index")
@each_row()
def test_question_without_a_vector_fails_before_the_index(
    tmp_path: Path, row: Row, speaker: Speaker
) -> None:
    with Bench(speaker, tmp_path) as bench:
        lib, world = bench.built()
        strike(bench, row, lambda texts: True)
        searched = lib.index.calls.count("search")

        code = code_of(lambda: world.search(f"what of the {MARK} letter, {SECRET}?"))

        expected = row.code_for(speaker) if row.asked is None else row.asked
        assert code == expected
        assert lib.index.calls.count("search") - searched == (0 if expected else 1)
        met = (0,) if row.way else row.met
        assert bench.counted(min(met)) in met
        assert_no_key(tmp_path)
