"""Whole conversations of readers: nothing that was not read has any influence on them.

Two books differ after a common beginning. A reader of each goes through the same script of ten
turns, forwards and backwards, at times into the part that differs. At each step within the
beginning, all that the two get must be the same, apart from ids: the answer, the turns, the title,
lists, exports, and the prompts of the chat model. The model remembers how its own book ends, and
tries to put that into each question that it rewrites.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.answer_worlds import Study, study
from tests.support.providers import Asked, Reaction
from tests.support.providers.chat import OpenAiChatServer, openai_chat
from tests.support.reading_worlds import common, stored
from tests.support.worlds import WordEmbedder
from truespan.engine.conversations import Conversation
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import NotFound
from truespan.text.alignment import Alignment
from truespan.types.answer import Answer
from truespan.types.conversation import ConversationRules
from truespan.wire.serialize import to_json

TURNS = 10
NAMES = ("Anna", "Bertil", "Carla", "Dorian", "Edda", "Falk")
THINGS = ("lamp", "boat", "letter", "harbour", "key", "ring")
DEEDS = ("found", "hid", "took", "painted", "sold", "dropped")
QUESTIONS = (
    "Who {deed} the {thing}?", "Where did {name} go with the {thing} and the {other}?",
    "And why did he do that?", "And then?", "What about the {thing}?",
    "Did she tell {name} of it?",
)  # fmt: skip
_IDS = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|(?<=\"record\": \")[0-9a-f]{12}"
)


class KnowingServer(OpenAiChatServer):
    """A chat model that repeats its prompt, and knows the end of its book."""

    def __init__(self, memory: str) -> None:
        super().__init__()
        self.memory = memory
        self.told: list[str] = []

    def answer(self, asked: Asked) -> Reaction:
        words = "\n".join(message["content"] for message in asked.content["messages"])
        self.told.append(words)
        if "LAST QUESTION" in words:
            return self.saying([*self.spoken(f"Did {self.memory} take the lamp?"), self.end()])
        told = " ".join(asked.content["messages"][-1]["content"].split()[:120])
        return self.saying([*self.spoken(f"They say {told} [1]."), self.end()])


@dataclass
class Step:
    """One turn of a script: its position, its question, and whether both readers must agree."""

    sid: int
    query: str
    compared: bool
    fresh: bool
    """Whether it begins another conversation."""


@dataclass
class Side:
    """One of the two readers."""

    made: Study
    world: World
    server: KnowingServer | None
    conversations: list[Conversation] = field(default_factory=list)

    def ask(self, step: Step) -> Iterator[tuple[str, str]]:
        """Run one step, and return everything that the reader gets from it."""
        reader = self.world.reader("ann")
        reader.set_position("book.txt", sentence=step.sid)
        before = len(self.server.told) if self.server else 0
        if step.fresh or not self.conversations:
            self.conversations.append(reader.conversation())
        try:
            answer = self.conversations[-1].ask(step.query)
        except NotFound as refusal:
            refusal.raise_unless("conversation_not_found")
            # None of its turns is visible here, as if it had never begun.
            self.conversations.append(reader.conversation())
            answer = self.conversations[-1].ask(step.query)
        current = self.conversations[-1]
        if not step.compared:
            return
        yield "answer", to_json(answer)
        yield "prompts", "\n\n".join(self.server.told[before:]) if self.server else ""
        # An object that is opened again sees what the one that asked sees.
        again = reader.conversation(current.id)
        yield "turns", to_json(again.turns())
        yield "info", to_json(again.info())
        yield "export", to_json(current.export())
        yield "markdown", current.to_markdown()
        yield "list", to_json(reader.conversations())
        yield "page", to_json(reader.conversations(limit=1, offset=1))
        for earlier in self.conversations[:-1]:
            try:
                yield "earlier", to_json(reader.conversation(earlier.id).export())
            except NotFound as error:
                error.raise_unless("conversation_not_found")
                yield "earlier", str(error)


def without_ids(text: str) -> str:
    """Return a text with each id replaced by the order of its first occurrence."""
    known: dict[str, str] = {}
    return _IDS.sub(lambda found: known.setdefault(found[0], f"id {len(known)}"), text)


def sentence(rng: Random) -> str:
    name, other = rng.sample(NAMES, 2)
    return f"{name} {rng.choice(DEEDS)} the {rng.choice(THINGS)} of {other}."


def ending(rng: Random, canary: str) -> list[str]:
    deeds = (f"{canary}{n} {rng.choice(DEEDS)} the {rng.choice(THINGS)}." for n in range(12))
    return [*deeds]


def book(*paragraphs: list[str]) -> str:
    return "Chapter One\n\n" + "\n\n".join(" ".join(part) for part in paragraphs) + "\n"


def script(rng: Random, last: int, end: int) -> list[Step]:
    """Write a script that passes the common part and returns."""
    steps = []
    ahead = {*rng.sample(range(1, TURNS - 1), 3)}
    for number in range(TURNS):
        compared = number not in ahead
        sid = rng.randint(1, last) if compared else rng.randint(last + 1, end)
        query = rng.choice(QUESTIONS if number else QUESTIONS[:2])
        words = {"name": rng.choice(NAMES), "deed": rng.choice(DEEDS)}
        thing, other = rng.sample(THINGS, 2)
        query = query.format(**words, thing=thing, other=other)
        steps.append(Step(sid, query, compared, number in (4, 7) and compared))
    return steps


def run(folder: Path, seed: int, *, model: bool, change: str) -> list[str]:
    """Run one script on both sides, and return the differences."""
    rng = Random(seed)
    beginning = [[sentence(rng) for _ in range(rng.randint(2, 5))] for _ in range(6)]
    with ExitStack() as servers:
        sides = []
        for canary in ("Zarkon", "Quirrel"):
            server = servers.enter_context(KnowingServer(canary)) if model else None
            primary = openai_chat(server) if server else None
            made = study(folder / canary, embedder=WordEmbedder(), primary=primary)
            text = book(*beginning, ending(Random(seed), canary))
            made.world.ingest([made.lib.write("book.txt", text)], kind="book", title="The Book")
            # One side stores more turns, and all that only that side has must not count.
            rules = ConversationRules(turns=2 if change == "never ahead" else 200)
            parts = replace(made.library._components, conversations=rules)
            sides.append(Side(made, Library(parts).world("world"), server))
        left, right = (stored(side.made.lib, side.made.world, 1) for side in sides)
        last = common(left.texts, right.texts)
        found = []
        for number, step in enumerate(script(rng, last, len(left.texts) - 1)):
            if change == "replaced" and number == 6:
                # Only the one book gets a new revision; its readers must not notice.
                new = book(*beginning, ending(Random(seed + 1), "Vorlan"))
                path = sides[0].made.lib.write("book.txt", new)
                sides[0].made.world.ingest([path], kind="book", title="The Book")
            chosen = sides[:1] if change == "never ahead" and not step.compared else sides
            told = [[(name, without_ids(text)) for name, text in side.ask(step)] for side in chosen]
            for one, other in zip(*told, strict=True) if len(told) == 2 else ():
                where = f"seed {seed}, {change}, model {model}, step {number}, {one[0]}"
                if one != other:
                    found.append(f"{where}:\n{difference(one[1], other[1])}")
                if re.search("Zarkon|Quirrel|Vorlan", one[1] + other[1]):
                    found.append(f"{where} tells of what is ahead")
    return found


def difference(one: str, other: str) -> str:
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    return "\n".join(f"- {left}\n+ {right}" for left, right in pairs if left != right)[:600]


CASES = [
    (True, "none"),
    (True, "replaced"),
    (True, "never ahead"),
    (False, "replaced"),
    *in_test_or_prove([], [(False, "none"), (False, "never ahead")]),
]


@proves("conversations.non-interference")
def test_conversation_does_not_depend_on_unread_text(tmp_path: Path) -> None:
    wrong = []
    for seed in range(in_test_or_prove(1, 40)):
        for number, (model, change) in enumerate(CASES):
            folder = tmp_path / f"{seed}-{number}"
            wrong += run(folder, seed * len(CASES) + number, model=model, change=change)
    assert wrong == [], "\n".join(wrong[:5])


def keep(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


@proves("conversations.non-interference")
@pytest.mark.parametrize(
    ("guard", "first"), [("position", 1), ("history", 1), ("rewrite", 0), ("revision", 5)]
)
def test_law_detects_each_missing_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guard: str, first: int
) -> None:
    """Each guard is removed once, to show that the law tests it. Not every script reaches a guard,
    so the first that does is tried first."""
    change = "none"
    if guard == "position":
        # Turns of any position are visible.
        monkeypatch.setattr(
            "truespan.store.tables.conversations._VISIBLE",
            "t.world_id = :world AND t.asked_at >= :oldest",
        )
        monkeypatch.setattr("truespan.engine.conversations._Seen.is_visible_in", keep(True))
    elif guard == "history":
        # The model gets later turns, although no caller sees them.
        find = Conversation._find_book

        def further(self: Conversation, book: str | None) -> Any:
            found = find(self, book)
            asking = self.__dict__.pop("_asking", False)
            return replace(found, sid=10_000) if found and asking else found

        look = Conversation._look

        def looking(self: Conversation) -> Any:
            self.__dict__["_asking"] = True
            return look(self)

        monkeypatch.setattr(Conversation, "_find_book", further)
        monkeypatch.setattr(Conversation, "_look", looking)
        monkeypatch.setattr("truespan.engine.conversations._Seen.is_visible_in", keep(True))
    elif guard == "rewrite":
        monkeypatch.setattr("truespan.engine.answering.is_accepted", keep(True))
    else:
        # Turns move as positions do: to the last sentence that both revisions have.
        monkeypatch.setattr(Alignment, "move_all", Alignment.move)
        change = "replaced"
    found: list[str] = []
    for seed in range(first, first + 12):
        if not found:
            found = run(tmp_path / str(seed), seed, model=True, change=change)
    assert found, f"nothing was found without the guard {guard!r}"


def test_answer_outside_a_conversation_ignores_it(tmp_path: Path) -> None:
    made = study(tmp_path, embedder=WordEmbedder())
    made.add(a__txt="Anna found the lamp of Bertil.")

    answer: Answer = made.world.answer("Who found the lamp?")

    assert "conversation" not in to_json(answer)
    assert "conversation" not in answer.decision_explain
