"""Hostile or damaged files, kept as code and made when needed.

Each has a name, and is a function from a trap to a file. The trap is the target of the file: an
address on this machine that must not be requested, and a file that must not be read.
"""

from tests.support.hostile import archives, docx, epub, html, markdown, pdf, text
from tests.support.hostile.registry import HOSTILE, Hostile, Trap

__all__ = [
    "HOSTILE", "Hostile", "Trap", "archives", "docx", "epub", "html", "markdown", "pdf", "text",
]  # fmt: skip
