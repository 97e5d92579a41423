"""A library with two worlds, tokens of every kind, and a request for each operation."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from urllib.parse import quote

import msgspec

from tests.interfaces.http_client import Client, Response
from tests.scenario.test_figures import ALL, PNG, docx, drawing, paragraph
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.extensions.server.http.operation import EVENTS, Operation
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.ingest.draft import Preparation
from truespan.types.scope import UNLIMITED, WORLD_VERBS, Verb

OWN, FOREIGN = "zvown", "qvstrange"
"""Canaries: each is in every text, title, file name and figure of its world."""
QUESTION = "Who wound the great clock of the tower?"
BOUNDARY = "an-edge-of-a-form"


@dataclass(frozen=True)
class Names:
    """The names of the parts of a world that a request can contain."""

    world: str
    document: str
    chunk: str
    image_ref: str
    job: str
    record: str
    reader: str
    generation: str
    book: str
    domain: str
    conversation: str = "0" * 32
    readers_conversation: str = "0" * 32
    note: str = "0" * 32

    def changed(self, **other: str) -> "Names":
        return Names(**{**{name: getattr(self, name) for name in NAMES}, **other})


NAMES = tuple(Names.__dataclass_fields__)


@dataclass(frozen=True)
class Estate:
    """A library with a world that the tokens may use, and a foreign world."""

    lib: LibraryFixture
    own: World
    foreign: World
    names: Names
    strange: Names
    keys: dict[str, str] = field(default_factory=dict)
    """Tokens for the own world or for nothing, by description."""
    dead: dict[str, str] = field(default_factory=dict)
    """Invalid tokens."""

    def secrets(self) -> list[bytes]:
        hidden = [FOREIGN, *(getattr(self.strange, name) for name in NAMES if name != "generation")]
        return [one.encode() for one in [*hidden, self.foreign.id]]


def estate(folder: Path) -> Estate:
    """Create the library, its worlds and its tokens."""
    lib = make_library(folder, preparation=Preparation(figures=ALL))
    own, foreign = (filled(lib, canary) for canary in (OWN, FOREIGN))
    foreign.generations.reindex()
    made = Estate(lib, own, foreign, names_of(own, OWN, "1"), names_of(foreign, FOREIGN, "2"))
    made.keys.update(live_keys(lib))
    made.dead.update(dead_keys(lib, folder.parent / "elsewhere"))
    return made


def filled(lib: LibraryFixture, canary: str) -> World:
    world = lib.library.create_world(f"{canary}-world")
    sentences = [f"The {canary} keeper {n} wound the great clock of the tower." for n in range(40)]
    text = f"# {canary} book\n\n## One\n\n{' '.join(sentences)}\n"
    path = Path(lib.write(f"{canary}/{canary}-report.docx", ""))
    path.write_bytes(
        docx(
            paragraph(f"The {canary} report shows the tower."),
            paragraph("Here ", drawing("rId1", f"a {canary} picture"), " it is."),
            media={"image1.png": PNG + canary.encode()},
        )
    )
    world.ingest(lib.write(f"{canary}/{canary}.md", text), kind="book", tags=[f"{canary}-tag"])
    world.ingest(str(path))
    world.reader(f"{canary}-reader").set_position(f"{canary}.md", sentence=20)
    world.generations.promote(1, domain=f"{canary}-domain")
    world.answer(QUESTION)
    world.conversation().ask(QUESTION)
    world.reader(f"{canary}-reader").conversation().ask(QUESTION)
    world.reader(f"{canary}-reader").notes.add(f"A note about {canary}.", first=1)
    return world


def names_of(world: World, canary: str, generation: str) -> Names:
    (picture,) = (
        one.image_ref for one in world.documents.sentences(f"{canary}-report.docx").figures
    )
    assert picture
    return Names(
        world=world.name,
        document=world.documents.get(f"{canary}.md").doc_id,
        chunk=world.search(QUESTION, floor=0.0).passages[0].chunk_id,
        image_ref=picture,
        job=world.jobs.list()[0].id,
        record=world.usage()[0].id,
        reader=f"{canary}-reader",
        generation=generation,
        book=f"{canary}.md",
        domain=f"{canary}-domain",
        conversation=world.conversations()[0].id,
        readers_conversation=world.reader(f"{canary}-reader").conversations()[0].id,
        note=world.reader(f"{canary}-reader").notes.list()[0].id,
    )


def live_keys(lib: LibraryFixture) -> dict[str, str]:
    """Create tokens with every set of verbs, with several or no worlds, and for readers."""
    tokens, found = lib.library.tokens, dict[str, str]()
    lib.library.create_world("third")
    lib.library.create_world("gone")
    mine = f"{OWN}-world"

    def made(name: str, **rights: object) -> None:
        found[name] = tokens.create(name, **rights)[1].reveal()  # type: ignore[arg-type]

    for verbs in verb_sets():
        made("+".join(verbs), worlds=[mine], verbs=verbs)
    made("two worlds", worlds=[mine, "third"], verbs=WORLD_VERBS)
    made("none left", worlds=["gone"], verbs=WORLD_VERBS)
    made("a reader", worlds=[mine], readers=[f"{OWN}-reader"])
    made("a reader of no book", worlds=[mine], readers=["nobody"])
    made("two readers", worlds=[mine, "third"], readers=["nobody", f"{OWN}-reader"])
    made("metrics", verbs="observe")
    lib.library.delete_world("gone")
    return found


def verb_sets() -> Iterator[list[str]]:
    verbs = sorted(WORLD_VERBS)
    for size in range(1, len(verbs) + 1):
        yield from ([str(verb) for verb in chosen] for chosen in combinations(verbs, size))


def dead_keys(lib: LibraryFixture, elsewhere: Path) -> dict[str, str]:
    """Create invalid tokens, including a token of another library."""
    tokens = lib.library.tokens
    revoked, secret = tokens.create("revoked", worlds=UNLIMITED, verbs=list(Verb))
    tokens.revoke(revoked.id)
    expired = tokens.create("expired", worlds=UNLIMITED, verbs=list(Verb), expires_in=5)[1]
    lib.clock.time += 6
    good = tokens.create("good", worlds=UNLIMITED, verbs=list(Verb))[1].reveal()
    other = make_library(elsewhere)
    foreign = other.library.tokens.create("theirs", worlds=UNLIMITED, verbs=list(Verb))[1].reveal()
    other.library.close()
    return {
        "revoked": secret.reveal(),
        "expired": expired.reveal(),
        "of another library": foreign,
        "cut": good[:-1],
        "longer": good + "A",
        "of two": good[:20] + foreign[20:],
        "upper case": good.upper(),
        "quoted": f"ts_' OR 1=1 --_{good[20:]}",
        "two in one": f"{good} {good}",
        "look-alike": good.replace("t", "т", 1),
        "no token": "owner",
        "very long": "ts_" + "a" * 8000,
    }


# Requests


@dataclass(frozen=True)
class Request:
    """An operation with all of its parameters."""

    call: Operation
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes | None

    def __str__(self) -> str:
        return f"{self.call.method} {self.call.path}"

    def sent(self, client: Client, token: str | None) -> Response:
        return client.send(
            self.call.method, self.target, token=token, headers=self.headers, body=self.body
        )

    def names(self, secret: bytes) -> bool:
        """Return whether the request contains a name, which a reply may then repeat."""
        spelled = self.target.encode() + (self.body or b"") + repr(self.headers).encode()
        return secret in spelled or quote(secret).encode() in spelled


def request(call: Operation, names: Names, *, domain: bool = False) -> Request:
    """Return a call with these names in its address, its query string, its body and its headers."""
    target = call.path
    if "{reader}" in target:
        target = target.replace("{conversation}", "{readers_conversation}")
    for name in NAMES:
        value = getattr(names, name)
        target = target.replace(f"{{{name}}}", quote(value, safe=""))
        target = target.replace(f"{{{name}:path}}", quote(value, safe="/"))
    assert "{" not in target, f"there is no value for {call.path}"
    if call.query_type is not None and "book" in call.query_type.__struct_fields__:
        target += f"?book={quote(names.book, safe='')}"
    headers = [("x-rag-domain", names.domain)] if domain and call.domains else []
    if call.takes_form:
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        return Request(call, target, [("content-type", kind), *headers], form({}))
    if call.body_type is None:
        return Request(call, target, headers, None)
    body = json.dumps(content_of(call, names)).encode()
    return Request(call, target, [("content-type", "application/json"), *headers], body)


def requests(call: Operation, names: Names) -> list[Request]:
    """Return a call for each media type that it can reply with."""
    one = request(call, names)
    others = [*call.other_media_types, *([EVENTS] if call.name == "showJob" else [])]
    return [one, *(replace(one, headers=[*one.headers, ("accept", kind)]) for kind in others)]


def content_of(call: Operation, names: Names) -> dict[str, object]:
    """Return the body of a call, with every member that can name something filled in."""
    assert call.body_type is not None
    assert call.example is not None, f"{call.name} has no example to start from"
    known = call.body_type.__struct_fields__
    named: Mapping[str, object] = {
        "world": names.world,
        "chunk_id": names.chunk,
        "book": names.book,
        "documents": [names.document],
    }
    if "query" in known:
        named = {**named, "language": None}
    return {**call.example, **{name: value for name, value in named.items() if name in known}}


def form(fields: Mapping[str, str], *, name: str = "note.txt", text: bytes = b"A note.") -> bytes:
    parts = [
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="{name}"'
    parts.append(head.encode() + b"\r\ncontent-type: text/plain\r\n\r\n" + text + b"\r\n")
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


PASSING = {"processing_time_ms", "record", "conversation"}
"""Members for times, and for ids in the usage log and in conversations."""


def timeless(body: bytes) -> bytes:
    """Return a body without members that differ between equal requests."""
    if not body.startswith(b"{"):
        return body
    return msgspec.json.encode(without_time(msgspec.json.decode(body)), order="sorted")


def without_time(value: object) -> object:
    """Return data without members that differ between equal requests."""
    if isinstance(value, dict):
        return {k: 0 if k in PASSING else without_time(v) for k, v in value.items()}
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value):
        return "a random id of a conversation or a turn"
    return [without_time(one) for one in value] if isinstance(value, list) else value


def by_name(name: str) -> Operation:
    return next(call for call in OPERATIONS if call.name == name)
