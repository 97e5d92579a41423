"""Replies as they come: what is held back, for how long, and what counts as no answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from truespan.answers.reply import MOST_HELD, Reply, outcome_of

BLANK = ["", " ", "\n\n\t", "\u200b\u00a0\ufeff", "...", "***", "```\n```", "> ", "—", '""']
NO_CONTEXT = [
    "NO_CONTEXT",
    "no_context",
    " No_Context.\n",
    "**NO_CONTEXT**",
    "`NO_CONTEXT`",
    "```\nNO_CONTEXT\n```",
    "“NO_CONTEXT”!",
    "> NO_CONTEXT",
    "- NO\\_CONTEXT",
    "NO CONTEXT",
    "NO-CONTEXT",
    "NOCONTEXT",
    "[NO_CONTEXT]",
    "NO_CONTEXT\n\nThe sources are about something else.",
    "\n\n# NO_CONTEXT #\n",
    "NO_CONTEXT [1]",
    "NO_CONTEXT [1, 2]. [3]",
    "NO_CONTEXT \u30101\u3011",
    "Answer: NO_CONTEXT",
    "**Final answer**: NO_CONTEXT.",
    "**Answer:** `NO_CONTEXT`",
    "उत्तर: NO_CONTEXT",
    "Answer:\n\nNO_CONTEXT [1]",
    "NO_CONTEXT: The sources do not say.",
    "NO_CONTEXT - The sources do not say.",
    "**NO_CONTEXT** \u2014 the sources do not say.",
]
ANSWERS = [
    "Yes.",
    "No.",
    "no",
    "7",
    "👍",
    "€",
    "鍵",
    "No context is given in the first chapter.",
    "NO_CONTEXT is what I would say, but [1] tells it.",
    "The file says NO_CONTEXT.",
    "NO_CONTEXTS",
    "NO_CONTEXT1",
    "NO_CONTEXT. The sources tell of ships.",
    "Nothing.",
    "Not one of them.",
    "No, context matters.",
    "Answer: No context is given.",
    "Answer: The key.",
    "Answer",
    "A",
    "A key: the red one.",
    "The",
    "Answer:",
    "The file says: NO_CONTEXT",
    "NO_CONTEXT-free text.",
    "NO_CONTEXT [sic] is what it says.",
    "NO_CONTEXT [1] is what it says.",
    "a < b",
    "<b>Yes</b>",
    "<thinker> is a tag",
    "<th",
]
THOUGHT = [
    "<think>She did it.</think>",
    " \n<THINK>\nShe did it.\n</Think>\n\n",
    "<thinking>a < b </think> <</thinking>",
    "<reasoning >She.</reasoning >",
    "<think></think><think>Twice.</think>",
    "\ufeff<think>She.</think>",
]


def kind(text: str) -> str:
    found = outcome_of(text, whole=True)
    assert found is not None
    return found.value


@pytest.mark.parametrize("text", BLANK)
def test_a_reply_without_a_word_is_blank(text: str) -> None:
    assert kind(text) == "blank"


@pytest.mark.parametrize("text", NO_CONTEXT)
def test_no_context_counts_whatever_is_around_it(text: str) -> None:
    assert kind(text) == "no_context"


@pytest.mark.parametrize("text", ANSWERS)
def test_a_sentence_that_only_mentions_it_is_an_answer(text: str) -> None:
    assert kind(text) == "answered"


@pytest.mark.parametrize("text", [*BLANK, *NO_CONTEXT, *ANSWERS])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_the_pieces_a_reply_comes_in_do_not_matter(text: str, size: int) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    reply = Reply(iter(pieces))

    assert reply.outcome == kind(text)
    if reply.outcome == "answered":
        assert "".join(reply.pieces()) == text.strip()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("thought", THOUGHT)
@pytest.mark.parametrize("text", ["", "\n", "NO_CONTEXT", "Yes, <think>it</think> is."])
def test_what_a_model_thinks_first_is_no_part_of_its_reply(
    text: str, thought: str, size: int
) -> None:
    whole = thought + text
    reply = Reply(whole[start : start + size] for start in range(0, len(whole), size))

    assert reply.outcome == kind(text)
    if reply.outcome == "answered":
        assert "".join(reply.pieces()) == text


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize(
    "text", ["<think>She did it.", "<think", "<Reasoning>a</think>b", "<think>"]
)
def test_thoughts_that_never_end_are_a_blank_reply(text: str, size: int) -> None:
    reply = Reply(text[start : start + size] for start in range(0, len(text), size))

    assert reply.outcome == ("answered" if text == "<think" else "blank")


def test_a_thought_ends_the_request_to_the_model_when_nobody_listens() -> None:
    source = Source("<think>a", "b</think>", "The key hangs there", " still")
    reply = Reply(iter(source))

    assert reply.outcome == "answered"
    assert source.fetched == 3
    assert next(reply.pieces()) == "The key hangs there"
    reply.close()
    assert source.closed


@pytest.mark.parametrize("text", ANSWERS)
def test_what_is_told_early_stays_true(text: str) -> None:
    for end in range(len(text) + 1):
        early = outcome_of(text[:end], whole=False)
        assert early in (None, "answered")


class Source:
    """Pieces that are counted as they are fetched."""

    def __init__(self, *pieces: str) -> None:
        self.fetched = 0
        self.closed = False
        self._pieces = pieces

    def __iter__(self) -> Iterator[str]:
        try:
            for piece in self._pieces:
                self.fetched += 1
                yield piece
        finally:
            self.closed = True


def test_nothing_is_fetched_past_the_piece_that_settles_it() -> None:
    source = Source(" ", "**", "N", "O_", "CON", "TAINERS", " were found.")
    reply = Reply(iter(source))

    assert reply.outcome == "answered"
    assert source.fetched == 6
    pieces = reply.pieces()
    assert next(pieces) == "**NO_CONTAINERS"
    assert source.fetched == 6
    assert list(pieces) == [" were found."]


def test_a_reply_that_is_none_ends_the_request_at_once() -> None:
    source = Source("NO_CONTEXT", "\n", "and ", "so ", "on")

    reply = Reply(iter(source))

    assert reply.outcome == "no_context"
    assert (source.fetched, source.closed) == (2, True)


def test_white_space_without_end_is_blank() -> None:
    source = Source(*([" " * 100] * 1000))

    assert Reply(iter(source)).outcome == "blank"
    assert source.fetched <= MOST_HELD // 100 + 1


def test_white_space_around_a_reply_is_not_part_of_it() -> None:
    reply = Reply(iter([" \n", "One ", "\n", " two.", " ", "\n"]))

    assert reply.outcome == "answered"
    assert list(reply.pieces()) == ["One", " \n two."]


def test_what_no_file_could_hold_is_replaced() -> None:
    reply = Reply(iter(["Yes \ud83d", "!"]))

    assert reply.outcome == "answered"
    assert "".join(reply.pieces()) == "Yes \ufffd!"
