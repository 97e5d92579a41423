"""The identity of a file: the same file gives the same document, however it was reached."""

from __future__ import annotations

import os
import re
import unicodedata
from hashlib import sha256

from truespan.adapters.files.walk import displayed
from truespan.model.source import Declared, Source

_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def doc_id_for(path: str) -> str:
    """Return the identity of a file: its name made plain, and a digest of where it lies.

    The same file gives the same id however it was reached; equal names in two folders differ.
    """
    return f"{_slug(os.path.basename(path))}-{sha256(os.fsencode(path)).hexdigest()[:8]}"


def upload_doc_id(name: str) -> str:
    """Return the identity of an upload: its name alone, wherever the library lies."""
    return f"{_slug(name)}-{sha256(upload_path(name).encode()).hexdigest()[:8]}"


def upload_path(name: str) -> str:
    """Return what is recorded as the place of an upload; no file has a path like it."""
    return f"upload:{name}"


def _slug(name: str) -> str:
    stem = os.path.splitext(name)[0]
    if not stem.isascii():
        stem = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    return _NOT_PLAIN.sub("-", stem.lower()).strip("-")[:48] or "document"


def source_at(
    path: str, size: int, declared: Declared, *, doc_id: str | None = None, origin: str = ""
) -> Source:
    """Return the source that a file is, under its own identity or under one that was declared."""
    return Source(
        path=path,
        name=displayed(os.path.basename(path)),
        doc_id=doc_id or doc_id_for(path),
        size=size,
        declared=declared,
        origin=origin,
    )
