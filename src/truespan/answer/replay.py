"""Decisions on record: evidence as plain values, and the decision made from it again.

No model and no index is asked, so a decision of last month can be explained today. What is kept is
the evidence and not the outcome: a record cannot disagree with itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from truespan.answer.decide import decide
from truespan.errors import InvalidSettings, TruespanError
from truespan.model.decision import Decision, Evidence
from truespan.model.usage import UsageRecord

RECORD_VERSION = 1


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision that was made again, and whether it is the one on record.

    `same` is None where only the evidence was kept, so that there is nothing to compare with.
    """

    decision: Decision
    same: bool | None
    record: UsageRecord | None = None


def recorded(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as plain values that JSON can hold, with all that `replay` needs."""
    return {"version": RECORD_VERSION, **msgspec.json.decode(msgspec.json.encode(evidence))}


def replay(record: Any) -> Decision:
    """Return the decision that this record's evidence leads to.

    Raises:
        InvalidSettings: it is no record, or one of another version.
    """
    return decide(evidence_of(record))


def replayed(record: UsageRecord) -> Replayed:
    """Make the decision of an answered request again and compare it with what was recorded."""
    decision = replay(record.evidence)
    same = decision.explained() == record.decision_explain and decision.mode is record.mode
    return Replayed(decision, same, record)


def replayed_from(plain: Any) -> Replayed:
    """Do the same with a record as JSON has it: one of the usage log, or its evidence alone.

    Raises:
        InvalidSettings: it is neither.
    """
    if isinstance(plain, dict) and "evidence" in plain:
        try:
            return replayed(msgspec.convert(plain, UsageRecord))
        except msgspec.ValidationError as problem:
            raise _unreadable(str(problem)) from None
    return Replayed(replay(plain), None)


def evidence_of(record: Any) -> Evidence:
    """Return the evidence that `recorded` wrote."""
    if not isinstance(record, dict) or record.get("version") != RECORD_VERSION:
        raise _unreadable("it has another version, or none")
    try:
        evidence = msgspec.convert(record, Evidence)
    except (msgspec.ValidationError, TruespanError) as problem:
        raise _unreadable(str(problem)) from None
    # A member that is missing would be taken for its default, and the replay would be another one.
    if recorded(evidence) != record:
        raise _unreadable("members are missing or unknown")
    return evidence


def _unreadable(why: str) -> InvalidSettings:
    return InvalidSettings(
        f"This is not the record of a decision: {why}", advice="Give it as it was written."
    )
