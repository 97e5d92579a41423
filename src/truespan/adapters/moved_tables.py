"""The tables of a store as they are moved between kinds of stores, in words that both know.

What is not here is not moved: work on the files of the one library (`erasures`), and what is over
in a minute (`paces`, `cooldowns`).
"""

from __future__ import annotations

from typing import Final

from truespan.protocols import MovedTable, Reference

LEFT_BEHIND: Final = frozenset({"erasures", "paces", "cooldowns", "schema_steps"})

_REVISION = (Reference("revision", "revision"),)
_UNFINISHED = "t.state IN ('queued', 'running')"
_SPAN = ("start", "finish", "first_sid", "last_sid")


def _columns(spelled: str) -> tuple[str, ...]:
    return tuple(spelled.split())


TABLES: Final = (
    MovedTable(
        "worlds",
        _columns("name generation next_document changes created_at next_generation"),
        # It counts what was changed, the filling of the index too.
        unheld=frozenset({"changes"}),
    ),
    MovedTable(
        "generations",
        _columns("number profile_id profile created_at chunking removed_at"),
    ),
    MovedTable("aliases", _columns("key generation moved_at")),
    MovedTable("alias_moves", _columns("alias came_from went_to moved_at"), ordered_by="number"),
    MovedTable(
        "documents",
        _columns("number doc_id next_revision created_at deleted_at erase"),
        ordered_by="key",
        flags=frozenset({"erase"}),
    ),
    MovedTable(
        "revisions",
        _columns(
            "number state name path kind title language language_declared version chunking"
            " source_hash recipe text_hash characters sentences created_at declared_title tags"
            " chunking_profile stated_title language_stated properties source_url metadata origin"
            " derived derived_error"
        ),
        references=(Reference("document", "document"),),
        ordered_by="key",
        flags=frozenset({"language_declared", "language_stated"}),
    ),
    MovedTable("texts", ("text",), _REVISION, texts=frozenset({"text"})),
    MovedTable("places", _columns("start chapter section"), _REVISION),
    MovedTable("pages", _columns("start page"), _REVISION),
    MovedTable("sentences", _columns("sid start finish tokens text_hash"), _REVISION),
    MovedTable(
        "figures",
        _columns("number figure_id start image_ref description mark"),
        _REVISION,
        texts=frozenset({"description"}),
    ),
    MovedTable(
        "audits", _columns("label rule count redacted"), _REVISION, flags=frozenset({"redacted"})
    ),
    MovedTable(
        "chunks",
        _columns(
            "generation position text text_hash overlap_text sentence_ends chapter section page"
            " figure dedupe_hash"
        ),
        _REVISION,
        texts=frozenset({"text", "overlap_text"}),
    ),
    MovedTable(
        "states",
        (
            *_columns("generation position chunk_id kind context_start"),
            *_SPAN,
            *_columns("reach tokens text_hash state warning"),
        ),
        _REVISION,
        # No index has its points yet: every chunk waits to be written to one.
        restated=(("state", "CASE WHEN t.state = 'embedded' THEN 'pending' ELSE t.state END"),),
    ),
    MovedTable(
        "tallies",
        _columns("generation chunks embedded quarantined"),
        _REVISION,
        restated=(("embedded", "0"),),
    ),
    MovedTable("vectors", _columns("profile_id text_hash vector")),
    MovedTable("probes", _columns("generation probe vector")),
    MovedTable("words", _columns("generation term postings"), _REVISION),
    MovedTable("word_counts", _columns("generation recipe texts lengths"), _REVISION),
    MovedTable("calibrations", _columns("profile_id measured kept_at")),
    MovedTable(
        "repairs",
        _columns("generation chunk_id kind point_hash row_hash queued_at"),
        ordered_by="number",
    ),
    MovedTable("query_cache", _columns("key vector created_at")),
    MovedTable(
        "readers", ("name",), references=(Reference("current", "document"),), ordered_by="key"
    ),
    MovedTable(
        "positions",
        _columns("revision sid updated_at"),
        references=(Reference("reader", "reader"), Reference("document", "document")),
    ),
    MovedTable(
        "tails",
        (
            *_columns("generation sid position part"),
            *_SPAN,
            *_columns("text text_hash tokens chapter section page"),
        ),
        _REVISION,
        texts=frozenset({"text"}),
    ),
    MovedTable("tail_marks", _columns("generation sid"), _REVISION),
    MovedTable(
        "usage",
        _columns(
            "id created_at milliseconds mode primary_model fallback_model evidence decision_explain"
        ),
        ordered_by="key",
    ),
    MovedTable(
        "jobs",
        _columns(
            "id kind request state phase process cancel created_at seen_at finished_at counts error"
            " background crashes parent weight claims"
        ),
        ordered_by="key",
        flags=frozenset({"cancel", "background"}),
        # Nobody runs them there, and what was uploaded for them stays behind.
        restated=(
            ("state", f"CASE WHEN {_UNFINISHED} THEN 'interrupted' ELSE t.state END"),
            ("finished_at", f"CASE WHEN {_UNFINISHED} THEN t.seen_at ELSE t.finished_at END"),
            ("background", "0"),
            ("claims", "'[]'"),
        ),
    ),
    MovedTable(
        "job_documents",
        _columns("doc_id name state code reason chunks"),
        (Reference("job", "job"),),
    ),
    MovedTable("job_lines", _columns("number at level line"), (Reference("job", "job"),)),
    MovedTable(
        "tokens",
        _columns(
            "id digest name every_world verbs every_reader readers created_at expires_at revoked_at"
        ),
        of_world=False,
        ordered_by="key",
        flags=frozenset({"every_world", "every_reader"}),
    ),
    MovedTable(
        "token_worlds",
        (),
        references=(Reference("token", "token"), Reference("world", "world")),
        of_world=False,
    ),
    MovedTable("replays", _columns("digest fingerprint process reply created_at"), of_world=False),
)
"""Every table that is moved, those first that others refer to."""

NAMED_BY: Final = {
    "document": ("documents", ("number",)),
    "revision": ("revisions", ("document", "number")),
    "job": ("jobs", ("id",)),
    "reader": ("readers", ("name",)),
    "token": ("tokens", ("id",)),
}
"""By which columns a row is known that has a key of its own in each store."""
