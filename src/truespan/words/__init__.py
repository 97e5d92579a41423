"""Words: terms, stop words, other forms, counting, queries by words, BM25 and coverage.

Owns: how text becomes terms and how terms become scores.
Does not own: stored counts (`store.tables.word_rows`); the blend with similarity (`retrieval`).
Must hold: pure functions; a score depends on its arguments alone.
"""
