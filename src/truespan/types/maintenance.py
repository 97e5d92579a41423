"""What a backup says of itself: its manifest, written and read back with every check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from truespan.core.strict_json import parse_json_object
from truespan.errors import BackupInvalid
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, WorldId
from truespan.types.profile import EmbeddingProfile

FORMAT = 1
MANIFEST = "manifest.json"
STORE = "store.db"
MAX_MANIFEST_SIZE = 64 << 20
_MAX_SIZE = 1 << 50

_MEMBER = re.compile(
    r"store\.db|settings/truespan\.toml|keys/(?:pseudonyms|usage)\.key"
    r"|assets/[A-Za-z0-9][A-Za-z0-9._-]{0,127}/(?:\.world|img_[0-9]{3,9}\.[A-Za-z0-9]{1,10})"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Member(Struct, frozen=True):
    name: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True):
    """What a backup holds. `missing_images` were not there when it was written."""

    schema: int
    truespan: str
    created_at: float
    vectors: bool
    worlds: int
    documents: int
    chunks: int
    missing_images: int
    members: tuple[Member, ...]
    format: int = FORMAT
    digest: str = ""

    @property
    def images(self) -> int:
        return sum("/img_" in member.name for member in self.members)

    @property
    def size(self) -> int:
        """Return how large all its members are together, once they are unpacked."""
        return sum(member.size for member in self.members)

    def has(self, folder: str) -> bool:
        """Say whether there are members in one of its folders."""
        return any(member.name.startswith(f"{folder}/") for member in self.members)

    def to_json(self) -> bytes:
        """Return the manifest as it is written, with a digest over itself."""
        sealed = replace(self, digest=_digest_of(to_builtins(self)))
        return json.dumps(to_builtins(sealed), indent=1, sort_keys=True).encode()


class BackupReport(Struct, frozen=True):
    """A backup that was written and read back."""

    path: str
    bytes: int
    manifest: Manifest


class RestoreReport(Struct, frozen=True):
    """A library that was restored. `written` and `pending` count points: those the index has again,
    and those that `truespan repair` has to embed. `settings_aside` is where the settings of the
    backup lie if they are not in force, since they name a server or there were others."""

    path: str
    manifest: Manifest
    written: int
    pending: int
    settings_aside: str | None = None


def manifest_from_json(text: bytes, *, known_schema: int) -> Manifest:
    """Return the manifest of a backup; raises BackupInvalid unless this version can restore it."""
    try:
        fields = parse_json_object(text)
        newer = fields["format"] > FORMAT or fields["schema"] > known_schema
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BackupInvalid("The file is not a backup: it has no manifest.") from None
    if newer:
        raise BackupInvalid(
            "The backup was written by a newer version of Truespan.", advice="Update Truespan."
        )
    try:
        members = tuple(Member(**member) for member in fields["members"])
        manifest = Manifest(**{**fields, "members": members})
    except (TypeError, ValueError, KeyError, RecursionError):
        raise BackupInvalid("The manifest of the backup cannot be read.") from None
    if _digest_of(fields) != manifest.digest:
        raise BackupInvalid("The manifest of the backup is not as it was written.")
    names = [member.name.casefold() for member in manifest.members]
    if len(set(names)) != len(names) or names.count(STORE) != 1:
        raise BackupInvalid("The manifest of the backup names files twice, or no store.")
    for member in manifest.members:
        # Names become paths and sizes become room on the disk: neither is taken on trust.
        if not _MEMBER.fullmatch(member.name) or ".." in member.name:
            raise BackupInvalid("The backup has a member that does not belong into one.")
        if type(member.size) is not int or not 0 <= member.size <= _MAX_SIZE:
            raise BackupInvalid("The manifest of the backup states impossible sizes.")
        if not _DIGEST.fullmatch(member.sha256):
            raise BackupInvalid("The manifest of the backup states no digest of a member.")
    return manifest


def _digest_of(fields: dict[str, Any]) -> str:
    rest = {name: value for name, value in fields.items() if name != "digest"}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


class MovedCount(Struct, frozen=True):
    """Rows of one table over all worlds, and their digest, which is the same on both sides."""

    rows: int
    digest: str


class MigrationReport(Struct, frozen=True):
    """A library that was moved. Every row was read back and compared, and every point looked at."""

    path: str
    worlds: int
    tables: dict[str, MovedCount]
    files: int
    """Images and keys that the target has now and had not before."""
    points: int
    """Points of the target's index, each compared with the store."""
    pending: int
    """Chunks without a stored vector; `truespan repair` embeds them."""
    findings: dict[str, int]
    """What the doctor found in the target, by code; what was damaged before is so still."""

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())


class ErasureKind(StrEnum):
    """Where something deleted may be left, in the order in which it is removed there."""

    POINTS = "points"
    ASSETS = "assets"
    INDEX = "index"
    STORE = "store"


class Ownership(StrEnum):
    """Whose a collection of the index is."""

    OWN = "own"
    OTHER = "other"
    UNKNOWN = "unknown"
    """Created by an earlier version, or by another program."""


class FileFate(StrEnum):
    """What was done with files that contained deleted text."""

    GONE = "gone"
    """They are written anew; nothing deleted is left in them."""
    REQUESTED = "requested"
    """They belong to a server, which was asked to rewrite them; they cannot be inspected here."""
    LEFT = "left_to_operator"
    """They are a server's, which does not let us ask for that."""


class Erasure(Struct, frozen=True):
    """One piece of work that waits. `urgent` ones were asked for by a deletion."""

    number: int
    kind: ErasureKind
    world: WorldId
    generation: int
    profile: EmbeddingProfile | None
    urgent: bool


class Trace(NamedTuple):
    """A stretch of bytes that only the deleted thing has: of its text, or of a vector."""

    is_vector: bool
    content: bytes


class LeftoverMatch(NamedTuple):
    """What a look through all files gave: how much was looked through, and how much was found."""

    traces: int
    files: int
    bytes: int
    found: int


class RemovedFiles(NamedTuple):
    """Files that were removed, and how large they were."""

    files: int
    bytes: int


NO_FILES = RemovedFiles(0, 0)


def sum_files(removed: Iterable[RemovedFiles]) -> RemovedFiles:
    return RemovedFiles(*map(sum, zip(NO_FILES, *removed, strict=True)))


MAX_SAMPLE = 1_000_000_000
"""Maximum number of texts that the doctor embeds again."""


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(Struct, frozen=True):
    """One check of the machine, the settings or a boundary; `remedy` where there is one."""

    name: str
    verdict: Verdict
    says: str
    remedy: str = ""


class TextFlaw(Struct, frozen=True):
    """A chunk row that is missing or whose bytes are not the recorded ones.

    `seen` names the bytes that were found; `restorable` when canonical text gives the right ones.
    """

    chunk_id: ChunkId
    seen: str
    restorable: bool


class RevisionPart(StrEnum):
    """What of a revision does not match what was recorded of it."""

    RECORD = "record"
    """Its labels, its state, and what is known of its parts."""
    TEXT = "text"
    SENTENCES = "sentences"
    """Also its chapters, pages, figures, and what the sanitiser counted."""


class TallyFlaw(Struct, frozen=True):
    """A count of a revision's chunks in a generation that is not what its chunks are.

    `seen` names what was recorded, and what was counted instead.
    """

    revision: RevisionRef
    generation: int
    seen: str


class RevisionFlaw(Struct, frozen=True):
    """A revision whose record, canonical text or sentences cannot be believed."""

    revision: RevisionRef
    part: RevisionPart
    seen: str
    restorable: bool
