"""Members of an extension that is not installed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.support.failures import raises_code
from truespan.parsing import is_drawn
from truespan.tables import tables
from truespan.testing import WordCounter, WordEmbedder

MEMBERS: dict[str, tuple[str, Callable[[truespan.Library, truespan.World], Any]]] = {
    "Documents.picture": ("server", lambda _, world: world.documents.picture(1)),
    "Documents.watch": ("crawl", lambda _, world: world.documents.watch(".")),
    "Library.keys": ("proof", lambda library, _: library.keys),
    "Library.server": ("server", lambda library, _: library.server),
    "Reader.picture": ("server", lambda _, world: world.reader("a").picture()),
    "Reader.sign": ("proof", lambda _, world: world.reader("a").sign(world.retrieve("key"))),
    "World.evaluation": ("quality", lambda _, world: world.evaluation),
    "World.generations": ("quality", lambda _, world: world.generations),
    "World.sign": ("proof", lambda _, world: world.sign(world.search("key"))),
    "truespan.verify_receipt": ("proof", lambda *_: truespan.verify_receipt("{}", {})),
}


def test_configured_part_of_a_missing_extension_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("components", "observers"):
        monkeypatch.setattr(tables(), table, {})
    path = tmp_path / "truespan.toml"
    for written, name, extension in (
        ("metrics = true", "metrics", "server"),
        ("tracing = true", "tracing", "server"),
        ('auth_issuer = "https://issuer.example"', "identities", "server"),
        ('index_url = "http://127.0.0.1:6333"', "index", "cluster"),
        ('store_url_file = "url.txt"', "database", "cluster"),
    ):
        path.write_text(written)
        with raises_code("extension_missing", match=f"^{name} needs .*'{extension}'"):
            truespan.open(tmp_path, create=True)
    path.write_text("")
    with truespan.open(tmp_path) as library:
        with raises_code("extension_missing", match=r"^chat_servers needs .*'server'"):
            library.models.servers.find()
        # Nothing is drawn, so that nothing has to be kept for it.
        monkeypatch.setattr(tables(), "pictures", {})
        assert not is_drawn("a.pdf", b"%PDF-1.7")


def test_member_of_a_missing_extension_names_the_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables(), "members", {})
    with truespan.open(
        tmp_path, create=True, embedder=WordEmbedder(), counter=WordCounter()
    ) as library:
        world = library.world("w", create=True)
        for name, (extension, use) in MEMBERS.items():
            with raises_code("extension_missing", match=f"^{name} needs .*'{extension}'"):
                use(library, world)
