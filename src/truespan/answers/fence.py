"""A separator for the parts of a prompt that no part contains."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256


def find_fence(texts: Sequence[str]) -> str:
    """Return a word that occurs in none of these texts and depends on them alone."""
    digest = sha256()
    for text in texts:
        encoded = text.encode(errors="replace")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    fence = digest.hexdigest()[:20]
    while any(fence in text for text in texts):
        fence = sha256(fence.encode()).hexdigest()[:20]
    return fence
