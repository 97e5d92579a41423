"""Questions that have an answer: checked by a search and the decision, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from truespan.errors import InvalidArgument
from truespan.protocols import Clock
from truespan.types.decision import AnswerMode, Decision

MAX_QUESTIONS = 6
"""Maximum number of questions of a request."""
MAX_SECONDS = 3.0
"""Time after which no further question is checked."""


def keep_answerable(
    questions: Sequence[str], decide: Callable[[str], Decision], clock: Clock
) -> list[str]:
    """Return the questions that `decide` would answer, in their order.

    Raises:
        InvalidArgument: There are too many questions, or one is no string.
    """
    if isinstance(questions, str) or not all(isinstance(one, str) for one in questions):
        raise InvalidArgument("Questions are a list of strings.")
    if len(questions) > MAX_QUESTIONS:
        raise InvalidArgument(f"At most {MAX_QUESTIONS} questions are checked at once.")
    end = clock.monotonic() + MAX_SECONDS
    found: list[str] = []
    for question in questions:
        if clock.monotonic() >= end:
            break
        if decide(question).mode is not AnswerMode.FALLBACK:
            found.append(question)
    return found
