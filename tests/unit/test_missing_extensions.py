"""Members of an extension that is not installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import truespan
from truespan.errors import ExtensionMissing
from truespan.tables import tables
from truespan.testing import WordCounter, WordEmbedder

MEMBERS: dict[str, tuple[str, Callable[[truespan.Library, truespan.World], Any]]] = {
    "Library.keys": ("proof", lambda library, _: library.keys),
    "Reader.sign": ("proof", lambda _, world: world.reader("a").sign(world.retrieve("key"))),
    "World.sign": ("proof", lambda _, world: world.sign(world.search("key"))),
    "truespan.verify_receipt": ("proof", lambda *_: truespan.verify_receipt("{}", {})),
}


def test_member_of_a_missing_extension_names_the_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables(), "members", {})
    with truespan.open(
        tmp_path, create=True, embedder=WordEmbedder(), counter=WordCounter()
    ) as library:
        world = library.world("w", create=True)
        for name, (extension, use) in MEMBERS.items():
            with pytest.raises(ExtensionMissing, match=f"^{name} needs .*'{extension}'"):
                use(library, world)
