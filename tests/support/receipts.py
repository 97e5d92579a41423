"""Receipts for tests: keys, a library that signs, and claims."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec

from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.extensions.proof.types import SignedReceipt

GUIDE = """\
# The harbour

Fog lay on the river. The porter swept the long quay. A brass key hung on the seventh hook.

# The boat

At noon the boat was gone. Its rope was cut with a knife. The porter ran to the office.
"""
OTHER = "# The mill\n\nThe miller ground corn. His cat slept on the sacks.\n"


def signing_world(folder: Path, **parts: Any) -> tuple[LibraryFixture, World]:
    """Return a library with a signing key, and its world of two documents."""
    lib = make_library(folder, **parts)
    lib.library.keys.create()
    world = lib.library.create_world("world")
    world.ingest([lib.write("guide.md", GUIDE), lib.write("other.md", OTHER)])
    return lib, world


def keys_of(lib: LibraryFixture) -> dict[str, Any]:
    """Return the public keys of a library, as a verifier reads them from a file."""
    return json.loads(msgspec.json.encode(lib.library.keys.list()))


def as_json(receipt: object) -> bytes:
    assert isinstance(receipt, SignedReceipt)
    return msgspec.json.encode(receipt)


def claims_of(receipt: object) -> dict[str, Any]:
    """Return what a receipt claims, without verifying it."""
    assert isinstance(receipt, SignedReceipt)
    return json.loads(b64decode(receipt.envelope.payload))["predicate"]
