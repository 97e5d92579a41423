"""The way out: request -> admitted -> vector -> hits -> verified -> ranked -> context.

Owns: admission, the query vector and its cache key, verification, ranking, the context, explaining.
Does not own: ingestion, chunk boundaries, embedding writes, storage, prompts.
Must hold: text comes from the store and is checked in the read that returns it; scope and floor are
part of the index request; what cannot be trusted is skipped, reported and queued for repair.
"""
