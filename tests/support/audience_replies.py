"""All replies to a caller with a limited audience, as text."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.support.receipts import claims_of
from truespan.engine.world import World
from truespan.errors import TruespanError
from truespan.types.answer import Answer
from truespan.types.bundle import ContextBundle, SearchResult
from truespan.types.request import Mode
from truespan.wire.serialize import to_json

QUERIES = (
    "who lit the lamp?", "zebra payroll", "the harbor night", "lampp in the harbuor",
    '"the lamp burned"',
    "which lamp burned at night in the harbour of ships, ropes, lawyers, zebras, payrolls",
)  # fmt: skip
MODES = (Mode.HYBRID, Mode.VECTOR, Mode.KEYWORD)
NAMES = ("lamp.txt", "night.md", "rope.txt", "pay.txt", "nothing.txt")
MADE_UP = "00000000-0000-0000-0000-000000000000"


def told(read: Callable[[], Any]) -> str:
    """Return a reply as it is sent, without times; of an error, its type and text."""
    try:
        reply = read()
    except TruespanError as error:
        return f"{type(error).__name__}: {error.message} {error.advice}"
    if isinstance(reply, Answer):
        reply = replace(reply, record=None, processing_time_ms=0)
    if isinstance(reply, ContextBundle):
        reply = replace(reply, metadata=replace(reply.metadata, processing_time_ms=0))
    return to_json(reply)


def signed_claims(world: World, result: SearchResult | ContextBundle | Answer) -> dict[str, Any]:
    """Return what a receipt claims, without its time."""
    claims = claims_of(world.sign(result))
    del claims["time"]
    return claims


def replies(world: World, hidden_chunks: tuple[str, ...] = ()) -> list[str]:
    """Return a caller's replies from every method that reads a world."""
    return [told(read) for read in _reads(world, hidden_chunks)]


def replies_about(world: World, name: str) -> list[str]:
    """Return a caller's replies for the name of a document, its number or the id of a chunk."""
    documents, reader = world.documents, world.reader("ben")
    reads: tuple[Callable[[], Any], ...] = (
        *(lambda read=read: read(name) for read in (documents.get, documents.text)),
        *(lambda read=read: read(name) for read in (documents.outline, documents.metadata)),
        *(lambda read=read: read(name) for read in (documents.audit, documents.sentences)),
        *(lambda read=read: read(name) for read in (documents.chunks, documents.chunk)),
        lambda: documents.find(name),
        lambda: documents.image(f"{name}/1.png"),
        lambda: world.search("lamp", documents=[name]),
        lambda: world.search("lamp", source=name),
        lambda: world.retrieve("lamp", documents=[name]),
        lambda: world.documents.facets(documents=[name]),
        lambda: world.why_not(name, "lamp"),
        lambda: reader.position(name),
        lambda: reader.set_position(name, sentence=0),
        lambda: reader.at_position(name, 0).retrieve("lamp"),
        lambda: reader.retrieve("lamp", book=name),
        lambda: reader.why_not(name, "lamp"),
    )
    return [told(read) for read in reads]


def _reads(world: World, chunks: tuple[str, ...]) -> Iterator[Callable[[], Any]]:
    for number, query in enumerate(QUERIES):
        yield from _answers(world, query, number)
    yield lambda: world.search("lamp", chapter="Nigth")
    yield lambda: world.search("lamp", metadata={"salary": 3})
    yield lambda: world.search("lamp", language="de")
    yield lambda: world.documents.freshness()
    yield lambda: world.documents.facets()
    yield lambda: world.status()
    yield lambda: world.documents.list()
    yield lambda: world.documents.find("pay").total
    yield lambda: world.documents.find("lamp")
    yield lambda: world.readers()
    documents = world.documents
    for name in NAMES:
        for read in (documents.get, documents.text, documents.outline, documents.metadata):
            yield lambda read=read, name=name: read(name)
        yield lambda name=name: documents.sentences(name)
        yield lambda name=name: documents.chunks(name)
        yield lambda name=name: documents.audit(name)
        yield lambda name=name: world.search("lamp", documents=[name], floor=0.0)
    for number in range(1, 12):
        yield lambda number=number: world.documents.get(number)
    for chunk in (*chunks, MADE_UP):
        yield lambda chunk=chunk: told(lambda: world.documents.chunk(chunk)).replace(chunk, "ID")
        yield lambda chunk=chunk: world.why_not(chunk, "lamp")
    yield from _reader_reads(world)


def _answers(world: World, query: str, number: int) -> Iterator[Callable[[], Any]]:
    """Yield calls with a query: in one mode by query, or in `make prove` in all modes."""
    for mode in in_test_or_prove([MODES[number % 3]], MODES):
        yield lambda mode=mode: world.search(query, mode=mode, floor=0.0, top_k=20, highlight=True)
    for mode in in_test_or_prove([MODES[(number + 1) % 3]], MODES):
        yield lambda mode=mode: world.retrieve(query, mode=mode, top_k=5)
    yield lambda: world.answer(query)
    signed: list[Callable[[], Any]] = [
        lambda: signed_claims(world, world.search(query, floor=0.0)),
        lambda: signed_claims(world, world.retrieve(query)),
        lambda: signed_claims(world, world.answer(query)),
    ]
    yield from in_test_or_prove([signed[number % 3]], signed)


def _reader_reads(world: World) -> Iterator[Callable[[], Any]]:
    for name in ("ann", "ben", "nobody"):
        reader = world.reader(name)
        yield reader.books
        yield reader.position
        yield lambda reader=reader: reader.retrieve("who lit the lamp?", mode=Mode.HYBRID)
        yield lambda reader=reader: reader.retrieve("zebra payroll", book="pay.txt")
        yield lambda reader=reader: reader.sentences(book="pay.txt")
        yield lambda reader=reader: reader.sentences(book="lamp.txt", limit=2)
