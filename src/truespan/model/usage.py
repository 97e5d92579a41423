"""The usage log: what is kept of an answered request. There is no text of documents in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from truespan.model.decision import AnswerMode


@dataclass(frozen=True, slots=True)
class Usage:
    """One answered request, before it has an id.

    `evidence` is what the decision was made from, `decision_explain` what came of it. The query in
    both is a keyed hash, unless the operator wants it otherwise.
    """

    mode: AnswerMode
    milliseconds: int
    primary_model: str | None
    fallback_model: str | None
    evidence: dict[str, Any]
    decision_explain: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """An answered request as the log keeps it; the members of `Usage` with an id and a time."""

    id: str
    created_at: float
    mode: AnswerMode
    milliseconds: int
    primary_model: str | None
    fallback_model: str | None
    evidence: dict[str, Any]
    decision_explain: dict[str, Any]
