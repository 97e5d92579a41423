"""Embedding providers and chat models that are reached over HTTP or by an extra package."""
