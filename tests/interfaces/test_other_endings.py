"""Two libraries whose books differ after the reader's position give that reader the same bytes.

The library, HTTP, MCP and the command line are asked everything that a reader can ask, and much
that a reader may not. Only what `VOLATILE_MEMBERS` and `VOLATILE_HEADERS` name may differ.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import truespan
from tests.interfaces.http_client import Client, Response, serve_library
from tests.interfaces.mcp_asking import addresses, messages
from tests.interfaces.mcp_clients import Bare, bare, command
from tests.interfaces.tenants import Names, Request, requests
from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.docx_maker import PNG, docx, p, picture, r
from tests.support.known_vectors import known_vectors
from tests.support.lookahead import BOUNDARY, QUERIES, READ, SECRETS, pairs
from tests.support.providers.chat import OpenAiChatServer
from truespan.cli import run
from truespan.errors import TruespanError
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.types.request import Mode
from truespan.wire.serialize import to_json

VOLATILE_MEMBERS = {
    "processing_time_ms": "how long the request took",
    "record": "the random id of an answer's record in the usage log",
    "created_at": "when a conversation began",
    "updated_at": "when a conversation was continued",
    "deleted_at": "when conversations were deleted",
    "digest": "the digest of a receipt, which has that time",
    "library": "the random id of a library",
}
VOLATILE_WORDS = re.compile(r"\(\d+ ms\)|Record [0-9a-f]{12}")
"""The same in what the command line prints for people."""
VOLATILE_HEADERS = {
    "date": "when the reply was sent",
    "content-length": "the digits of processing_time_ms; the bodies are compared",
}
SAID = ["She came with “a parrot in a cage” [1], ", "and “the doctor did it” [2]."]
CLOSED = ServerOptions(auth=AuthPolicy(needs_token=True), sessions=False)


def with_figures(side: int) -> bytes:
    read = [text for paragraphs in READ.values() for text in paragraphs]
    ahead = ["Wilhelmina laughed.", "Ottokar ran. Nobody followed."][side:]
    body = [p(r(f"<w:t>{text}</w:t>")) for text in read + ahead]
    body.insert(3, p(picture("rId7", alt="The parrot in its cage")))
    body.insert(len(read) + 1 + side, p(picture("rId8", alt=f"Hangs {side}")))
    return docx(
        "".join(body),
        relations=[("rId7", "image", "media/a.png"), ("rId8", "image", "media/b.png")],
        media={"word/media/a.png": PNG, "word/media/b.png": PNG + bytes([side])},
    )


BOOKS: dict[str, tuple[bytes, bytes]] = {
    f"book-{number:02}.{pair.form}": (pair.first, pair.second)
    for number, pair in enumerate(pairs())
} | {"figures.docx": (with_figures(0), with_figures(1))}
CHOSEN = [
    *(
        next(name for name in BOOKS if name.endswith(form))
        for form in ("txt", "md", "html", "epub")
    ),
    *("figures.docx", next(name for name in BOOKS if name.endswith("pdf"))),
]
"""Books for which every request is sent; for others, a few."""
TEXTS = [name for name in CHOSEN if name.endswith(("txt", "md"))]


def some_queries(*place: str) -> tuple[str, ...]:
    """Return the queries to ask at a place: one in `make test`, other ones at other places."""
    chosen = QUERIES[crc32(" ".join(place).encode()) % len(QUERIES)]
    return in_test_or_prove((chosen,), QUERIES)


@dataclass
class Side:
    """One of the two libraries with its interfaces."""

    number: int
    folder: Path
    library: truespan.Library
    http: Client
    mcp: Bare
    token: str
    chat: OpenAiChatServer
    names: list[Names] = field(default_factory=list)

    def prompts(self) -> list[Any]:
        """Return the requests to the chat model since the last call."""
        sent, self.chat.asked[:] = self.chat.questions, []
        return sent


def fill(library: truespan.Library, sources: Path, side: int) -> None:
    """Ingest the books of a side, and set the reader to the last common sentence."""
    world = library.world("w")
    for name, versions in BOOKS.items():
        (sources / name).write_bytes(versions[side])
    world.ingest(str(sources), kind="book")
    reader = world.reader("ann")
    for name in BOOKS:
        place = reader.set_position(name, passage=BOUNDARY)
        assert place.last_sentence == BOUNDARY, name
        if name.endswith("pdf"):
            # Drawn now: the files of the other side are written to the same paths.
            reader.picture(book=name)
    reader.set_position("figures.docx", passage=BOUNDARY)


def names_of(library: truespan.Library) -> list[Names]:
    world = library.world("w")
    unread = world.search("Wilhelmina and Ottokar, the rope", floor=0.0).passages[0].chunk_id
    job, found = world.jobs.list()[0].id, list[Names]()
    for name in CHOSEN:
        doc_id = world.documents.get(name).doc_id
        known = world.reader("ann").retrieve(QUERIES[0], book=name).metadata.sources[0].chunk_id
        for chunk, image in ((known, "img_001.png"), (unread, "img_002.png")):
            found.append(
                Names("w", doc_id, chunk, f"{doc_id}/{image}", job, "record", "ann", "1", name, "d")
            )
    return found


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    folder = tmp_path_factory.mktemp("endings")
    with truespan.open(folder / "base", create=True) as base:
        base.create_world("w")
        token = base.tokens.create("ann's", worlds=["w"], readers=["ann"])[1].reveal()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # The law is about what follows, which the vector of a text does not depend on.
        stack.enter_context(known_vectors())
        chat = stack.enter_context(OpenAiChatServer())
        chat.reply = list(SAID)
        for name, value in {
            "chat_provider": "openai",
            "chat_model": chat.model,
            "chat_openai_base_url": chat.base,
            "chat_openai_keyless": "1",
            "docx_extract_images": "1",
            "docx_inline_figure_placeholders": "1",
            "docx_figure_chunks": "1",
        }.items():
            patch.setenv(f"TRUESPAN_{name.upper()}", value)
        patch.delenv("TRUESPAN_WORLD", raising=False)
        made: list[Side] = []
        (folder / "sources").mkdir()
        for number in range(2):
            # A copy, so that worlds and tokens have the same ids.
            own = Path(shutil.copytree(folder / "base", folder / f"side{number}"))
            library = stack.enter_context(truespan.open(own))
            fill(library, folder / "sources", number)
            client = stack.enter_context(serve_library(library, CLOSED))
            server = stack.enter_context(bare("-m", "truespan", *command(own, "--reader", "ann")))
            server.greet()
            made.append(Side(number, own, library, client, server, token, chat))
            made[0].names += names_of(library)
        yield made[0], made[1]
        for side in made:
            side.library._components.index.retire()  # type: ignore[attr-defined]


def settled(value: Any) -> Any:
    """Return data without members that may differ between equal requests."""
    if isinstance(value, dict):
        return {k: None if k in VOLATILE_MEMBERS else settled(v) for k, v in value.items()}
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value):
        return "a random id of a conversation or a turn"
    return [settled(entry) for entry in value] if isinstance(value, list) else value


def settled_text(text: str) -> str:
    try:
        return json.dumps(settled(json.loads(text)), sort_keys=True)
    except ValueError:
        lines = text.split("\n")
        if len(lines) == 1:
            head, found, rest = text.partition("data: ")
            return head + found + settled_text(rest) if found and not head else text
        return "\n".join(map(settled_text, lines))


def shown(response: Response) -> tuple[object, ...]:
    headers = [pair for pair in response.headers if pair[0] not in VOLATILE_HEADERS]
    try:
        return response.status, headers, settled_text(response.body.decode())
    except UnicodeDecodeError:
        return response.status, headers, response.body


def compare(
    sides: tuple[Side, Side], rows: dict[str, Callable[[Side], Any]], *, least: int
) -> dict[str, Any]:
    """Send each row to both sides and report every difference, also in requests to the model."""
    different, results = list[str](), dict[str, Any]()
    for name, ask in rows.items():
        first, second = ((ask(side), side.prompts()) for side in sides)
        results[name] = first[0]
        if first != second:
            different.append(f"{name}\n  {first}\n  {second}")
    assert not different, "\n\n".join(different[:5]) + f"\n{len(different)} of {len(rows)} differ"
    assert len(rows) >= least
    said = repr(results)
    assert [word for word in SECRETS if word in said] == []
    return results


@proves("reading.non-interference", "reading.every-surface")
def test_library_replies_do_not_depend_on_the_ending(sides: tuple[Side, Side]) -> None:
    def row(act: Callable[[Any], Any]) -> Callable[[Side], Any]:
        def ask(side: Side) -> Any:
            try:
                found = act(side.library.world("w").reader("ann"))
            except TruespanError as error:
                return type(error), error.code, str(error), error.advice
            return found if isinstance(found, bytes) else settled(json.loads(to_json(found)))

        return ask

    rows: dict[str, Callable[[Side], Any]] = {"books": row(lambda reader: reader.books())}
    for names in sides[0].names:
        book, image, chunk = names.book, names.image_ref, names.chunk
        acts: dict[str, Callable[[Any], Any]] = {
            "where": lambda reader, book=book: reader.position(book),
            "page": lambda reader, book=book: reader.sentences(book),
            "past": lambda reader, book=book: reader.sentences(book, offset=5),
            "end": lambda reader, book=book: reader.sentences(book, offset=900),
            f"image {image}": lambda reader, image=image: reader.image(image).data,
        }
        verbs: dict[str, Callable[..., Any]] = {
            "retrieve": lambda reader, **asked: reader.retrieve(**asked),
            "answer": lambda reader, **asked: reader.answer(**asked),
            f"why not {chunk}": lambda reader, chunk=chunk, **asked: reader.why_not(chunk, **asked),
        }
        for verb, act in verbs.items():
            for mode in (Mode.VECTOR, Mode.HYBRID, Mode.KEYWORD):
                for query in some_queries(book, verb, mode):
                    acts[f"{verb} {query} {mode}"] = partial(act, query=query, book=book, mode=mode)
        # Two entries of a book differ in image and chunk; what does not is asked once.
        rows |= {f"{book}: {name}": row(act) for name, act in acts.items()}
    rows |= {
        f"{book}: {name}": row(act)
        for book in BOOKS
        for name, act in {
            "page": lambda reader, book=book: reader.sentences(book),
            "answer": lambda reader, book=book: reader.answer(QUERIES[2], book, mode="hybrid"),
        }.items()
    }
    rows["no such book"] = row(lambda reader: reader.position("absent.md"))

    results = compare(sides, rows, least=100)

    assert any(isinstance(found, bytes) for found in results.values())
    assert "green coat" in repr(results)


@proves("reading.non-interference", "reading.every-surface")
def test_http_replies_do_not_depend_on_the_ending(sides: tuple[Side, Side]) -> None:
    asked: dict[str, Any] = {}
    for names in sides[0].names:
        for call in OPERATIONS:
            of_reader = "{reader}" in call.path
            if call.takes_form or (not of_reader and names is not sides[0].names[0]):
                continue
            for query in some_queries(call.name, names.book):
                made, *others = requests(call, names)
                body = made.body and made.body.replace(
                    b"Who wound the great clock?", query.encode()
                )
                bodies = [body]
                if body and b"query" in body and call.name == "answerAsReader":
                    bodies.append(body[:-1] + b', "stream": true}')
                if body and b"query" in body and of_reader:
                    modes = (b"hybrid", b"keyword") if query == QUERIES[2] else (b"hybrid",)
                    bodies += [body[:-1] + b', "mode": "%s"}' % mode for mode in modes]
                others += [Request(call, made.target, made.headers, body) for body in bodies]
                for one in others:
                    asked[f"{call.method} {one.target} {one.headers} {one.body!r}"] = one
    of_ann = "/v1/worlds/w/readers/ann"
    targets = [
        f"{of_ann}/{verb}?book={book}" for verb in ("sentences", "position") for book in BOOKS
    ]
    for target in (*targets, f"{of_ann}/sentences?offset=4&limit=9", "/v1/none", "/"):
        asked[f"GET {target}"] = target

    def send(side: Side, one: Any) -> object:
        if isinstance(one, str):
            return shown(side.http.send("GET", one, token=side.token))
        return shown(one.sent(side.http, side.token))

    rows = {name: lambda side, one=one: send(side, one) for name, one in asked.items()}
    results = compare(sides, rows, least=140)

    assert sum(found[0] == 200 for found in results.values()) > 60
    assert any("x-answer-mode" in dict(found[1]) for found in results.values())


def mcp_messages(sides: tuple[Side, Side]) -> dict[str, Any]:
    """Return every request of the protocol, for each book or every second book."""
    asked: dict[str, Any] = {}
    for names in sides[0].names[:: in_test_or_prove(4, 2)]:
        for query in some_queries(names.book):
            for one in messages(addresses("w", "ann"), query, names.book, names.document):
                asked[f"{one} {one.params}"] = one
    return asked


@proves("reading.non-interference", "reading.every-surface")
def test_mcp_over_http_does_not_depend_on_the_ending(sides: tuple[Side, Side]) -> None:
    rows = {
        name: lambda side, one=one: shown(one.sent(side.http, side.token))
        for name, one in mcp_messages(sides).items()
    }

    assert "green coat" in repr(compare(sides, rows, least=120))


@proves("reading.non-interference", "reading.every-surface")
def test_mcp_over_pipes_does_not_depend_on_the_ending(sides: tuple[Side, Side]) -> None:
    def row(method: str, params: dict[str, Any]) -> Callable[[Side], Any]:
        def ask(side: Side) -> Any:
            side.mcp.send({"id": 7, "method": method, "params": params})
            return settled_text(json.dumps(side.mcp.receive()))

        return ask

    rows = {
        f"{one.method} {one.params}": row(one.method, one.params)
        for one in mcp_messages(sides).values()
        if one.method != "initialize"
    }
    reference = {"type": "ref/resource", "uri": "truespan://documents/{doc_id}"}
    for value in ("", "b", "book-00", "x"):
        argument = {"name": "doc_id", "value": value}
        rows[f"complete {value}"] = row(
            "completion/complete", {"ref": reference, "argument": argument}
        )

    assert "green coat" in repr(compare(sides, rows, least=40))


@proves("reading.non-interference", "reading.every-surface")
def test_command_line_does_not_depend_on_the_ending(
    sides: tuple[Side, Side], capsys: pytest.CaptureFixture[str]
) -> None:
    def row(*arguments: str) -> Callable[[Side], Any]:
        def ask(side: Side) -> Any:
            capsys.readouterr()
            code = run([*arguments, "--world", "w", "--library", str(side.folder)])
            out, err = (text.replace(str(side.folder), "LIBRARY") for text in capsys.readouterr())
            # The time decides where a line is broken.
            said = (" ".join(settled_text(text).split()) for text in (out, err))
            return code, *(VOLATILE_WORDS.sub("", text) for text in said)

        return ask

    ann = ("--reader", "ann")
    spelled = [
        ("reader", "show", *ann), ("reader", "show", *ann, "--json"),
        ("retrieve", " ", *ann), ("retrieve", QUERIES[0], "--reader", "nobody"),
        ("retrieve", QUERIES[0], *ann, "--book", "absent.md"),
        ("ask", QUERIES[0], *ann, "--book", "absent.md"),
        ("ask", QUERIES[0], *ann, "--no-stream"),
        ("ask", QUERIES[1], *ann, "--book", "figures.docx", "--json"),
        ("retrieve", QUERIES[1], *ann, "--context"),
        ("ask", QUERIES[2], *ann, "--mode", "keyword", "--json"),
    ]  # fmt: skip
    for book in CHOSEN:
        spelled += [
            ("retrieve", QUERIES[0], *ann, "--book", book),
            ("retrieve", QUERIES[1], *ann, "--book", book, "--json"),
            ("retrieve", QUERIES[2], *ann, "--book", book, "--mode", "hybrid", "--json"),
            ("reader", "set", book, *ann, "--passage", BOUNDARY, "--json"),
        ]

    rows = {" ".join(words): row(*words) for words in spelled}

    assert "green coat" in repr(compare(sides, rows, least=20))


@proves("reading.non-interference", "reading.re-anchored")
def test_other_ending_moves_no_reader_of_an_edition_with_foreword(sides: tuple[Side, Side]) -> None:
    first = READ["Chapter 1"][0]
    foreword = "This edition follows the second printing, and the notes are ours. "
    sources = sides[0].folder.parent / "sources"
    for side in sides:
        for name in TEXTS:
            text = BOOKS[name][1 - side.number].decode()
            text = text.replace(first, foreword + first).replace("low and white", "low—and white")
            (sources / name).write_text(text, "utf-8")
            side.library.world("w").ingest(str(sources / name), kind="book")

    def row(ask: Callable[[Any], Any]) -> Callable[[Side], Any]:
        return lambda side: settled(json.loads(to_json(ask(side.library.world("w").reader("ann")))))

    rows = {"books": row(lambda reader: reader.books())}
    for name in TEXTS:
        rows[f"where {name}"] = row(lambda reader, name=name: reader.position(name))
        rows[f"page {name}"] = row(lambda reader, name=name: reader.sentences(name))
        rows[f"retrieve {name}"] = row(
            lambda reader, name=name: reader.retrieve(QUERIES[0], book=name, mode="hybrid")
        )
    results = compare(sides, rows, least=7)

    for name in TEXTS:
        assert results[f"where {name}"]["last_sentence"] == BOUNDARY
