"""Qdrant Edge, the embedded index: in a process of its own, shared by all that open a library."""
