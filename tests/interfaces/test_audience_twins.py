"""Documents outside a caller's audience change no byte of a reply over HTTP or MCP."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tests.interfaces.http_client import Client, Response, serve_library
from tests.interfaces.mcp_asking import Message, addresses, messages, result_of
from tests.interfaces.tenants import Names, Request, by_name, request, without_time
from tests.interfaces.tenants import requests as requests_of
from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.audience_twins import CALLERS, LATER, SECRETS, Twin, twins
from tests.support.worlds import STORES
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.types.request import Mode

CLOSED = ServerOptions(auth=AuthPolicy(needs_token=True), sessions=False)
QUERIES = ("who lit the lamp?", "zebra payroll", "lampp in the harbuor", '"the lamp burned"')
ASKING = ("search", "retrieve", "answer", "whyNot", "retrieveAsReader", "answerAsReader")
TALKING = ("startConversation", "startConversationAsReader")
WRITING = ("write", "administer")
JSON = [("content-type", "application/json")]
FILTERS: tuple[dict[str, Any], ...] = (
    {"chapter": "Nigth"}, {"chapter": "Payrol log"}, {"section": "Shipss"}, {"language": "de"},
    {"metadata": {"salary": 3}}, {"metadata": {"year": {"gt": 0}}}, {"tags": ["payroll"]},
    {"source": "*pay*"}, {"kinds": ["book"]}, {"version": "2.0"}, {"top_k": 1}, {"top_k": 20},
)  # fmt: skip
GOLDEN = """
- query: who lit the lamp?
  expected: [lamp.txt]
- query: zebra payroll
  expected: [pay.txt]
- query: what is in the log?
  expected: [log.md]
"""


@dataclass(frozen=True)
class Caller:
    """A token by its name, and the header `X-Truespan-Audience`, if it is sent."""

    token: str
    labels: str | None = None

    def send(self, server: "Server", sent: Request | Message) -> Response:
        """Send a request with the token and the labels of this caller."""
        client: Any = server.client if self.labels is None else Labelled(server.client, self.labels)
        return sent.sent(client, server.twin.tokens[self.token])


@dataclass(frozen=True)
class Labelled:
    client: Client
    labels: str

    def send(self, *given: Any, headers: Any = (), **others: Any) -> Response:
        spelled = [*headers, ("x-truespan-audience", self.labels)]
        return self.client.send(*given, headers=spelled, **others)


@dataclass(frozen=True)
class Server:
    twin: Twin
    client: Client


OWNER = Caller("the owner")
CALLING = (Caller("no label"), Caller("a reader"), Caller("an application", "group:legal,user:bob"))
ALL_CALLING = (
    *(Caller(name) for name in CALLERS),
    *CALLING[1:],
    Caller("an application"),
    Caller("two labels", "group:legal,group:hr"),
)


@proves("audience.every-interface", "audience.readers")
def test_hidden_documents_change_no_reply_over_http_and_mcp(tmp_path: Path) -> None:
    # PostgreSQL takes longer, and differs in the store alone.
    calling = in_test_or_prove(CALLING[1:2] if STORES[-1] == "postgres" else CALLING, ALL_CALLING)
    answered = compared = 0
    asked: list[Request | Message] = []
    with twins(tmp_path) as pair, ExitStack() as stack:
        plain, full = (
            Server(twin, stack.enter_context(serve_library(twin.lib.library, CLOSED)))
            for twin in pair
        )
        for number, change in enumerate(LATER, 1):
            change(full.twin.lib, full.twin.world)
            if number == len(LATER) or in_test_or_prove(False, number > 4):
                asked = requests(full.twin)
                for place, caller in enumerate(calling):
                    # Two callers who see little share the requests in `make test`.
                    shares = len(calling) > 1 and place < 2
                    own = asked[place::2] if in_test_or_prove(shares, False) else asked
                    compared += len(own)
                    answered += compare(plain, full, caller, own)
        told = [differs(plain, full, one) for one in asked if str(one).startswith("GET")]

    assert answered > compared // 4
    sent = {one.call.name for one in asked if isinstance(one, Request)}
    assert {call.name for call in OPERATIONS} - sent == {"deleteWorld", *TALKING}
    # The owner does see what only one of the two libraries has.
    assert sum(told) > 25


def compare(plain: Server, full: Server, caller: Caller, asked: list[Request | Message]) -> int:
    """Assert that both servers reply alike to a caller; return the number of successful replies."""
    answered = 0
    for one in asked:
        first, second = caller.send(plain, one), caller.send(full, one)
        assert shown(first) == shown(second), (caller, str(one), one)
        words = second.everything().decode("latin-1").lower()
        for secret in SECRETS:
            assert secret not in words or secret in repr(one), (caller, secret, one)
        answered += first.status == 200
    for name in TALKING:
        assert talk(plain, caller, name) == talk(full, caller, name), (caller, name)
    return answered


def differs(plain: Server, full: Server, one: Request | Message) -> bool:
    """Return whether the replies to the owner differ."""
    return shown(OWNER.send(plain, one)) != shown(OWNER.send(full, one))


def shown(response: Response) -> tuple[object, ...]:
    """Return a reply without times, random ids and the id of the token."""
    kept = [
        (name, re.sub("[0-9a-f]{32}", "a random id", value))
        for name, value in response.headers
        if name not in ("date", "content-length")
    ]
    content = response.header("content-type") or ""
    if "json" not in content and "event" not in content:
        return response.status, kept, re.sub(b"[0-9a-f]{32}", b"a random id", response.body)
    body = without_time(result_of(response))
    if isinstance(body, dict):
        # The id of the token; the id and the time of a reply in a chat.
        for name in ("token", "created"):
            body.pop(name, None)
        if str(body.get("id")).startswith("chatcmpl-"):
            del body["id"]
    return response.status, kept, body


def requests(full: Twin) -> list[Request | Message]:
    """Return each operation with names of each kind, and questions in all modes."""
    asked: list[Request | Message] = []
    known = list(names_of(full))
    for place, names in enumerate(known):
        asked += [
            one
            for call in OPERATIONS
            for one in requests_of(call, names)
            if call.name not in ("deleteWorld", *TALKING) and not (place > 1 and call.writes)
        ]
        path = addresses("world", names.reader)[1 + place % 2]
        asked += messages([path], QUERIES[1], names.book, names.document)
    for name, query, mode in product(ASKING, QUERIES, (Mode.HYBRID, Mode.VECTOR, Mode.KEYWORD)):
        call = by_name(name)
        body = {"query": query, "mode": mode, "signed": True}
        if name == "whyNot":
            body = {"query": query, "mode": mode, "chunk_id": known[1].chunk}
        target = request(call, known[0]).target
        asked.append(Request(call, target, JSON, json.dumps(body).encode()))
    asked += more_requests()
    return list({repr(one): one for one in asked}.values())


def more_requests() -> Iterator[Request]:
    """Yield requests whose replies suggest names, count, list, judge, or answer in a chat."""
    world = "/v1/worlds/world"
    for name, target, body in (
        *(("search", f"{world}/search", {"query": "lamp", **filters}) for filters in FILTERS),
        *(("retrieve", f"{world}/retrieve", {"query": "lamp", "near_misses": True, **filters})
          for filters in FILTERS),
        *(("completeChat", "/v1/chat/completions",
           {"model": f"truespan/{model}", "messages": [{"role": "user", "content": query}]})
          for model in ("world", "world@ann", "world@ben") for query in QUERIES[:2]),
        ("embedTexts", "/v1/embeddings", {"model": "truespan/world", "input": ["payroll"]}),
        ("evaluate", f"{world}/evaluate", {"golden": GOLDEN, "modes": ["hybrid", "vector"]}),
        ("retrieveAsReader", f"{world}/readers/ann/retrieve", {"query": "a note on the payroll"}),
    ):  # fmt: skip
        yield Request(by_name(name), target, JSON, json.dumps(body).encode())
    for name, target in (
        *(("listDocuments", f"{world}/documents?{query}")
          for query in ("search=pay", "search=lamp", "offset=1", "tags=%5B%22payroll%22%5D")),
        *(("countFacets", f"{world}/facets?keys=%5B%22{key}%22%5D")
          for key in ("salary", "year", "tags")),
        *(("listNotes", f"{world}/readers/{reader}/notes?search=payroll")
          for reader in ("ann", "ben")),
        ("listChunks", f"{world}/documents/night.md/chunks"),
    ):  # fmt: skip
        yield Request(by_name(name), target, [], None)


def names_of(full: Twin) -> Iterator[Names]:
    """Yield names of visible things, and of hidden ones by name, id and number."""
    world, hr = full.world, full.world.for_audience(["group:hr"])
    (picture,) = (part.image_ref for part in world.documents.sentences("payroll.docx").figures)
    pay, log = world.documents.get("pay.txt"), world.documents.get("log.md")
    chunk, hidden = (
        str(world.documents.chunks(name).chunks[0].chunk_id) for name in ("night.md", "log.md")
    )
    job, record = world.jobs.list()[0].id, world.usage()[0].id
    seen = Names("world", "night.md", chunk, "none.png", job, record, "ann", "1", "lamp.txt", "d")
    yield seen
    yield seen.changed(
        document="pay.txt", chunk=hidden, image_ref=picture or "", reader="ben", book="log.md",
        conversation=hr.conversations()[0].id,
        readers_conversation=world.reader("ann").conversations()[0].id,
        note=world.reader("ann").notes.list(book="log.md")[0].id,
    )  # fmt: skip
    yield seen.changed(document=pay.doc_id, reader="cleo", book=log.doc_id)
    yield seen.changed(
        document=str(pay.number), book=str(log.number), image_ref=f"{pay.doc_id}/1.png"
    )
    yield seen.changed(document="log", book="log", reader="nobody")


def talk(server: Server, caller: Caller, name: str) -> list[tuple[object, ...]]:
    """Return the replies of a conversation: its turns, its list, exports, and its deletion."""
    begin = by_name(name)
    target = begin.path.replace("{world}", "world").replace("{reader}", "ann")
    question = json.dumps({"query": QUERIES[0]}).encode()
    begun = caller.send(server, Request(begin, target, JSON, question))
    if begun.status != 200:
        return [shown(begun)]
    own = f"{target}/{begun.content['conversation']}"
    replies = [begun]
    for method, path, body in (
        ("POST", f"{own}/turns", json.dumps({"query": "and the zebra at night?"}).encode()),
        ("GET", target, None),
        ("GET", own, None),
        ("DELETE", target, None),
        ("GET", own, None),
    ):
        call = next(one for one in OPERATIONS if one.method == method)
        replies.append(caller.send(server, Request(call, path, JSON if body else [], body)))
    return [shown(reply) for reply in replies]
