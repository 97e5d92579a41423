"""Keeping a library true and good: repairs that retrieval queued, the doctor, golden queries.

Owns: applying repairs, comparing store and index both ways, rebuilding the index from the store;
golden queries, what they measure, and the gate and the calibration that follow from it.
Does not own: what counts as damage at read time (query), embedding and flipping (ingest).
Must hold: a point is deleted only while its hash is still the one that was found wrong; text is
only ever restored to bytes that match their recorded hash.
"""
