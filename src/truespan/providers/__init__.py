"""Embedding models, chat models, rerankers and web pages, on this machine or over HTTP.

Owns: protocols of providers, models as ONNX, keys, rate limits, checked addresses and deadlines.
Does not own: batches of texts and retries of ingestion (`ingest`); the choice of a provider
(`wiring`).
Must hold: no text is cut silently, no key appears in a message, and every call ends in time.
"""
