"""Identifiers and hashes, including the derivation of reproducible ids."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha1, sha256
from typing import NewType
from uuid import UUID

WorldId = NewType("WorldId", str)
"""A UUID in its usual text form."""

ChunkId = NewType("ChunkId", str)
"""A UUIDv5 in its usual text form; also the id of the chunk's point in the index."""

TextHash = NewType("TextHash", str)
"""SHA-256 of UTF-8 text, in lower-case hexadecimal."""

_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_NAMESPACE = UUID("6f1d3c1e-5b0e-5d0a-9d7c-7a1c54b6e0a1").bytes


def slug(name: str) -> str:
    """Return a file name without its ending in plain letters and digits, for use in an id."""
    stem, dot, _ = name.rpartition(".")
    # Leading dots do not start an ending.
    if not dot or not stem.strip("."):
        stem = name
    if not stem.isascii():
        stem = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    return _NOT_PLAIN.sub("-", stem.lower()).strip("-")[:48] or "document"


def member_doc_id(file: str, member: str) -> str:
    """Return the id of a document inside a file, from the file's id and the path in it."""
    digest = sha256(f"{file}/{member}".encode()).hexdigest()[:16]
    return f"{slug(member.rpartition('/')[2])}-{digest}"


FIRST_UNCOUNTED = 1_000_000_000
"""First number of documents that are not counted, because not every caller sees them."""


def uncounted_number(world: WorldId, doc_id: str, attempt: int) -> int:
    """Return a number of 32 bits from world and document id; each attempt gives another."""
    digest = sha256(f"{world}:{attempt}:{doc_id}".encode()).digest()
    return FIRST_UNCOUNTED + int.from_bytes(digest[:8], "big") % FIRST_UNCOUNTED


def chunk_id(
    world: WorldId, generation: int, document: int, revision: int, index: int, /
) -> ChunkId:
    """Return the UUIDv5 of a chunk; the same arguments always give the same id.

    World and generation are part of the id, so equal documents in two worlds never share a point.
    The hashed name is a UUID and four integers, so two different chunks cannot have the same name.
    """
    return _uuid5(f"{world}:{generation}:{document}:{revision}:{index}")


def reader_chunk_id(
    world: WorldId,
    generation: int,
    document: int,
    first_sid: int,
    last_sid: int,
    part: int,
    text_hash: TextHash,
    /,
) -> ChunkId:
    """Return the id of a chunk as a reader sees it; it depends on no unread text.

    `part` distinguishes the parts of one long sentence: it is the start offset of the part.
    """
    place = f"{first_sid}:{last_sid}:{part}"
    return _uuid5(f"{world}:{generation}:{document}:{place}:{text_hash}")


def _uuid5(name: str) -> ChunkId:
    digest = sha1(_NAMESPACE + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return ChunkId(
        f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
    )


def hash_text(text: str) -> TextHash:
    return hash_bytes(text.encode())


def hash_bytes(data: bytes) -> TextHash:
    """Return the hash of a text from its UTF-8 bytes."""
    return TextHash(sha256(data).hexdigest())


_NOT_WORDS = re.compile(r"\W+")


def dedupe_hash(text: str) -> TextHash:
    """Return a hash that ignores differences in case, punctuation and white space."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Text without any word is hashed unchanged.
    return hash_text(_NOT_WORDS.sub(" ", folded).strip() or folded.strip())
