"""Laws of answers: records explain their decision, and quotes are verbatim."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples, in_test_or_prove
from tests.promises import proves
from tests.support.answer_worlds import Scripted, scored, study
from tests.unit.sources import source
from truespan.answers.quotes import check_quotes
from truespan.answers.verbatim import fold
from truespan.engine.world import World
from truespan.errors import InvalidConfiguration
from truespan.types.answer import UsageRecord
from truespan.types.decision import AnswerMode
from truespan.types.text import SentenceRange
from truespan.types.trust import Visible
from truespan.wire.serialize import to_json

REPLIES = ["It hung there [1].", "", "NO_CONTEXT", " \n", "“Passage 3.” [2, 7]", "no_context."]
QUERIES = ["keys", "who held it", "who held it now", "Who held the spare key to the hut?"]
REQUESTS = 60


@proves("decision.explain-logged", "decision.used-among-retrieved", "decision.metadata-sorted")
@pytest.mark.parametrize("seed", range(in_test_or_prove(3, 6)))
def test_every_record_has_the_decision_of_its_answer(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    room = study(tmp_path, primary=Scripted(""), fallback=Scripted(""))
    room.add(
        **{
            f"p{n}__txt": scored(rng.choice([0.25, 0.5, 0.55, 0.58, rng.random()]), f"Passage {n}.")
            for n in range(30)
        }
    )
    answered = 0
    for _ in range(REQUESTS):
        world = random_world(room, rng)
        if world is None:
            continue
        room.primary.replies, room.fallback.replies = (
            [[rng.choice(REPLIES)]],
            [[rng.choice(REPLIES)]],
        )
        answer = world.answer(rng.choice(QUERIES), mode="hybrid" if rng.random() < 0.2 else None)
        answered += 1
        [record] = world.usage(limit=1)
        kept = msgspec.convert(plain(record), UsageRecord)
        assert (kept.id, kept.mode) == (answer.record, answer.mode)
        explained = {**answer.decision_explain, "effective_query": None}
        assert {**kept.decision_explain, "effective_query": None} == explained
        retrieved = [note.chunk_id for note in answer.retrieved_chunks_metadata]
        assert set(answer.used_chunks) <= set(retrieved)
        scores = [note.similarity for note in answer.retrieved_chunks_metadata]
        assert scores == sorted(scores, reverse=True)
        assert (answer.mode is AnswerMode.FALLBACK) == (not answer.used_chunks)

    assert answered > REQUESTS // 3


def random_world(room: Any, rng: Random) -> World | None:
    """Return the world under random rules; None if the rules are contradictory."""
    low, high = sorted((rng.random(), rng.random()))
    rules = rng.choice(
        [
            {},
            {"threshold_low": low, "threshold_high": high},
            {"max_chunks": rng.randint(1, 4), "max_context_chars": rng.randint(150, 900)},
            {"min_chunks_for_hybrid": rng.randint(0, 6), "min_total_context_chars": 400},
            {"min_similarity_for_hybrid": rng.random() / 2, "short_query_max_tokens": 0},
            {"score_mode": "raw", "raw_cosine_low": low, "raw_cosine_high": high},
        ]
    )
    try:
        return room.with_rules(**rules)
    except InvalidConfiguration:
        return None


def plain(record: Any) -> Any:
    return msgspec.json.decode(to_json(record))


WORDS = ["the", "key", "hung", "on", "hook", "seven", "nobody", "took", "it"]
words = st.lists(st.sampled_from(WORDS), min_size=4)


def sids(chunk: Visible, last: int, start: int, end: int) -> SentenceRange:
    assert chunk.start <= start < end
    assert last >= chunk.first_sid
    return SentenceRange(chunk.first_sid, chunk.last_sid)


@given(words, st.data())
def test_words_taken_from_a_source_are_verified_and_others_are_not(
    spoken: list[str], data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(spoken) - 2))
    end = data.draw(st.integers(begin + 1, len(spoken)))
    chunk = source(" ".join(spoken))
    taken = data.draw(st.sampled_from([" ", "\n", "  "])).join(spoken[begin:end])
    changed = " ".join([*spoken[begin:end], "landlady"])

    assert check_quotes(f"“{taken}”", [chunk], sids).found[0].verified
    assert not check_quotes(f"“{changed}”", [chunk], sids).found[0].verified


WHOLE = ["part", "well-known", "can't", "nai\u0308ve", "1.5", "-5", "\u22125", "1,500", "12:30"]
WHOLE += [
    "$5",
    "-$5",
    "5%",
    "5\u00b0",
    "10\u201315",
    "2024-05-12",
    "foo_bar",
    "\u0663\u066b\u0665",
    "+7",
]
WHOLE += [
    "\u043f'\u044f\u0442\u044c",
    "\u0938\u0940\u0924\u093e",
    "mis\u00adtrust",
    "1\u202f500",
    "<9",
    ".5",
]


@given(st.lists(st.sampled_from(WHOLE), min_size=1, max_size=6), st.data())
@examples(200)
def test_quote_that_cuts_a_word_or_a_number_is_not_verified(
    tokens: list[str], data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(tokens) - 1))
    end = data.draw(st.integers(begin + 1, len(tokens)))
    chunk = source(f"So {' '.join(tokens)} it is.")
    taken = " ".join(tokens[begin:end])
    short = data.draw(st.integers(1, len(tokens[begin]) - 1))
    clipped = data.draw(st.integers(1, len(tokens[end - 1]) - 1))
    runs = {
        fold(" ".join(tokens[first:last]))[0]
        for first in range(len(tokens))
        for last in range(first + 1, len(tokens) + 1)
    }

    assert check_quotes(f"\u201c{taken}\u201d", [chunk], sids).found[0].verified
    for cut in (taken[short:], taken[:-clipped]):
        found = check_quotes(f"\u201c{cut}\u201d", [chunk], sids).found
        # What is left may itself be a token elsewhere in the text, or a mark without any word.
        assert not any(quote.verified for quote in found) or fold(cut)[0] in runs


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_answer_breaks_the_quote_check(answer: str, text: str) -> None:
    found = check_quotes(answer, [source(text or "x")], sids)

    for start, end in found.literal:
        assert 0 <= start < end <= len(answer)
