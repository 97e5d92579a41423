"""A real PostgreSQL server: a library is prepared, filled, examined, moved and removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.real.conftest import address
from tests.support.failures import raises_code
from tests.support.worlds import WordCounter, WordEmbedder
from truespan.engine.library import Library
from truespan.extensions.cluster.configured import prepare_tables
from truespan.extensions.cluster.postgres_server import SHARED_ROLE, WORLD_ROLE
from truespan.extensions.cluster.queue import QUEUE_ROLE
from truespan.wiring import open_library


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty database with a role of the application. Both are removed at the end, and so are the
    roles that preparing it creates: they belong to the whole server, and no other owner can use
    them."""
    url = address("DATABASE_URL")
    name, password = f"truespan_test_{uuid4().hex[:8]}", uuid4().hex
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    own = urlunsplit(parts._replace(path=f"/{name}"))
    app = urlunsplit(parts._replace(netloc=f"{name}:{password}@{host}", path=f"/{name}"))
    with psycopg.connect(url, autocommit=True) as admin:
        role, before = sql.Identifier(name), roles_of(admin)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, password))
        admin.execute(sql.SQL("CREATE DATABASE {}").format(role))
        try:
            monkeypatch.setenv("TRUESPAN_STORE_URL", app)
            monkeypatch.setenv("TRUESPAN_STORE_OWNER_URL", own)
            yield app
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(role))
            admin.execute(sql.SQL("DROP ROLE {}").format(role))
            for created in roles_of(admin) - before:
                admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(created)))
            assert roles_of(admin) == before


def roles_of(admin: psycopg.Connection[Any]) -> set[str]:
    """Return the roles on a server that preparing a store creates, as far as they exist."""
    names = [WORLD_ROLE, SHARED_ROLE, QUEUE_ROLE]
    rows = admin.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", (names,))
    return {name for (name,) in rows}


def opened(folder: Path) -> Library:
    return open_library(folder, create=True, embedder=WordEmbedder(), counter=WordCounter())


@pytest.mark.usefixtures("database")
def test_a_library_is_prepared_filled_examined_and_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    before, now = prepare_tables(folder)
    (tmp_path / "note.txt").write_text("A lantern is at the pier.", encoding="utf-8")
    with opened(folder) as library:
        one, two = library.create_world("one"), library.create_world("two")
        one.ingest(str(tmp_path / "note.txt"))
        found = one.search("lantern", floor=0.0).passages
        other = two.search("lantern", floor=0.0).passages
        healthy = library.doctor(self_test=True).healthy
        backup = tmp_path / "backup"
        library.backup(backup)
        library.delete_world("one")

    assert (before, now > 0) == (0, True)
    assert [part.source for part in found] == ["note.txt"]
    assert not other
    assert healthy
    assert backup.exists()


def test_missing_server_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address("DATABASE_URL")
    monkeypatch.setenv("TRUESPAN_STORE_URL", "postgresql://nobody@127.0.0.1:9/nothing")
    with raises_code("store_unavailable"):
        opened(tmp_path)
