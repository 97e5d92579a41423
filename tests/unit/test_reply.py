"""Streamed replies: delayed text, and replies without an answer."""

from collections.abc import Iterator

from tests.support.rows import each_row
from truespan.answers.reply import MAX_HELD, MAX_UNCERTAIN, Reply, mentions_marker, outcome_of

BLANK = ["", " ", "\n\n\t", "\u200b\u00a0\ufeff", "...", "***", "```\n```", "> ", "—", '""']
NO_CONTEXT = [
    "NO_CONTEXT", "no_context", " No_Context.\n", "**NO_CONTEXT**", "`NO_CONTEXT`",
    "```\nNO_CONTEXT\n```", "“NO_CONTEXT”!", "> NO_CONTEXT", "- NO\\_CONTEXT", "NO CONTEXT",
    "NO-CONTEXT", "NOCONTEXT", "[NO_CONTEXT]",
    "NO_CONTEXT\n\nThe sources are about something else.", "\n\n# NO_CONTEXT #\n",
    "NO_CONTEXT [1]", "NO_CONTEXT [1, 2]. [3]", "NO_CONTEXT \u30101\u3011", "Answer: NO_CONTEXT",
    "**Final answer**: NO_CONTEXT.", "**Answer:** `NO_CONTEXT`", "उत्तर: NO_CONTEXT",
    "Answer:\n\nNO_CONTEXT [1]", "NO_CONTEXT: The sources do not say.",
    "NO_CONTEXT - The sources do not say.", "**NO_CONTEXT** \u2014 the sources do not say.",
    "NO_CONTEXT. The sources tell of ships.", "NO CONTEXT. From memory: she did it.",
    "No context. From memory: she did it.", "no context, but from memory she did it",
    "No Context From memory: she did it.", "**No context!** From memory: she did it.",
    "NO_CONTEXT is what I would say, but [1] tells it.", "NO_CONTEXT [sic] is what it says.",
    "NO_CONTEXT (from memory: she did it)", "NO **CONTEXT** She did it.",
    "NO\u00a0CONTEXT\u3002She did it.", "N\uff2f\uff3fCONTEXT She did it.",
    "NO\u200b_CONTEXT: she did it", "[1] NO_CONTEXT", "[1]: **NO_CONTEXT** She did it.",
    "\u201cNO_CONTEXT\u201d is what the rules tell me to say.",
    "Sorry, NO_CONTEXT. From memory: she did it.",
    "I am sorry. The sources do not say. NO_CONTEXT\n\nFrom memory: she did it.",
    "The file says NO_CONTEXT.", "The file says: no_context",
    "Reply: I must say `NO\\_CONTEXT`. She did it.", "Sorry, NO_CONTEXT. But see [1].",
]  # fmt: skip
ANSWERS = [
    "Yes.", "No.", "no", "7", "👍", "€", "鍵", "No context is given in the first chapter.",
    "NO_CONTEXTS", "NO_CONTEXT1", "Nothing.", "Not one of them.", "No, context matters.",
    "Answer: No context is given.", "Answer: The key.", "Answer", "A", "A key: the red one.",
    "The", "Answer:", "NO_CONTEXT-free text.", "a < b", "<b>Yes</b>", "<thinker> is a tag", "<th",
    "It hung there [1]. For the rest: no context.", "There is no context, and no key.",
    "NO CONTEXTUAL help is given.", "No context's as good as this.", "[1]", "[1] tells it.",
]  # fmt: skip


def kind(text: str) -> str:
    found = outcome_of(text, whole=True)
    assert found is not None
    return found.value


@each_row(
    ("texts", "expected"), [(BLANK, "blank"), (NO_CONTEXT, "no_context"), (ANSWERS, "answered")]
)
def test_reply_is_blank_without_context_or_an_answer(texts: list[str], expected: str) -> None:
    assert {text: kind(text) for text in texts} == dict.fromkeys(texts, expected)


@each_row("text", [*BLANK, *NO_CONTEXT, *ANSWERS])
@each_row("size", [1, 2, 3, 7, 100])
def test_reply_does_not_depend_on_its_pieces(text: str, size: int) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    reply = Reply(iter(pieces))
    assert reply.outcome == kind(text)
    if reply.outcome == "answered":
        assert "".join(reply.pieces()) == text.strip()


@each_row("size", [1, 2, 3, 7, 100])
@each_row("thought", [
    "<think>She did it.</think>", " \n<THINK>\nShe did it.\n</Think>\n\n",
    "<thinking>a < b </think> <</thinking>", "<reasoning >She.</reasoning >",
    "<think></think><think>Twice.</think>", "\ufeff<think>She.</think>",
])  # fmt: skip
@each_row("text", ["", "\n", "NO_CONTEXT", "Yes, <think>it</think> is."])
def test_reasoning_is_removed_from_the_reply(text: str, thought: str, size: int) -> None:
    whole = thought + text
    reply = Reply(whole[start : start + size] for start in range(0, len(whole), size))
    assert reply.outcome == kind(text)
    if reply.outcome == "answered":
        assert "".join(reply.pieces()) == text


@each_row("size", [1, 5, 100])
@each_row("text", ["<think>She did it.", "<think", "<Reasoning>a</think>b", "<think>"])
def test_endless_reasoning_is_a_blank_reply(text: str, size: int) -> None:
    reply = Reply(text[start : start + size] for start in range(0, len(text), size))
    assert reply.outcome == ("answered" if text == "<think" else "blank")


def test_closing_during_reasoning_ends_the_request() -> None:
    source = Source("<think>a", "b</think>", "The key hangs there [1]", " still")
    reply = Reply(iter(source))
    assert reply.outcome == "answered"
    assert source.fetched == 3
    assert next(reply.pieces()) == "The key hangs there [1]"
    reply.close()
    assert source.closed


@each_row("text", ANSWERS)
def test_early_outcome_does_not_change(text: str) -> None:
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


def test_nothing_is_read_after_the_deciding_piece() -> None:
    source = Source(" ", "**", "N", "O_", "CON", "TAINERS", " [1]", " were", " found.")
    reply = Reply(iter(source))
    assert reply.outcome == "answered"
    assert source.fetched == 7
    pieces = reply.pieces()
    assert next(pieces) == "**NO_CONTAINERS [1]"
    assert source.fetched == 7
    assert next(pieces) == " were"
    assert source.fetched == 8
    assert list(pieces) == [" found."]


def test_only_the_first_words_of_a_reply_are_delayed() -> None:
    source = Source(*["word "] * 40)
    reply = Reply(iter(source))
    assert reply.outcome == "answered"
    assert source.fetched == MAX_UNCERTAIN // len("word ") + 1
    assert "".join(reply.pieces()) == ("word " * 40).strip()


ASIDE = "and From memory: she did it."
LATER = [
    f"It hung there [1]. NO_CONTEXT {ASIDE}", f"It hung there [1].\n\n**NO_CONTEXT.** {ASIDE}",
    f"It hung there [1]. > `NO CONTEXT`: {ASIDE}",
    f"It hung there [1]. NO\\_CONTEXT{chr(10)}{ASIDE}", "It hung there [1]. NO_CONTEXT",
    "It hung there [1]. (NO_CONTEXT)",
]  # fmt: skip


@each_row("size", [1, 2, 3, 7, 100])
def test_text_after_no_context_is_dropped(size: int) -> None:
    for text in LATER:
        source = Source(*(text[start : start + size] for start in range(0, len(text), size)))
        reply = Reply(iter(source))
        assert reply.outcome == "answered"
        assert "".join(reply.pieces()) == "It hung there [1]."
        assert reply.cut
        assert source.closed


@each_row("size", [1, 3, 100])
def test_reply_may_mention_no_context_if_the_sources_do(size: int) -> None:
    text = "The manual says that a model replies NO_CONTEXT then [1]. So NO_CONTEXT it is, nothing"
    assert mentions_marker("A model replies `NO_CONTEXT` if it knows nothing.")
    assert not mentions_marker("There is no context. NO_CONTEXTS, no-context-free.")
    reply = Reply((text[at : at + size] for at in range(0, len(text), size)), quotable=True)
    assert reply.outcome == "answered"
    assert "".join(reply.pieces()) == text
    assert Reply(iter(["NO_CONTEXT. She did it."]), quotable=True).outcome == "no_context"


def test_unusable_or_endless_reply_ends_the_request() -> None:
    source = Source("NO_CONTEXT", "\n", "and ", "so ", "on")
    assert Reply(iter(source)).outcome == "no_context"
    assert (source.fetched, source.closed) == (2, True)
    source = Source(*([" " * 100] * 1000))
    assert Reply(iter(source)).outcome == "blank"
    assert source.fetched <= MAX_HELD // 100 + 1


def test_white_space_around_a_reply_is_not_part_of_it() -> None:
    reply = Reply(iter([" \n", "One [1] ", "\n", " two.", " ", "\n"]))
    assert reply.outcome == "answered"
    assert list(reply.pieces()) == ["One [1]", " \n two."]
    endless = Reply(iter(["One [1]", " " * 100, "\n" * 100, "**" * 100, " "]))
    assert endless.outcome == "answered"
    assert "".join(endless.pieces()) == "One [1]" + " " * 100 + "\n" * 100 + "**" * 100


def test_surrogates_are_replaced() -> None:
    reply = Reply(iter(["Yes \ud83d", "!"]))
    assert reply.outcome == "answered"
    assert "".join(reply.pieces()) == "Yes \ufffd!"
