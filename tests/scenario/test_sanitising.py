"""Personal data during ingestion: found before chunking, and removed where configured."""

import logging
import sqlite3
import sys
from functools import partial
from pathlib import Path

import pytest

import truespan
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library, query
from truespan.engine.world import World
from truespan.errors import InvalidConfiguration
from truespan.extensions.checks.sanitize.findings import Mode, Style
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer
from truespan.ingest.draft import Preparation
from truespan.tables import tables
from truespan.testing import WordCounter, WordEmbedder
from truespan.types.job import IngestJob

SECRETS = ("ada.lind@harbour.example", "DE89370400440532013000", "4111 1111 1111 1111")
TEXT = (
    f"Write to {SECRETS[0]} about the boats. The account is {SECRETS[1]}. "
    f"She paid with {SECRETS[2]} at the pier. Nobody else knew."
)
PAGE = (
    f"<html><head><title>Letters of {SECRETS[0]}</title>"
    f"<meta name='author' content='{SECRETS[0]}'></head><body><h1>Notes of {SECRETS[0]}</h1>"
    f"<p>{TEXT}</p><img alt='Card {SECRETS[2]}' src='data:image/png;base64,iVBORw0KGgo='>"
    "</body></html>"
)


def library(folder: Path, mode: Mode, **settings: object) -> LibraryFixture:
    sanitizer = Sanitizer(mode=mode, **settings)  # type: ignore[arg-type]
    return make_library(folder, preparation=Preparation(sanitizer=sanitizer))


def filled(lib: LibraryFixture) -> World:
    return lib.world(letters__html=PAGE, note__txt=TEXT)


def everything(lib: LibraryFixture) -> str:
    """Return every byte that the store keeps, in any table."""
    query(lib.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    with sqlite3.connect(lib.folder / "store.db") as connection:
        return "\n".join(connection.iterdump())


@proves("sanitise.before-chunking")
@pytest.mark.parametrize("style", list(Style))
def test_redacted_values_reach_nothing(
    tmp_path: Path, style: Style, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lib = library(tmp_path, Mode.ON, style=style, key=b"k" * 32)
    world = filled(lib)
    found = world.search("account boats pier", floor=0.0)
    points = repr(list(lib.points(world).values()))

    for secret in SECRETS:
        for place_ in (
            everything(lib),
            repr(lib.embedder.documents),
            points,
            repr(found),
            caplog.text,
            repr(world.jobs.lines(world.jobs.list()[0].id)),
        ):
            assert secret not in place_
    assert "[EMAIL" in world.documents.text("note.txt")
    assert "Nobody else knew." in world.documents.text("note.txt")


@proves("sanitise.before-chunking")
def test_pseudonyms_depend_on_value_and_key(tmp_path: Path) -> None:
    def words(name: str, key: bytes) -> str:
        lib = library(tmp_path / name, Mode.ON, style=Style.PSEUDONYM, key=key)
        return filled(lib).documents.text("note.txt")

    one, same, other = words("a", b"k" * 32), words("b", b"k" * 32), words("c", b"x" * 32)

    assert one == same
    assert one != other


@proves("sanitise.audit-and-off")
def test_shadow_counts_and_changes_nothing(tmp_path: Path) -> None:
    plain, shadow = library(tmp_path / "off", Mode.OFF), library(tmp_path / "shadow", Mode.SHADOW)
    untouched, counted = filled(plain), filled(shadow)

    assert counted.documents.text("note.txt") == untouched.documents.text("note.txt")
    assert shadow.embedder.documents == plain.embedder.documents
    found = {entry.label: entry for entry in counted.documents.audit("note.txt")}
    assert {label: entry.count for label, entry in found.items()} == {
        "CREDIT_CARD": 1,
        "EMAIL": 1,
        "IBAN": 1,
    }
    assert not any(entry.redacted for entry in found.values())
    lines = [line.line for line in counted.jobs.lines(counted.jobs.list()[0].id)]
    assert any("SANITIZE_AUDIT" in line for line in lines)
    assert not any(secret in line for line in lines for secret in SECRETS)


@proves("sanitise.audit-and-off")
def test_sanitizer_off_records_nothing(tmp_path: Path) -> None:
    lib = library(tmp_path, Mode.OFF)
    world = filled(lib)

    assert world.documents.audit("note.txt") == []
    assert lib.sql("SELECT count(*) FROM audits") == [(0,)]
    assert not any("SANITIZE" in line.line for line in world.jobs.lines(world.jobs.list()[0].id))


@proves("sanitise.audit-and-off")
def test_switching_the_sanitizer_on_covers_existing_documents(tmp_path: Path) -> None:
    lib = library(tmp_path, Mode.OFF)
    world = filled(lib)
    lib.library.close()

    again = library(tmp_path, Mode.ON)
    report = again.library.world(world.id).ingest(lib.folder / "files")

    assert sorted(report.ingested) == ["letters.html", "note.txt"]
    assert not any(secret in everything(again) for secret in SECRETS)


@proves("sanitise.before-chunking")
@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_ingestion_without_the_sanitizer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("TRUESPAN_SANITIZE_ENABLED", mode)
    monkeypatch.delitem(tables().components, "sanitizer")
    source = tmp_path / "note.txt"
    source.write_text(TEXT, encoding="utf-8")

    with truespan.open(
        tmp_path / "library", create=True, embedder=WordEmbedder(), counter=WordCounter()
    ) as library:
        world = library.world("w", create=True)
        for refused in (
            partial(world.ingest, source),
            partial(world.documents.plan, source),
            partial(world.jobs.submit, IngestJob(source)),
        ):
            with raises_code("extension_missing", match=r"sanitizer.*'checks'"):
                refused()
        with raises_code("extension_missing", match="'checks'"):
            world.add_text("Some text.")
        assert world.documents.list() == world.jobs.list() == []
        assert world.search("anything").passages == ()


@proves("sanitise.before-chunking")
@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_sanitising_without_its_packages_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    truespan.open(tmp_path, create=True).close()
    monkeypatch.setenv("TRUESPAN_SANITIZE_ENABLED", mode)
    monkeypatch.setitem(sys.modules, "phonenumbers", None)

    with pytest.raises(InvalidConfiguration) as refusal:
        truespan.open(tmp_path)
    assert (
        "the extra 'sanitize', or exclude PHONE in a file that sanitize_profile names"
        in refusal.value.advice
    )
    (tmp_path / "rules.toml").write_text('without = ["PHONE"]')
    monkeypatch.setenv("TRUESPAN_SANITIZE_PROFILE", "rules.toml")
    truespan.open(tmp_path).close()
    monkeypatch.setitem(sys.modules, "stdnum", None)
    with pytest.raises(InvalidConfiguration, match="packages are missing"):
        truespan.open(tmp_path)
    monkeypatch.setenv("TRUESPAN_SANITIZE_ENABLED", "off")
    truespan.open(tmp_path).close()
