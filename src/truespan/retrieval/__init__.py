"""Retrieval: admit, snapshot, scope, vector, fetch, verify, reveal, rank, rerank, pack.

Owns: admission, filters, the query vector and its cache key, verification, ranking, the context,
reading positions, explaining why a chunk is missing. Does not own: ingestion, chunk boundaries,
embedding of documents, storage, prompts. Must hold: text comes from the store and is checked in the
read that returns it; scope and floor are part of the index query; untrusted text is skipped,
reported and queued for repair.
"""
