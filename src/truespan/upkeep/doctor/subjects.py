"""What an item may be about: a plan from a file is believed no more than any other input."""

from __future__ import annotations

import re

from truespan.upkeep.doctor.findings import Action, Finding

_NUMBER = r"\d{1,18}"
_CHUNK = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REVISION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.(text|sentences)", re.ASCII)
_TALLY = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}", re.ASCII)
_TENANT = re.compile(r"[^ ]+ .+", re.DOTALL)

_SUBJECTS = {
    Action.RESTORE: _CHUNK,
    Action.SET_ASIDE: _CHUNK,
    Action.WRITE: _CHUNK,
    Action.DELETE: _CHUNK,
    Action.RESTORE_DOCUMENT: _REVISION,
    Action.INGEST_AGAIN: _REVISION,
    Action.COUNT_AGAIN: _TALLY,
    Action.DROP_WORLD: _TENANT,
}
"""How the subject of an action is spelled; the others are only compared with what is there."""

_ACTIONS = {
    Finding.DAMAGED_TEXT: {Action.RESTORE},
    Finding.LOST_TEXT: {Action.SET_ASIDE},
    Finding.DAMAGED_DOCUMENT: {Action.RESTORE_DOCUMENT},
    Finding.LOST_DOCUMENT: {Action.INGEST_AGAIN},
    Finding.MISSING_POINT: {Action.WRITE},
    Finding.STALE_POINT: {Action.WRITE},
    Finding.CHANGED_VECTOR: {Action.WRITE, Action.EMBED},
    Finding.DUPLICATE_POINT: {Action.WRITE},
    Finding.ORPHAN_POINT: {Action.DELETE},
    Finding.MISPLACED_POINT: {Action.WRITE},
    Finding.MIXED_MODEL: {Action.WRITE, Action.EMBED},
    Finding.NON_FINITE: {Action.WRITE, Action.EMBED},
    Finding.NO_VECTOR: {Action.WRITE},
    Finding.FOREIGN_VECTORS: {Action.DROP_VECTORS},
    Finding.WRONG_TALLY: {Action.COUNT_AGAIN},
    Finding.PENDING: {Action.EMBED_PENDING},
    Finding.QUARANTINED: {Action.NOTHING},
    Finding.RETIRED: {Action.CLEAR},
    Finding.QUEUED_REPAIR: {Action.REPAIR},
    Finding.UNREADABLE_INDEX: {Action.REBUILD},
    Finding.UNKNOWN_WORLD: {Action.DROP_WORLD},
    Finding.UNCLAIMED_POINTS: {Action.REBUILD},
    Finding.UNUSED_COLLECTION: {Action.DISCARD},
}
"""What is ever done about a finding. Some are done without a second look, so no other may be."""


def fits(finding: Finding, action: Action, subject: str) -> bool:
    """Say whether the doctor could have planned this action, for this finding, about this."""
    spelling = _SUBJECTS.get(action)
    return action in _ACTIONS[finding] and (spelling is None or bool(spelling.fullmatch(subject)))
