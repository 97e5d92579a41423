"""Keeping a library true: repairs that retrieval queued, and the doctor.

Owns: applying repairs, comparing store and index both ways, rebuilding the index from the store.
Does not own: what counts as damage at read time (query), embedding and flipping (ingest).
Must hold: a point is deleted only while its hash is still the one that was found wrong; text is
only ever restored to bytes that match their recorded hash.
"""
