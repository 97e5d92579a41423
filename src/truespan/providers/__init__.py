"""Embedding models, chat models, rerankers and web pages, on this machine or over HTTP.

Owns: protocols of providers, models as ONNX, keys, rate limits, checked addresses and deadlines;
the table of embedders and rerankers.
Does not own: batches of texts and retries of ingestion (`ingest`); the choice of a provider
(`wiring`).
Must hold: no text is cut silently, no key appears in a message, and every call ends in time.
"""

from __future__ import annotations

from truespan.tables import EmbeddingProvider, RerankerKind

_HERE = "truespan.providers"
EMBEDDERS = {
    "local": EmbeddingProvider(f"{_HERE}.context:make_local_embedder"),
    "onnx": EmbeddingProvider(f"{_HERE}.context:make_folder_embedder"),
    "ollama": EmbeddingProvider(f"{_HERE}.ollama:make_embedder"),
    "openai": EmbeddingProvider(f"{_HERE}.openai:make_embedder"),
}
RERANKERS = {
    "onnx": RerankerKind(f"{_HERE}.rerank:make_onnx_reranker"),
}
