"""Generations: building, promotion in one commit, and rollback."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library, other_profile
from truespan.engine.world import World
from truespan.errors import InvalidArgument, ProfileMismatch, PromotionRefused, ProviderUnavailable
from truespan.tables import tables
from truespan.types.document import Verdict
from truespan.types.profile import SENTENCES
from truespan.types.scope import Authority, Verb

FERRY = "The ferry crossed the river at dawn. Nobody waved. The pilot sang of glass. " * 12
TOWER = "The tower burned in winter. Ash fell on the market. The bell was never found. " * 12


def two_models(folder: Path) -> LibraryFixture:
    wide = WordEmbedder(profile=other_profile(model="wide", dimensions=96))
    return make_library(folder, others={"wide": wide})


def texts(world: World, query: str = "the ferry and the river") -> list[str]:
    return [passage.text for passage in world.search(query, floor=0.0).passages]


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return two_models(tmp_path)


@proves("generation.alias-moves-on-request", "generation.never-half-filled")
def test_generation_of_another_model_is_visible_after_promotion(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY, tower__md=TOWER)
    before = world.search("the ferry")

    assert world.generations.reindex(model="wide").generation == 2
    assert world.search("the ferry") == before
    done = world.generations.promote(2)
    assert (done.generation, done.previous) == (2, 1)
    after = world.search("the ferry")
    assert {one.receipt.generation for one in after.passages} == {2}
    assert sorted(one.text for one in after.passages) == sorted(one.text for one in before.passages)
    assert len(lib.index.points[(lib.scope(world).profile.id, lib.scope(world).tenant)]) > 0


@proves("generation.alias-moves-on-request")
def test_rollback_restores_the_earlier_results(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY, tower__md=TOWER)
    before = world.search("the ferry")
    world.generations.reindex(model="wide")
    world.generations.promote(2)

    back = world.generations.rollback()

    assert (back.generation, back.previous) == (1, 2)
    assert world.search("the ferry") == before


def chunking_of(world: World, generation: int) -> list[tuple[int, int]]:
    found = aimed(world, generation)
    return sorted((one.start, one.end) for one in found.search("river", floor=0.0).passages)


@pytest.mark.contract
@proves("generation.target-index")
def test_another_chunking_uses_the_stored_text_of_every_document(
    lib: LibraryFixture, tmp_path: Path
) -> None:
    world = lib.world(ferry__md=FERRY)
    (tmp_path / "files" / "world" / "ferry.md").unlink()

    world.generations.reindex(chunking="sentences")
    world.generations.promote(2)

    fresh = two_models(tmp_path / "fresh").library.create_world("fresh")
    source = tmp_path / "again.md"
    source.write_text(FERRY, encoding="utf-8")
    fresh.ingest(source, chunking="sentences")
    assert lib.scope(world).generation.chunking == SENTENCES
    assert chunking_of(world, 2) == chunking_of(fresh, 1)
    assert chunking_of(world, 2) != chunking_of(world, 1)


@proves("generation.never-half-filled")
def test_document_changed_during_a_build_is_in_both_generations(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")

    world.ingest([lib.write("world/tower.md", TOWER), lib.write("world/ferry.md", FERRY + "Z.")])

    first, second = world.generations.list()
    assert (first.complete, second.complete) == (True, True)
    assert (first.documents, second.documents) == (2, 2)
    world.generations.promote(2)
    assert sorted(texts(world)) == sorted(texts(aimed(world, 1)))


def aimed(world: World, generation: int) -> World:
    return World(replace(world.access, target=generation))


@proves("generation.never-half-filled")
def test_incomplete_generation_is_not_promoted(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY, tower__md=TOWER)
    wide = other_profile(model="wide", dimensions=96)
    lib.store.generations.add_generation(lib.scope(world), wide, None)

    with raises_code("generation_incomplete") as caught:
        world.generations.promote(2)

    assert "2 documents" in str(caught.value)
    assert lib.scope(world).generation.number == 1


@proves("generation.never-half-filled")
def test_generation_with_wrong_points_is_not_promoted(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")
    built = lib.library._components.store.worlds.kept_generations(lib.scope(world))[1].generation
    lost = lib.index.points[(built.profile.id, f"{world.id}.2")]
    lost.pop(next(iter(lost)))

    with pytest.raises(PromotionRefused, match="missing_point"):
        world.generations.promote(2)

    assert lib.scope(world).generation.number == 1


def golden(folder: Path, phrase: str) -> str:
    path = folder / "golden.yaml"
    path.write_text(
        f'- query: "the ferry and the river"\n  phrases:\n    - "{phrase}"\n', encoding="utf-8"
    )
    return str(path)


@pytest.mark.needs_extension
@pytest.mark.contract
@proves("generation.golden-queries-first")
def test_failing_golden_queries_do_not_move_the_alias(tmp_path: Path) -> None:
    blind = WordEmbedder(profile=other_profile(model="blind", dimensions=1))
    lib = make_library(tmp_path, others={"blind": blind})
    files = {f"filler{number}__md": f"Filler {number} of no use. " for number in range(20)}
    world = lib.world(**files, ferry__md="The ferry and the river met.")
    world.generations.reindex(model="blind")

    with pytest.raises(PromotionRefused):
        world.generations.promote(2, golden=golden(tmp_path, "ferry and the river met"))

    assert lib.scope(world).generation.number == 1


@pytest.mark.needs_extension
@proves("generation.golden-queries-first")
def test_golden_queries_are_run_on_both_before_the_alias_moves(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY, tower__md=TOWER)
    world.generations.reindex(model="wide")

    done = world.generations.promote(2, golden=golden(lib.folder, "The pilot sang"))

    assert done.verdict is not None
    assert done.verdict.passed
    wide = lib.library._components.others["wide"].embedder()
    assert lib.embedder.queries[-1] == "the ferry and the river"
    assert isinstance(wide, WordEmbedder)
    assert wide.queries == ["the ferry and the river"]


@proves("generation.target-index")
def test_ingestion_under_a_domain_writes_to_its_generation(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")
    world.generations.promote(2, domain="harbour")

    lib.library.domain("harbour").ingest(lib.write("world/tower.md", TOWER))

    tower = "the tower in winter"
    harbour = lib.library.domain("harbour").search(tower)
    assert {one.receipt.generation for one in harbour.passages} == {2}
    assert {one.receipt.generation for one in world.search(tower).passages} == {1}
    assert harbour.passages[0].text == world.search(tower).passages[0].text


@proves("generation.alias-moves-on-request")
def test_alias_moves_only_with_update_alias(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    source = lib.write("world/tower.md", TOWER)

    assert world.ingest(source).generation is None
    assert lib.scope(world).generation.number == 1
    lib.write("world/tower.md", TOWER + "It was rebuilt.")
    report = world.ingest(source, update_alias=True)
    assert report.generation == lib.scope(world).generation.number == 2
    assert world.ingest(source, domain_key="towers", update_alias=True).generation == 3
    assert [(one.key, one.generation) for one in lib.library.domains()] == [("towers", 3)]
    assert lib.scope(world).generation.number == 2


@proves("generation.alias-moves-on-request")
def test_update_alias_builds_no_generation_of_unchanged_documents(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    source = lib.folder / "files" / "world" / "ferry.md"

    report = world.ingest(source, update_alias=True)

    assert (report.generation, report.unchanged) == (None, 1)
    assert report.warnings == ["Nothing changed, so generation 1 stays in use."]
    assert [record.generation.number for record in world.generations.list()] == [1]


@proves("generation.alias-moves-on-request")
def test_update_alias_names_unused_generations(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    warnings = []
    for edit in range(4):
        source = lib.write("world/tower.md", f"{TOWER} {edit}")
        warnings.append(world.ingest(source, update_alias=True).warnings)

    # The generation before is kept for a rollback.
    assert warnings[0] == []
    said = ["generation 1.", "generation 1, 2.", "generation 1, 2, 3."]
    for [warning], numbers in zip(warnings[1:], said, strict=True):
        assert numbers in warning
        assert "'truespan generations --remove 1 -w world'" in warning
    world.generations.remove(1)
    assert world.generations.rollback().generation == 4


@proves("generation.golden-queries-first")
def test_golden_queries_without_their_extension_refuse_the_promotion(
    lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")
    asked = golden(lib.folder, "The pilot sang")
    source = lib.write("world/tower.md", TOWER)
    monkeypatch.setattr(tables(), "gates", {})
    monkeypatch.setattr(tables(), "members", {})

    with raises_code("extension_missing", match="quality"):
        world.generations.promote(2, golden=asked)
    with raises_code("extension_missing", match="quality"):
        world.ingest(source, update_alias=True, golden=asked)

    assert lib.scope(world).generation.number == 1
    assert len(world.documents.list()) == 1


def refuse(access: object, candidate: object) -> Verdict:
    return Verdict(False, ())


@proves("generation.golden-queries-first")
def test_gate_of_another_extension_refuses_a_promotion(
    lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")
    monkeypatch.setitem(tables().gates, "own", f"{__name__}:refuse")

    with pytest.raises(PromotionRefused):
        world.generations.promote(2)

    assert lib.scope(world).generation.number == 1


@pytest.mark.needs_extension
@proves("generation.golden-queries-first")
def test_failing_golden_queries_of_an_ingestion_do_not_move_the_alias(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    source = lib.write("world/tower.md", TOWER)
    asked = golden(lib.folder, "words that stand nowhere")

    with pytest.raises(PromotionRefused):
        world.ingest(source, domain_key="towers", update_alias=True, golden=asked)
    with pytest.raises(PromotionRefused) as caught:
        world.ingest(source, domain_key="towers", update_alias=True, golden=asked)

    assert lib.library.domains() == []
    assert len(world.documents.list()) == 2
    assert [record.generation.number for record in world.generations.list()] == [1]
    assert caught.value.report.unchanged == 1  # type: ignore[union-attr]
    message = str(caught.value)
    assert "The domain 'towers' was not moved, and the new generation was removed." in message
    assert "searches find them" in message
    assert world.search("tower", floor=0.0, documents=["tower.md"]).passages


@pytest.mark.needs_extension
@proves("generation.golden-queries-first")
def test_ingestion_is_compared_with_earlier_results(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    source = str(lib.folder / "files" / "world" / "ferry.md")
    asked = golden(lib.folder, " ".join(FERRY.split()[:6]))
    lib.write("world/ferry.md", TOWER)

    with pytest.raises(PromotionRefused):
        world.ingest(source, update_alias=True, golden=asked)

    assert [record.generation.number for record in world.generations.list()] == [1]


@pytest.mark.needs_extension
@proves("generation.golden-queries-first")
def test_golden_query_about_a_new_document_is_judged_after_it(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    asked = lib.folder / "golden.jsonl"
    rows = [
        {"query": " ".join(text.split()[:6]), "expected": [name]}
        for name, text in (("ferry.md", FERRY), ("tower.md", TOWER))
    ]
    asked.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    report = world.ingest(lib.write("world/tower.md", TOWER), update_alias=True, golden=str(asked))

    assert report.generation == lib.scope(world).generation.number == 2
    # A new query does not compensate for an old query without results.
    lib.write("world/ferry.md", "Nothing of that is left here.")
    rows.append({"query": "Where is the quay?", "expected": ["quay.md"]})
    asked.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lib.write("world/quay.md", "The quay is behind the tower. Where is the quay?")
    with pytest.raises(PromotionRefused) as refusal:
        world.ingest(lib.folder / "files" / "world", update_alias=True, golden=str(asked))
    assert "falls from" in str(refusal.value)


@proves("generation.target-index")
def test_unknown_and_foreign_domains_get_the_same_refusal(lib: LibraryFixture) -> None:
    mine, other = lib.world("mine", a__md=FERRY), lib.world("other", b__md=TOWER)
    other.generations.promote(1, domain="theirs")
    bound = Authority(worlds=frozenset({lib.scope(mine).world}), verbs=frozenset(Verb))
    library = type(lib.library)(lib.library._components, bound)

    messages = []
    for key in ("theirs", "nobodys"):
        with raises_code("domain_not_found") as caught:
            library.domain(key)
        messages.append(str(caught.value).replace(key, "KEY"))

    assert messages[0] == messages[1]
    assert library.domains() == []
    with raises_code("domain_not_found"):
        mine.generations.promote(1, domain="theirs")
    with pytest.raises(InvalidArgument):
        lib.library.domain("theirs", world="mine")


@proves("generation.alias-moves-on-request")
def test_only_an_unused_generation_can_be_removed(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")
    world.generations.promote(2, domain="harbour")

    for named in (1, 2):
        with raises_code("generation_in_use"):
            world.generations.remove(named)
    world.generations.forget("harbour")
    world.generations.remove(2)

    assert [one.generation.number for one in world.generations.list()] == [1]
    assert not any(
        points
        for (_, tenant), points in lib.index.points.items()
        if "." in tenant and tenant.endswith(".2")
    )
    assert lib.sql("SELECT count(*) FROM states WHERE generation = 2") == [(0,)]
    assert lib.sql(
        "SELECT count(*) FROM vectors WHERE profile_id <> ?", lib.scope(world).profile.id
    ) == [(0,)]
    with raises_code("generation_not_found"):
        world.generations.promote(2)
    assert world.generations.reindex().generation == 3


@proves("generation.never-half-filled")
def test_reader_keeps_the_position_in_another_generation(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    reader = world.reader("ann")
    reader.set_position("1", sentence=9)
    before = reader.retrieve("the pilot")
    world.generations.reindex(chunking="sentences")
    world.generations.promote(2)

    after = reader.retrieve("the pilot")

    assert after.retrieved_chunks
    assert before.retrieved_chunks
    assert max(note.last_sid for note in after.metadata.sources) <= 9
    assert {note.generation for note in after.metadata.sources} == {2}


@proves("generation.alias-moves-on-request")
def test_promoting_the_current_generation_moves_nothing(lib: LibraryFixture) -> None:
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")
    world.generations.promote(2)
    world.generations.promote(2)

    assert world.generations.rollback().generation == 1


@proves("generation.never-half-filled")
def test_build_is_resumed_by_its_job_and_not_by_an_ingestion(lib: LibraryFixture):
    world = lib.world(ferry__md=FERRY)
    wide = lib.library._components.others["wide"].embedder()
    assert isinstance(wide, WordEmbedder)
    wide.before = _broken
    with pytest.raises(ProviderUnavailable):
        world.generations.reindex(model="wide")
    wide.before = None
    job = next(one for one in world.jobs.list() if one.kind == "reindex")

    with pytest.raises(InvalidArgument):
        world.jobs.resume(job.id)
    report = world.generations.resume(job.id)

    assert (report.generation, report.failures) == (2, [])
    assert world.generations.get(2).complete


def _broken() -> None:
    raise ProviderUnavailable("It did not answer.")


@proves("generation.never-half-filled")
def test_generation_is_never_embedded_with_another_model(tmp_path: Path) -> None:
    lib = two_models(tmp_path)
    world = lib.world(ferry__md=FERRY)
    world.generations.reindex(model="wide")
    lib.sql("UPDATE states SET state = 'pending' WHERE generation = 2")
    lib.sql("DELETE FROM vectors WHERE profile_id <> ?", lib.scope(world).profile.id)
    alone = make_library(tmp_path, index=lib.index)

    alone.library.world("world").repair()

    assert alone.embedder.documents == []
    assert alone.sql("SELECT count(*) FROM states WHERE generation = 2 AND state <> 'pending'") == [
        (0,)
    ]
    with pytest.raises(ProfileMismatch):
        alone.library.world("world").generations.reindex(generation=2)


@proves("generation.target-index")
def test_empty_world_reports_that_it_has_no_generations(lib: LibraryFixture) -> None:
    empty = lib.library.create_world("empty")

    assert empty.generations.list() == []
    with pytest.raises(InvalidArgument, match="is empty"):
        empty.generations.reindex()
