"""The support check in whole answers: who is checked, what is warned of, which model embeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.promises import proves
from tests.support.answer_worlds import QUESTION, ScoreEmbedder, Scripted, Study, scored, study
from tests.support.worlds import other_profile
from truespan.answers.respond import MAX_CHECKED
from truespan.errors import ProviderUnavailable
from truespan.tables import tables
from truespan.types.answer import Answer
from truespan.types.vectors import Vector

FAR = "Guests dance under purple lanterns all evening [1]."


def room(folder: Path, reply: str, **parts: Any) -> Study:
    made = study(folder, primary=Scripted(reply), **parts)
    made.add(a__txt=scored(0.8, "The key hangs on hook seven. Anna Reed took it in 1904."))
    return made


def codes(answer: Answer) -> set[str]:
    return {notice.code for notice in answer.warnings}


@proves("support.sentences")
def test_sentences_of_a_model_are_checked_and_the_answer_warns(tmp_path: Path) -> None:
    reply = "The key hangs on hook seven [1]. Otto Brand took it in 1904 [1]."
    answer = room(tmp_path, reply).world.answer(QUESTION)

    assert answer.support is not None
    assert (answer.support.score, answer.support.claims) == (0.5, 2)
    assert [part.supported for part in answer.support.sentences] == [True, False]
    assert answer.support.sentences[1].missing == ("Otto", "Brand")
    assert "unsupported_sentence" in codes(answer)
    assert "uncited_answer" not in codes(answer)
    assert msgspec.to_builtins(answer)["support"]["sentences"][1]["reasons"] == ("name_not_found",)


@proves("support.sentences")
def test_without_the_support_check_an_answer_says_that_it_was_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables(), "answer_checks", {})

    answer = room(tmp_path, "The key hangs on hook seven [1].").world.answer(QUESTION)

    assert answer.support is None
    assert "reply_not_checked" in codes(answer)


@proves("support.sentences")
def test_long_reply_is_checked_in_part(tmp_path: Path) -> None:
    reply = "It was on 3 May 1871. " * 800
    answer = room(tmp_path, reply).world.answer(QUESTION)

    assert answer.answer == reply.strip()
    assert "reply_checked_in_part" in codes(answer)
    assert answer.support is not None
    assert 0 < answer.support.sentences[-1].end <= MAX_CHECKED < len(reply)


@proves("support.sentences")
def test_without_a_model_there_is_no_support_in_the_answer_nor_in_json(tmp_path: Path) -> None:
    made = study(tmp_path)
    made.add(a__txt=scored(0.8))

    for answer in (made.world.answer(QUESTION), study(tmp_path / "empty").world.answer(QUESTION)):
        assert answer.support is None
        assert "support" not in msgspec.to_builtins(answer)


@proves("support.sentences")
@pytest.mark.parametrize(
    ("reply", "warned"),
    [
        ("The key hangs on hook seven.", {"uncited_answer"}),
        ("The key hangs on hook seven [8].", {"uncited_answer", "unknown_citation"}),
        ("I do not know.", set()),
        ("It says “on hook nine” [1].", {"no_verified_quote", "unverified_quote"}),
        ("It says “on hook seven” [1], “on hook nine” [1].", {"unverified_quote"}),
    ],
)
def test_an_answer_that_cites_nothing_or_whose_quotes_all_fail_is_marked(
    tmp_path: Path, reply: str, warned: set[str]
) -> None:
    found = codes(room(tmp_path, reply).world.answer(QUESTION))

    assert found - {"unsupported_sentence", "thresholds_not_calibrated"} == warned


@proves("support.sentences")
def test_an_answer_from_memory_is_supported_by_nothing(tmp_path: Path) -> None:
    made = study(tmp_path, fallback=Scripted("Vienna is old. It lies on a river."))
    made.scores(0.1)

    answer = made.world.answer(QUESTION)

    assert answer.support is not None
    assert (answer.support.score, answer.support.claims) == (0.0, 2)
    assert {str(why) for part in answer.support.sentences for why in part.reasons} == {
        "cites_nothing"
    }


@proves("support.linear")
def test_only_a_measured_or_chosen_floor_embeds_sentences(tmp_path: Path) -> None:
    embedder = ScoreEmbedder(profile=other_profile(dimensions=4))
    made = room(tmp_path, FAR, embedder=embedder)
    ingested = len(embedder.documents)

    plain = made.world.answer(QUESTION).support
    assert len(embedder.documents) == ingested
    off = made.with_rules(support_floor=1.0).answer(QUESTION).support
    assert len(embedder.documents) == ingested
    # Both texts have the same vector under this embedder.
    near = made.with_rules(support_floor=0.5).answer(QUESTION).support
    assert embedder.documents[ingested] == FAR.replace(" [1]", "")

    assert plain is not None
    assert plain == off
    assert [str(why) for why in plain.sentences[0].reasons] == ["words_not_found"]
    assert near is not None
    assert near.score == 1.0


class Failing(ScoreEmbedder):
    """Embeds documents while they are ingested, and fails afterwards."""

    broken = False

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if self.broken:
            raise ProviderUnavailable("It is down.")
        return super().embed_documents(texts)


@proves("support.sentences")
def test_an_embedder_that_fails_withholds_no_answer(tmp_path: Path) -> None:
    embedder = Failing(profile=other_profile(dimensions=4))
    made = room(tmp_path, FAR, embedder=embedder)
    embedder.broken = True

    answer = made.with_rules(support_floor=0.5).answer(QUESTION)

    assert answer.answer == FAR
    assert "support_by_words" in codes(answer)
    assert answer.support is not None
    assert [str(why) for why in answer.support.sentences[0].reasons] == ["words_not_found"]
