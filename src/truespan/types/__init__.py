"""Frozen records, grouped by subject.

Owns: ids, text and spans, chunks, profiles, scopes, requests, the states of trust, results.
Does not own: any I/O, clock, randomness or third-party client.
Must hold: offsets count code points of canonical text, half-open; a value never changes.
"""
