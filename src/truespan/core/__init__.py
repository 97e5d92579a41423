"""General tools without knowledge of documents: cancellation, strict JSON, time, files.

Owns: cancel tokens, JSON without repeated keys, checks of single values, grapheme boundaries,
timestamps, the system clock, child processes, file locks, durable copies and free space.
Does not own: anything about worlds, documents or queries.
Must hold: imports nothing of the package but its errors.
"""
