"""Refusals of a search, before any unnecessary work."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import (
    WORDS,
    LibraryFixture,
    MemoryIndex,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.errors import (
    IndexSchemaMismatch,
    IndexUnavailable,
    InvalidArgument,
    ProfileMismatch,
    ProviderBadReply,
    ProviderUnavailable,
    QueryTooLong,
    StoreDamaged,
)
from truespan.types.scope import Authority, Scope, Verb
from truespan.types.vectors import Vector

TEXT = "The lamp went out at midnight. The key was on the seventh hook. Nobody saw the boat."


@proves("settings.negative-top-k", "settings.before-metadata")
def test_negative_top_k_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=TEXT)
    lib.journal.clear()

    with pytest.raises(InvalidArgument) as refusal:
        world.search("lamp", top_k=-1)

    assert refusal.value.code == "invalid_argument"
    assert lib.journal == []


@proves("settings.boolean-top-k", "settings.boolean-floor", "settings.malformed-numbers")
@pytest.mark.parametrize(
    "settings",
    [
        {"top_k": True},
        {"top_k": False},
        {"top_k": 2.0},
        {"top_k": 2.5},
        {"top_k": "3"},
        {"top_k": None},
        {"top_k": Decimal(3)},
        {"floor": True},
        {"floor": False},
        {"floor": float("nan")},
        {"floor": float("inf")},
        {"floor": float("-inf")},
        {"floor": "0.5"},
        {"floor": Decimal("0.5")},
        {"query": 7},
        {"query": None},
    ],
    ids=str,
)
def test_settings_of_a_wrong_type_are_refused_before_anything_is_read(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=TEXT)
    lib.journal.clear()
    given: dict[str, Any] = {"query": "lamp", **settings}

    with pytest.raises(InvalidArgument):
        world.search(**given)

    assert lib.journal == []


@proves("settings.floor-range")
def test_floor_is_between_zero_and_one_inclusive(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(a__txt=TEXT)

    for refused in (-0.0001, 1.0001, -1, 2):
        with pytest.raises(InvalidArgument):
            world.search("lamp", floor=refused)

    assert world.search("lamp", floor=0.0).passages
    assert world.search("lamp", floor=1.0).passages == ()


@proves("search.world-required", "search.unknown-world", "search.zero-k-unknown-world")
@pytest.mark.parametrize("top_k", [0, 5])
def test_missing_world_is_an_error_before_provider_and_index(tmp_path: Path, top_k: int) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=TEXT)
    lib.sql("DELETE FROM worlds")
    lib.journal.clear()

    with raises_code("world_not_found") as refusal:
        world.search("lamp", top_k=top_k)

    assert refusal.value.code == "world_not_found"
    assert lib.journal == ["store.worlds.find"]
    for blank in ("", "   ", "*", "%"):
        with raises_code("world_not_found"):
            lib.library.world(blank)


@proves("authority.only-narrows", "authority.empty-means-nothing")
def test_foreign_world_is_answered_like_a_missing_one(tmp_path: Path) -> None:
    owner = make_library(tmp_path)
    scope = owner.scope(owner.world(a__txt=TEXT))
    for worlds in (frozenset(), frozenset({"another"})):
        stranger = Authority(worlds=worlds, verbs=frozenset(Verb))  # type: ignore[arg-type]
        guest = make_library(tmp_path, authority=stranger).library
        assert guest.worlds() == []
        with raises_code("world_not_found") as foreign:
            guest.world("world")
        with raises_code("world_not_found") as absent:
            guest.world("wo" + "rlt")
        assert str(foreign.value).replace("world'", "'") == str(absent.value).replace("worlt'", "'")
        with raises_code("world_not_found"):
            Scope(stranger, scope.world, scope.generation)
    nothing = owner.library._authority.narrow(worlds=[], verbs=[])
    assert nothing.narrow(worlds=[scope.world], verbs=list(Verb)) == nothing
    assert scope.narrow(documents=[]).narrow(documents=[1]).documents == frozenset()


@proves("search.zero-k-is-empty", "search.same-shape-when-empty", "search.nothing-embedded")
def test_empty_searches_have_the_normal_shape(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=TEXT)
    full = world.search("lamp", floor=0.0)
    lib.journal.clear()

    empty = world.search("lamp", top_k=0)

    assert lib.journal == ["store.worlds.find"]
    assert empty.passages == ()
    assert empty.context == ""
    assert {entry.name for entry in fields(empty)} == {entry.name for entry in fields(full)}
    assert type(empty) is type(full)

    never = lib.library.create_world("never")
    emptied = lib.world("emptied", a__txt=TEXT)
    emptied.documents.delete("1")
    lib.embedder.queries.clear()
    lib.journal.clear()

    for world in (never, emptied):
        result = world.search("lamp")
        assert [notice.code for notice in result.warnings] == ["no_embedded_chunks"]
        assert result.passages == ()
        assert result.effective_k == 0

    assert lib.embedder.queries == []
    assert not [call for call in lib.journal if call.startswith(("embedder.embed", "index"))]


@proves("search.blank-query")
@pytest.mark.parametrize("query", ["", " ", "\n\t  "])
def test_blank_query_is_refused_after_the_world_and_before_the_provider(
    tmp_path: Path, query: str
) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=TEXT)
    lib.journal.clear()

    with raises_code("blank_query") as refusal:
        world.search(query)

    assert refusal.value.code == "blank_query"
    assert lib.journal == ["store.worlds.find"]


@proves("search.query-stripped", "embedding.separate-paths")
def test_query_is_stripped_before_it_reaches_the_provider(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=TEXT)
    documents = list(lib.embedder.documents)

    world.search("  lamp \n")
    world.search("lamp")

    assert lib.embedder.queries == ["lamp"]
    assert lib.embedder.documents == documents


@proves("embedding.query-by-locked-profile", "search.profile-from-store")
@pytest.mark.parametrize(
    "change",
    [
        {"provider": "other"}, {"model": "other"}, {"revision": "2"}, {"dimensions": 32},
        {"query_mode": "other"},
    ],
    ids=str,
)  # fmt: skip
def test_embedder_other_than_the_locked_one_is_refused(tmp_path: Path, change: dict[str, Any]):
    make_library(tmp_path).world(a__txt=TEXT)
    embedder = WordEmbedder(profile=other_profile(**change))
    lib = make_library(tmp_path, embedder=embedder, watched=True)
    world = lib.library.world("world")

    with pytest.raises(ProfileMismatch) as refusal:
        world.search("lamp")

    assert refusal.value.code == "profile_mismatch"
    assert embedder.calls == 0
    assert not [call for call in lib.journal if call.startswith("index")]
    with pytest.raises(ProfileMismatch):
        world.ingest(lib.write("b.txt", TEXT))
    assert embedder.calls == 0


@proves("search.profile-from-store")
def test_locked_profile_is_read_from_the_store_every_time(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=TEXT)
    assert world.search("lamp", floor=0.0).passages
    lib.sql("UPDATE generations SET profile = replace(profile, '\"words\"', '\"other\"')")

    with pytest.raises(StoreDamaged):
        world.search("lamp", floor=0.0)


@proves("search.query-vector-length", "embedding.vectors-checked")
@pytest.mark.parametrize(
    "reply",
    [b"", b"\0" * 4 * 63, b"\0" * 4 * 64, b"\0\0\xc0\x7f" * 64, b"\0\0\x80\x7f" * 64],
    ids=["nothing", "too short", "zero", "NaN", "infinite"],
)
def test_invalid_query_vector_never_reaches_the_index(tmp_path: Path, reply: bytes):
    class Broken(WordEmbedder):
        def embed_query(self, text: str) -> Vector:
            return Vector(reply)

    lib = make_library(tmp_path, embedder=Broken(), watched=True)
    world = lib.world(a__txt=TEXT)
    lib.journal.clear()

    with pytest.raises(ProviderBadReply):
        world.search("lamp")

    assert "index.search" not in lib.journal
    assert lib.sql("SELECT count(*) FROM query_cache") == [(0,)]


@pytest.mark.contract
@proves("errors.query-token-limit")
def test_query_over_the_model_limit_has_its_own_error(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=TEXT)
    lib.journal.clear()

    with pytest.raises(QueryTooLong) as refusal:
        world.search("lamp " * (WORDS.input_limit + 1))

    assert refusal.value.code == "query_too_long"
    assert lib.embedder.queries == []
    assert "index.search" not in lib.journal
    assert world.search("lamp " * WORDS.input_limit, floor=0.0).passages


@proves("errors.provider-or-index", "errors.failure-changes-nothing")
def test_provider_and_index_failures_have_different_errors(tmp_path: Path) -> None:
    class Down(MemoryIndex):
        down = False

        def search(self, *args: Any, **kwargs: Any) -> Any:
            if self.down:
                raise IndexUnavailable("The index did not answer.")
            return super().search(*args, **kwargs)

    index = Down()
    lib = make_library(tmp_path, index=index)
    world = lib.world(a__txt=TEXT)
    before = lib.sql("SELECT * FROM chunks"), lib.sql("SELECT * FROM states")

    def fail() -> None:
        raise ProviderUnavailable("The provider did not answer.")

    lib.embedder.before = fail
    with pytest.raises(ProviderUnavailable) as provider:
        world.search("lamp")
    lib.embedder.before = None
    index.down = True
    with pytest.raises(IndexUnavailable) as vectors:
        world.search("lamp")

    assert provider.value.code != vectors.value.code
    assert provider.value.retryable
    assert vectors.value.retryable
    assert (lib.sql("SELECT * FROM chunks"), lib.sql("SELECT * FROM states")) == before


@proves("search.collection-mismatch")
def test_index_of_another_shape_is_an_error_not_an_empty_result(tmp_path: Path) -> None:
    class Misshapen(MemoryIndex):
        def search(self, *args: Any, **kwargs: Any) -> Any:
            raise IndexSchemaMismatch("64, cosine", "32, dot")

    world = make_library(tmp_path, index=Misshapen()).world(a__txt=TEXT)

    with pytest.raises(IndexSchemaMismatch) as refusal:
        world.search("lamp")

    assert refusal.value.code == "index_schema_mismatch"


@proves("settings.before-metadata")
def test_lone_surrogate_is_refused_with_an_explanation(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=TEXT)
    query = "the lamp \ud800"
    calls = (
        lambda: world.search(query),
        lambda: world.retrieve(query, language=None),
        lambda: world.retrieve("lamp", selected_text=query, language=None),
        lambda: world.answer(query),
        lambda: world.conversation().ask(query),
    )

    for call in calls:
        with pytest.raises(InvalidArgument, match="half a character"):
            call()
