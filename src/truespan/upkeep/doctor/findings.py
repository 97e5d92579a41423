"""What the doctor looks for, and what can be done about it."""

from __future__ import annotations

from enum import StrEnum


class Finding(StrEnum):
    """What the doctor looks for."""

    DAMAGED_TEXT = "damaged_text"
    LOST_TEXT = "lost_text"
    DAMAGED_DOCUMENT = "damaged_document"
    LOST_DOCUMENT = "lost_document"
    MISSING_POINT = "missing_point"
    STALE_POINT = "stale_point"
    CHANGED_VECTOR = "changed_vector"
    DUPLICATE_POINT = "duplicate_point"
    ORPHAN_POINT = "orphan_point"
    MISPLACED_POINT = "misplaced_point"
    MIXED_MODEL = "mixed_model"
    NON_FINITE = "non_finite_vector"
    NO_VECTOR = "no_vector_kept"
    FOREIGN_VECTORS = "foreign_vectors"
    WRONG_TALLY = "wrong_tally"
    PENDING = "pending_chunk"
    QUARANTINED = "quarantined_chunk"
    RETIRED = "retired_revision"
    QUEUED_REPAIR = "queued_repair"
    UNREADABLE_INDEX = "unreadable_index"
    UNKNOWN_WORLD = "points_of_unknown_world"
    UNCLAIMED_POINTS = "points_without_world"
    UNUSED_COLLECTION = "unused_collection"


class Action(StrEnum):
    """What is done about a finding."""

    RESTORE = "restore"
    SET_ASIDE = "set_aside"
    RESTORE_DOCUMENT = "restore_document"
    INGEST_AGAIN = "ingest_again"
    WRITE = "write_point"
    DELETE = "delete_point"
    EMBED = "embed_again"
    EMBED_PENDING = "embed_pending"
    COUNT_AGAIN = "count_again"
    DROP_VECTORS = "drop_vectors"
    CLEAR = "clear"
    REPAIR = "repair"
    REBUILD = "rebuild_index"
    DROP_WORLD = "drop_points"
    DISCARD = "discard_collection"
    NOTHING = "nothing"


REMEDIES = {
    Action.RESTORE: "restore the row from canonical text",
    Action.SET_ASIDE: "set it aside; ingest its source again, the stored text is lost",
    Action.RESTORE_DOCUMENT: "restore canonical text from its chunks",
    Action.INGEST_AGAIN: "ingest its source again: this cannot be mended here",
    Action.WRITE: "write the point again from the kept vector",
    Action.DELETE: "delete the point",
    Action.EMBED: "forget the kept vector and embed the text again",
    Action.EMBED_PENDING: "embed the chunk",
    Action.COUNT_AGAIN: "count the document's chunks again",
    Action.DROP_VECTORS: "remove them: no generation has their model",
    Action.CLEAR: "delete its points and rows",
    Action.REPAIR: "apply it",
    Action.REBUILD: "rebuild the whole index from kept vectors",
    Action.DROP_WORLD: "delete the points: no world claims them",
    Action.DISCARD: "remove the collection: no generation has its model",
    Action.NOTHING: "ingest its source again: the stored text is lost",
}
"""What each action is, in words for the line that proposes it."""

BY_HAND = frozenset({Action.INGEST_AGAIN, Action.NOTHING})
"""What somebody has to see to; applying a plan at most makes it possible."""
