"""Failures of generations: removed, not configured, disk full, moved images."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support import docx_maker
from tests.support.failures import raises_code
from tests.support.worlds import (
    LibraryFixture,
    WordEmbedder,
    make_library,
    other_profile,
    sqlite_store,
)
from truespan.engine.world import World
from truespan.errors import (
    Interrupted,
    InvalidArgument,
    InvalidConfiguration,
    ProfileMismatch,
    PromotionRefused,
    StorageFull,
)
from truespan.ingest.draft import Preparation
from truespan.retrieval.deps import OtherEmbedder
from truespan.retrieval.query import embedder_for
from truespan.types.bundle import Passage
from truespan.types.chunk import ChunkKind, FigureFlags
from truespan.types.ids import hash_text
from truespan.types.profile import SENTENCES, STANDARD_CHUNKING
from truespan.types.vectors import Vector

FERRY = "The ferry crossed the river at dawn. Nobody waved. The pilot sang of glass. " * 12
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def wide() -> WordEmbedder:
    return WordEmbedder(profile=other_profile(model="wide", dimensions=96))


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return make_library(tmp_path, others={"wide": wide()})


@proves("embedding.query-by-locked-profile")
def test_model_is_chosen_before_a_broken_one_of_its_provider(lib: LibraryFixture) -> None:
    def fail() -> WordEmbedder:
        raise InvalidConfiguration("The folder of the model is missing.")

    found = wide()
    provider = found.profile.provider
    others = {
        "good": OtherEmbedder(provider, lambda: found),
        "bad": OtherEmbedder(provider, fail),
    }

    components = replace(lib.library._components, others=others)

    assert embedder_for(components, found.profile) is found


@proves("generation.never-half-filled")
def test_removing_its_generation_ends_a_build(lib: LibraryFixture) -> None:
    world = lib.world(a__md=FERRY, b__md=FERRY + "B.")
    embedder = lib.library._components.others["wide"].embedder()
    assert isinstance(embedder, WordEmbedder)
    embedder.before = lambda: lib.store.generations.retire_generation(
        world.generations._scope_of(2)
    )

    with raises_code("generation_not_found"):
        world.generations.reindex(model="wide")
    assert not any(points for (_, tenant), points in lib.index.points.items() if tenant[-1] == "2")
    lib.store.generations.add_generation(lib.scope(world), embedder.profile, None)
    embedder.before = None
    built = world.generations._scope_of(3)
    lib.store.generations.retire_generation(built)

    with raises_code("generation_not_found"):
        world.generations._start(built, None)


@pytest.mark.contract
@proves("generation.alias-moves-on-request")
def test_moving_an_alias_keeps_its_model_and_chunking(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide", chunking="sentences")
    world.generations.promote(2)

    world.ingest(lib.write("world/more.md", FERRY + "More."), update_alias=True)

    generation = lib.scope(world).generation
    assert (generation.number, generation.profile.model) == (3, "wide")
    assert generation.chunking == SENTENCES


@proves("generation.never-half-filled")
def test_repeated_call_resumes_a_stopped_build(lib: LibraryFixture) -> None:
    world = lib.world(a__md=FERRY, b__md=FERRY + "B.")
    embedder = lib.library._components.others["wide"].embedder()
    assert isinstance(embedder, WordEmbedder)
    embedder.before = _stop
    with pytest.raises(Interrupted):
        world.generations.reindex(model="wide")
    embedder.before = None

    assert world.generations.reindex(model="wide", chunking="sentences").generation == 3
    assert world.generations.reindex(model="wide").generation == 2
    assert all(one.complete for one in world.generations.list())
    assert world.generations.reindex(model="wide").generation == 4


def _stop() -> None:
    raise KeyboardInterrupt


@proves("generation.never-half-filled")
def test_alias_cannot_move_to_a_generation_without_its_model(
    lib: LibraryFixture, tmp_path: Path
) -> None:
    lib.world(ferry__md=FERRY).generations.reindex(model="wide")
    alone = make_library(tmp_path, index=lib.index).library.world("world")

    with pytest.raises(ProfileMismatch):
        alone.generations.promote(2)

    assert alone.search("the ferry").passages


class Picky(WordEmbedder):
    """A provider without usable vectors for some texts."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        made = super().embed_documents(texts)
        size = self.profile.dimensions * 4
        return [
            Vector(bytes(size)) if "poison" in text else vector
            for text, vector in zip(texts, made, strict=True)
        ]


@proves("generation.never-half-filled")
def test_change_rejected_by_the_model_of_a_domain_is_invisible(tmp_path: Path) -> None:
    picky = Picky(profile=other_profile(model="picky", dimensions=96))
    lib = make_library(tmp_path, others={"picky": picky})
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="picky")
    world.generations.promote(2, domain="harbour")

    report = world.ingest(lib.write("world/ferry.md", FERRY + "poison."))

    assert [failure.code for failure in report.failures] == ["provider_bad_reply"]
    for asked in (world, lib.library.domain("harbour")):
        found = asked.search("the ferry and the poison", floor=0.0).passages
        assert found
        assert not any("poison" in passage.text for passage in found)


@pytest.mark.needs_extension
@proves("generation.golden-queries-first")
@pytest.mark.parametrize(
    "wrong", [{"golden": "nothing.yaml"}, {"golden": "bad.jsonl"}, {"domain_key": " k "}]
)
def test_rotation_errors_are_reported_before_any_change(
    lib: LibraryFixture, wrong: dict[str, Any]
) -> None:
    world = lib.world(ferry__md=FERRY)
    (lib.folder / "bad.jsonl").write_text("{}\n", encoding="utf-8")
    if "golden" in wrong:
        wrong = {"golden": str(lib.folder / wrong["golden"])}

    with raises_code("golden_invalid", "invalid_argument", "source_missing"):
        world.ingest(lib.write("world/b.md", FERRY), update_alias=True, **wrong)

    assert len(world.documents.list()) == 1
    assert [one.generation.number for one in world.generations.list()] == [1]


@proves("generation.alias-moves-on-request")
def test_removed_generation_cannot_be_restored_by_rollback(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex()
    world.generations.promote(2)
    world.generations.rollback()
    world.generations.remove(2)

    with pytest.raises(PromotionRefused):
        world.generations.rollback()
    world.generations.reindex()
    world.generations.promote(1, domain="harbour")
    world.generations.promote(3, domain="harbour")
    world.generations.forget("harbour")
    world.generations.promote(3, domain="harbour")
    with pytest.raises(PromotionRefused):
        world.generations.rollback(domain="harbour")


@proves("generation.target-index")
@pytest.mark.parametrize("key", ["", " a", "a\nb", "\x1b[31m", "x" * 201])
def test_domain_key_is_printable_on_one_line(lib: LibraryFixture, key: str) -> None:
    world = lib.world(ferry__md=FERRY)

    with pytest.raises(InvalidArgument):
        world.generations.promote(1, domain=key)

    assert lib.library.domains() == []


@proves("generation.target-index")
def test_texts_for_another_model_are_counted_and_predicted(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")
    source = lib.write("world/b.md", "A tower. It burned.")

    assert ["wide" in model for model in world.documents.plan(source).other_models] == [True]
    assert world.ingest(source).embedded == 2


@proves("store.disk-reserve")
def test_full_disk_does_not_prevent_another_request(lib: LibraryFixture, tmp_path: Path) -> None:
    world = lib.world(ferry__md=FERRY)
    world.reader("ann").set_position("1", sentence=4)
    asked = ("the ferry", "the pilot of glass")
    before = [world.search(query).passages for query in asked]
    read = world.reader("ann").retrieve("who sang").context
    lib.sql("DELETE FROM query_cache")
    lib.sql("DELETE FROM tails")
    lib.sql("DELETE FROM tail_marks")
    lib.store.close()

    full = sqlite_store(tmp_path / "store.db", lib.clock, reserve=1 << 60)
    msgspec.structs.force_setattr(lib.library._components, "store", full)

    again = lib.library.world("world")
    assert [again.search(query).passages for query in asked] == before
    assert again.reader("ann").retrieve("who sang").context == read
    with pytest.raises(StorageFull):
        again.ingest(lib.write("world/b.md", FERRY))


@proves("store.disk-reserve")
def test_full_disk_does_not_prevent_deletion(lib: LibraryFixture, tmp_path: Path) -> None:
    lib.world(ferry__md=FERRY, b__md="A tower. It burned.")
    lib.store.close()
    full = sqlite_store(tmp_path / "store.db", lib.clock, reserve=1 << 60)
    msgspec.structs.force_setattr(lib.library._components, "store", full)
    world = lib.library.world("world")

    receipt = world.documents.delete("ferry.md")

    assert (receipt.rows["documents"], receipt.erased) == (1, False)
    assert [document.name for document in world.documents.list()] == ["b.md"]
    with pytest.raises(StorageFull):
        world.ingest(lib.write("world/c.md", FERRY))
    assert lib.library.delete_world("world").rows["documents"] == 1


def text(words: str) -> str:
    return docx_maker.p(docx_maker.r(f"<w:t>{words}</w:t>"))


def write_with_pictures(folder: Path, seed: int) -> str:
    random = Random(seed)
    body = ""
    for number in range(30):
        filler = "So. " * random.randrange(40)
        body += text(f"Paragraph {number} tells of the harbour. {filler}")
        if random.random() < 0.5:
            body += docx_maker.p(docx_maker.picture("i1", alt=f"map {number}"))
            body += text(f"Figure {number}: a map.")
    path = folder / f"pictured{seed}.docx"
    path.write_bytes(
        docx_maker.docx(
            body, relations=[("i1", "image", "media/one.png")], media={"word/media/one.png": PNG}
        )
    )
    return str(path)


def figures(world: World) -> dict[str | None, tuple[int, int | None, str]]:
    found = world.search("a map of the harbour", top_k=500, floor=0.0).passages
    return {one.figure_id: _place(one) for one in found if one.chunk_type is ChunkKind.FIGURE}


def _place(one: Passage) -> tuple[int, int | None, str]:
    return one.start, one.parent_chunk_local_index, one.text


@proves("figures.chunk-fields")
@pytest.mark.parametrize("placeholders", [True, False])
@pytest.mark.parametrize("chunking", sorted(STANDARD_CHUNKING))
def test_rechunked_figures_are_placed_like_freshly_ingested_ones(
    tmp_path: Path, chunking: str, placeholders: bool
) -> None:
    flags = FigureFlags(placeholders=placeholders, chunks=True)
    lib = make_library(tmp_path / "lib", preparation=Preparation(figures=flags))
    for seed in range(3):
        source = write_with_pictures(tmp_path, seed)
        first = lib.library.create_world(f"first{seed}")
        first.ingest(source, chunking="window")
        first.generations.reindex(chunking=chunking)
        fresh = lib.library.create_world(f"fresh{seed}")
        fresh.ingest(source, chunking=chunking)

        anew = World(replace(first.access, target=2))

        assert figures(fresh)
        assert figures(anew) == figures(fresh)


@proves("verify.every-point")
def test_forged_figure_is_not_copied_to_another_generation(tmp_path: Path) -> None:
    flags = FigureFlags(placeholders=True, chunks=True)
    lib = make_library(tmp_path / "lib", preparation=Preparation(figures=flags))
    world = lib.library.create_world("world")
    world.ingest(write_with_pictures(tmp_path, 0), chunking="window")
    true, forged = figures(world), "A map of another harbour."
    lib.sql(
        "UPDATE chunks SET text = ?, text_hash = ? WHERE figure IS NOT NULL",
        forged,
        hash_text(forged),
    )

    world.generations.reindex(chunking="sentences")

    assert forged not in lib.embedder.documents
    lib.library.doctor(apply=True)
    world.generations.reindex(chunking="sentences")
    assert forged not in lib.embedder.documents
    assert figures(world) == true
