"""What is said of a document of which a part could not be embedded as it was."""

from __future__ import annotations

from truespan.ingest.embed.too_long import Remark

REMARKS = {
    Remark.BAD_VECTOR: (
        "provider_bad_reply",
        "The embedding provider gave no usable vector for a part of this document. "
        "The same command tries that part again.",
    ),
    Remark.TOO_LONG: (
        "provider_text_too_long",
        "A part of this document is longer than the model reads and was left out, "
        "as on_token_limit says.",
    ),
    Remark.TRUNCATED: (
        "text_truncated",
        "Of a part of this document only the beginning was embedded, as on_token_limit says.",
    ),
    Remark.MEAN_OF_PARTS: (
        "mean_of_parts",
        "A part of this document was embedded in pieces, of which the mean was kept.",
    ),
}
"""The code and the words of each remark."""
