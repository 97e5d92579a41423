"""Fragments of SQL that several parts of the store share."""

from __future__ import annotations

from typing import Final

REVISION: Final = """(
    SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.world_id = :world AND d.number = :document AND r.number = :revision AND SEEN(r))"""
"""Key of the revision with the numbers `:document` and `:revision`."""

TAILS: Final = """tails t CROSS JOIN revisions r CROSS JOIN documents d
    WHERE r.key = t.revision AND d.key = r.document AND d.world_id = :world"""
"""Tails of the world. CROSS keeps SQLite from starting with all documents of the world."""

IS_NAMED: Final = """g.number IS NOT DISTINCT FROM w.generation OR EXISTS
    (SELECT 1 FROM aliases a WHERE a.world_id = w.world_id AND a.generation = g.number)"""
"""Whether the world `w` or one of its domains uses the generation `g`."""
