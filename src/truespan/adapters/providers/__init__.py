"""Embedding providers that are reached over HTTP or by an extra package."""
