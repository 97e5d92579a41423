"""What is said when there is no answer."""

from __future__ import annotations

from truespan.model.decision import Refusal

_WORDS = {
    Refusal.READING: "What has been read of this book so far does not answer that.",
    Refusal.NO_FALLBACK_MODEL: (
        "The documents do not answer that, and no model is configured to answer without them."
    ),
    Refusal.FALLBACK_SILENT: (
        "The documents do not answer that, and the model that was asked without them had no answer."
    ),
}


def refused(refusal: Refusal) -> str:
    """Return a refusal in words. It says nothing of what was found, or where."""
    return _WORDS[refusal]
