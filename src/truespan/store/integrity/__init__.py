"""Integrity: checksums of rows, their comparison with the content, and erasure."""
