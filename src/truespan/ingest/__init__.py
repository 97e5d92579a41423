"""The way in: source -> blocks -> canonical text -> sentences -> chunks -> vectors -> index.

Owns: what is read out of a source's bytes, the canonical text and its sentences, where chunks
begin and end, and the order in which a revision becomes durable and visible.
Does not own: files, the store, the index, the embedding model; it meets them as ports.
Must hold: every span is a span of canonical text; the stages up to the spans are pure, so the same
bytes under the same recipe give the same spans on any machine; what is decided about a passage is
decided by nothing that lies beyond its reach.
"""
