"""An embedder that is not there: whatever needs no new vector can go on without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from truespan.errors import TruespanError
from truespan.model.profile import EmbeddingProfile
from truespan.ports import EmbeddingLimits


@dataclass(frozen=True, slots=True)
class AbsentEmbedder:
    """Stands for the model of a profile that is not configured, or cannot be reached.

    Another model must never stand in for it: its vectors would be kept as this one's.
    """

    profile: EmbeddingProfile
    reason: TruespanError
    endpoint: str = ""
    limits: EmbeddingLimits = field(default_factory=lambda: EmbeddingLimits(joint=False))

    def embed_documents(self, texts: Sequence[str]) -> NoReturn:  # noqa: ARG002
        """Say why there is none."""
        raise self.reason

    def embed_query(self, text: str) -> NoReturn:  # noqa: ARG002
        """Say why there is none."""
        raise self.reason

    def count_query(self, text: str) -> NoReturn:  # noqa: ARG002
        """Say why there is none."""
        raise self.reason
