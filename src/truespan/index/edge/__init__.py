"""Qdrant Edge, the embedded index: in a separate process, shared by all that open a library."""
