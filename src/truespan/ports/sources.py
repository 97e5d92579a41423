"""Where documents come from, how they are read, and where their images go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from truespan.model.erasure import RemovedFiles
from truespan.model.found import Entry, Found
from truespan.model.ids import WorldId
from truespan.model.source import Declared, Source
from truespan.model.text import Image, Loaded
from truespan.model.upload import Upload


class SourceFinder(Protocol):
    """Finds and reads the files behind what a caller names."""

    def find(self, paths: Sequence[str], declared: Declared) -> Found:
        """Return sources in a stable order, each once, unread.

        Raises:
            SourceMissing: a path names nothing.
        """
        ...

    def expand(self, manifest: str, entries: Sequence[Entry]) -> Found:
        """Return the sources that lines of a manifest name; nothing outside its folder.

        Raises:
            ManifestInvalid: with every line that cannot be used.
        """
        ...

    def absolute(self, path: str) -> str:
        """Return a path that means the same from anywhere."""
        ...

    def read_manifest(self, path: str) -> bytes: ...

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source.

        Raises:
            SourceRefused: it is gone, too large, or cannot be opened.
        """
        ...

    def is_there(self, path: str) -> bool:
        """Say whether something lies at the path that a document was recorded with."""
        ...


class SourceParser(Protocol):
    """Reads the bytes of a source, apart from everything else: what they do there does no harm."""

    def parse(self, name: str, data: bytes, *, images: bool) -> Loaded:
        """Return what a source holds; the bytes of pictures only if `images` are wanted.

        Raises:
            SourceRefused: it cannot become a document, or reading it went beyond the limits.
        """
        ...

    def close(self) -> None: ...


class UploadStore(Protocol):
    """Files that were handed over, kept until they are ingested; then nothing of them is left.

    What is handed over together is a batch, which nobody but its job reads.
    """

    def receive(self, world: WorldId, uploads: Sequence[Upload]) -> AbstractContextManager[str]:
        """Keep files durably, and give the name of their batch.

        It is nobody else's to remove until the block ends, and gone if the block fails.

        Raises:
            SourceTooLarge: one is larger than a document may be.
            StorageFull: there is no room.
        """
        ...

    def find(self, world: WorldId, batch: str, declared: Declared) -> Found:
        """Return the sources of a batch, unread.

        Raises:
            SourceMissing: nothing of it is left.
        """
        ...

    def is_there(self, world: WorldId, batch: str) -> bool:
        """Say whether anything of a batch is left."""
        ...

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source that `find` gave; raises as `SourceFinder.read` does."""
        ...

    def discard(self, world: WorldId, batch: str) -> None:
        """Remove a batch; one that is gone is no error."""
        ...

    def remove(self, world: WorldId, doc_id: str, is_wanted: Callable[[str], bool]) -> RemovedFiles:
        """Remove what would become a document, from all batches that are not wanted."""
        ...

    def sweep(self, world: WorldId, is_wanted: Callable[[str], bool]) -> RemovedFiles:
        """Remove the batches that are not wanted; one that is being received is left alone."""
        ...

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove all uploads of a world."""
        ...

    def worlds(self) -> list[WorldId]:
        """Return the worlds that uploads are kept of."""
        ...


class AssetStore(Protocol):
    """Images of documents, as files. A revision's are put aside until readers see it."""

    def put_aside(self, world: WorldId, doc_id: str, token: str, images: Sequence[Image]) -> None:
        """Write images where nobody looks yet, under a token that names their revision.

        Raises:
            AssetsTaken: the folder belongs to a document of another world.
        """
        ...

    def pictured(self) -> frozenset[str]:
        """Return the ids of all documents that have images here, aside or in place."""
        ...

    def publish(self, world: WorldId, doc_id: str, token: str) -> bool:
        """Put images in the place of the earlier ones; False when there are none of this token,
        neither aside nor in place.

        Safe to repeat.
        """
        ...

    def read(self, world: WorldId, doc_id: str, token: str, name: str) -> bytes | None:
        """Return the bytes of one image of the revision that a token names.

        None when there is none, or when others are just taking its place.
        """
        ...

    def remove(self, world: WorldId, doc_id: str) -> RemovedFiles:
        """Remove all images of a document; absent ones are no error."""
        ...

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove all images of a world."""
        ...
