"""Ingestion: source, blocks, canonical text, sentences, chunks, vectors, index, metadata.

`requests` finds sources, and plans and runs a request; `source_drafts` makes the draft of a source,
`pipeline` runs a list of sources, and `indexing` embeds and activates revisions.

Owns: the canonical text and its sentences, where chunks begin and end, and the order in which a
revision becomes durable and visible.
Does not own: files, the store, the index, the embedding model; they are ports in `IngestDeps`.
Must hold: every span is a span of canonical text; the stages up to the spans are pure, so the same
bytes under the same recipe give the same spans on any machine; a chunk depends on nothing after
the sentence its `reach` names.
"""
