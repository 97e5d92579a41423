"""Real model servers: a library is ingested, searched and asked through them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import truespan
from tests.real.conftest import address
from truespan.types.decision import AnswerMode

TEXTS = {
    "otter.txt": "The otter sleeps in the boathouse by day and swims in the river by night.",
    "ledger.txt": "The ledger lists the price of wheat for every market day since the flood.",
    "lamp.txt": "The lamp on the pier is lit with whale oil, and goes out before sunrise.",
}
QUESTION = "Where does the otter sleep during the day?"


def use(provider: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Choose a provider; return whether a chat model is named as well."""
    url = address(variable)
    monkeypatch.setenv("TRUESPAN_EMBEDDING_PROVIDER", provider)
    monkeypatch.setenv(f"TRUESPAN_{provider.upper()}_BASE_URL", url)
    if not os.environ.get("TRUESPAN_CHAT_MODEL"):
        return False
    monkeypatch.setenv("TRUESPAN_CHAT_PROVIDER", provider)
    return True


@pytest.mark.parametrize(
    ("provider", "variable"), [("ollama", "OLLAMA_BASE_URL"), ("openai", "OPENAI_BASE_URL")]
)
def test_documents_are_found_and_questions_answered(
    provider: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = use(provider, variable, monkeypatch)
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.world("notes", create=True)
        world.ingest([str(tmp_path / name) for name in TEXTS])
        found = world.search(QUESTION, top_k=1, floor=0.0).passages
        answer = world.answer(QUESTION)
    with truespan.open(tmp_path / "library") as library:
        again = library.world("notes").search(QUESTION, top_k=1, floor=0.0).passages

    assert [one.source for one in found] == ["otter.txt"]
    assert [one.score for one in again] == [one.score for one in found]
    assert answer.answer.strip()
    if not chat:
        assert answer.mode is not AnswerMode.FALLBACK
