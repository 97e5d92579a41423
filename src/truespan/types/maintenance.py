"""Backups with their manifest, migrations, erasures, and findings of the doctor."""

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
    r"store\.db|settings/truespan\.toml|keys/(?:pseudonyms|usage|signing)\.key"
    r"|sources/[A-Za-z0-9-]{1,64}/[0-9a-f]{32}/[0-9a-f]{32}-source"
    r"|assets/[A-Za-z0-9][A-Za-z0-9._-]{0,127}/(?:\.world|img_[0-9]{3,9}\.[A-Za-z0-9]{1,10})"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Member(Struct, frozen=True):
    name: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True):
    """Manifest of a backup. `missing_images` were not found when it was written."""

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
        """Total size of the unpacked members in bytes."""
        return sum(member.size for member in self.members)

    def has(self, folder: str) -> bool:
        """Return whether a folder of the backup has members."""
        return any(member.name.startswith(f"{folder}/") for member in self.members)

    def to_json(self) -> bytes:
        """Return the manifest as JSON with a digest of itself."""
        sealed = replace(self, digest=_digest_of(to_builtins(self)))
        return json.dumps(to_builtins(sealed), indent=1, sort_keys=True).encode()


class BackupReport(Struct, frozen=True):
    """A backup that was written and verified."""

    path: str
    bytes: int
    manifest: Manifest


class RestoreReport(Struct, frozen=True):
    """A restored library.

    `written` is the number of points in the index, `pending` the number that `truespan repair` must
    embed. `settings_aside` is the file with the settings of the backup if they are not used,
    because they name a server or other settings exist.
    """

    path: str
    manifest: Manifest
    written: int
    pending: int
    settings_aside: str | None = None


def manifest_from_json(text: bytes, *, schemas: range) -> Manifest:
    """Return the manifest of a backup; `schemas` are the versions that can be restored."""
    try:
        fields = parse_json_object(text)
        newer = fields["format"] > FORMAT or fields["schema"] >= schemas.stop
        older = fields["format"] < FORMAT or fields["schema"] < schemas.start
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BackupInvalid("The file is not a backup: it has no manifest.") from None
    if newer:
        raise BackupInvalid(
            "The backup was written by a newer version of Truespan.", advice="Update Truespan."
        )
    if older:
        raise BackupInvalid(
            "The backup was written before the first release of Truespan.",
            advice="Create a new library, and ingest the sources again.",
        )
    try:
        members = tuple(Member(**member) for member in fields["members"])
        manifest = Manifest(**{**fields, "members": members})
    except (TypeError, ValueError, KeyError, RecursionError):
        raise BackupInvalid("The manifest of the backup cannot be read.") from None
    if _digest_of(fields) != manifest.digest:
        raise BackupInvalid("The manifest of the backup has changed since it was written.")
    names = [member.name.casefold() for member in manifest.members]
    if len(set(names)) != len(names) or names.count(STORE) != 1:
        raise BackupInvalid("The manifest of the backup names files twice, or no store.")
    for member in manifest.members:
        # Names become paths, and sizes reserve disk space: do not trust either.
        if not _MEMBER.fullmatch(member.name) or ".." in member.name:
            raise BackupInvalid("The backup has an unknown member.")
        if type(member.size) is not int or not 0 <= member.size <= _MAX_SIZE:
            raise BackupInvalid("The manifest of the backup states impossible sizes.")
        if not _DIGEST.fullmatch(member.sha256):
            raise BackupInvalid("The manifest of the backup states no digest of a member.")
    return manifest


def _digest_of(fields: dict[str, Any]) -> str:
    rest = {name: value for name, value in fields.items() if name != "digest"}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


class ErasureKind(StrEnum):
    """Storage that may contain deleted data, in the order of removal."""

    POINTS = "points"
    ASSETS = "assets"
    INDEX = "index"
    STORE = "store"


class Ownership(StrEnum):
    """Owner of a collection of the index."""

    OWN = "own"
    OTHER = "other"
    UNKNOWN = "unknown"
    """Created by another program, or without a recorded owner."""


class FileTreatment(StrEnum):
    """Treatment of files that contained deleted text."""

    GONE = "gone"
    """Rewritten; they contain no deleted data."""
    REQUESTED = "requested"
    """Files of a server that was asked to rewrite them; they cannot be inspected."""
    LEFT = "left_to_operator"
    """Files of a server that does not offer rewriting."""


class Erasure(Struct, frozen=True):
    """A pending erasure. `urgent` erasures were requested by a deletion."""

    number: int
    kind: ErasureKind
    world: WorldId
    generation: int
    profile: EmbeddingProfile | None
    urgent: bool


class RemovedFiles(NamedTuple):
    """Number and size of removed files."""

    files: int
    bytes: int


NO_FILES = RemovedFiles(0, 0)


def sum_files(removed: Iterable[RemovedFiles]) -> RemovedFiles:
    return RemovedFiles(*map(sum, zip(NO_FILES, *removed, strict=True)))


MAX_SAMPLE = 1_000_000_000
"""Maximum number of texts that the doctor re-embeds."""


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(Struct, frozen=True):
    """A check of the machine, the settings or a boundary; `remedy` is empty if there is none."""

    name: str
    verdict: Verdict
    says: str
    remedy: str = ""


class TextFlaw(Struct, frozen=True):
    """A chunk row that is missing or whose bytes do not match their hash.

    `seen` identifies the bytes found; `restorable` is true if the canonical text has the right
    bytes.
    """

    chunk_id: ChunkId
    seen: str
    restorable: bool


class RevisionPart(StrEnum):
    """Part of a revision that does not match its checksum."""

    RECORD = "record"
    """The labels, the state and the checksums of the parts."""
    TEXT = "text"
    SENTENCES = "sentences"
    """The sentences, chapters, pages, figures and sanitizer counts."""


class CountFlaw(Struct, frozen=True):
    """A recorded chunk count of a revision and generation that is wrong.

    `seen` contains the recorded and the actual count.
    """

    revision: RevisionRef
    generation: int
    seen: str


class RevisionFlaw(Struct, frozen=True):
    """A revision whose record, canonical text or sentences cannot be trusted."""

    revision: RevisionRef
    part: RevisionPart
    seen: str
    restorable: bool
