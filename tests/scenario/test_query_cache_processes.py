"""Processes that share the query cache of a library with a network provider."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import truespan
from tests.promises import proves
from tests.support.forked_process import ForkedProcess
from tests.support.providers.loopback import Answer
from tests.support.providers.openai import OpenAi

QUESTIONS = ("harbour", "water", "light", "quay", "lamp")
KILLED = -9

CHILD = """
import os, signal, sys
import truespan
from truespan.errors import ModelDrifted

folder, survived, *questions = sys.argv[1:]
with truespan.open(folder) as library:
    for number, question in enumerate(questions, 1):
        try:
            library.world("world").search(question, floor=0.0)
        except ModelDrifted:
            sys.exit(5)
        if number == int(survived):
            os.kill(os.getpid(), signal.SIGKILL)
"""


class ReplaceableModel(OpenAi):
    """Embeds with another model of the same name once `replaced`."""

    replaced = False

    def reply(self, vectors: list[list[float]], **more: object) -> Answer:
        return super().reply([v[::-1] for v in vectors] if self.replaced else vectors, **more)

    def embedded(self, questions: tuple[str, ...]) -> list[str]:
        """Return the questions that were sent, in order; the texts of model checks are left out."""
        return [text for sent in self.embeds for text in sent["input"] if text in questions]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ReplaceableModel]:
    with ReplaceableModel() as running:
        for name, value in {
            "embedding_provider": "openai",
            "openai_base_url": running.base,
            "openai_keyless": "true",
        }.items():
            monkeypatch.setenv(f"TRUESPAN_{name.upper()}", value)
        with truespan.open(tmp_path, create=True) as library:
            world = library.create_world("world")
            world.add_text("The harbour was quiet. A light moved on the water.", title="a")
        yield running


def ask(folder: Path, *questions: str, survived: int = 0) -> int:
    """Ask questions in a new process, which kills itself after `survived` of them if that is set.

    Returns its exit status, 5 if the model has changed.
    """
    process = ForkedProcess(
        [sys.executable, "-c", CHILD, str(folder), str(survived), *questions],
        stderr=subprocess.PIPE,
        text=True,
    )
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 5, KILLED), errors
    return process.returncode


@proves("cache.younger-than-a-day")
@pytest.mark.parametrize("survived", [1, 2, 5])
def test_question_is_sent_once_despite_a_killed_process(
    tmp_path: Path, server: ReplaceableModel, survived: int
) -> None:
    assert ask(tmp_path, *QUESTIONS, survived=survived) == KILLED
    assert server.embedded(QUESTIONS) == list(QUESTIONS[:survived])

    assert ask(tmp_path, *QUESTIONS) == 0
    assert ask(tmp_path, *QUESTIONS) == 0

    assert server.embedded(QUESTIONS) == list(QUESTIONS)


@proves("cache.younger-than-a-day")
def test_check_by_a_second_process_covers_earlier_questions(
    tmp_path: Path, server: ReplaceableModel
) -> None:
    requests: list[int] = []
    for _ in range(4):
        before = len(server.embeds)
        ask(tmp_path, *QUESTIONS)
        requests.append(len(server.embeds) - before)

    # A process that needs the provider learns the dimensions, and checks the model once. The check
    # of the second process covers the questions of the first.
    assert requests == [len(QUESTIONS) + 2, 2, 0, 0]


@proves("cache.other-model-misses")
def test_replaced_model_is_noticed_before_its_vectors_are_used(
    tmp_path: Path, server: ReplaceableModel
) -> None:
    first, *others = QUESTIONS
    ask(tmp_path, first)
    server.replaced = True
    assert ask(tmp_path, others[0]) == 5
    server.replaced = False
    ask(tmp_path, *others)
    server.replaced = True

    assert ask(tmp_path, first) == 0
    assert ask(tmp_path, first, others[1]) == 5

    # Vectors that no check covered are gone, also if the first model comes back.
    server.replaced = False
    before = len(server.embedded(QUESTIONS))
    assert ask(tmp_path, *QUESTIONS) == 0
    assert server.embedded(QUESTIONS)[before:] == others[1:]
