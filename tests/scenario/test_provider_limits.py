"""Keys, rate and size of the requests to a provider."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.providers import OpenAi, PassingClock
from tests.support.providers.cooldowns import MemoryCooldowns
from tests.support.providers.embedders import make_embedder
from tests.support.providers.openai import complaint
from tests.support.worlds import LibraryFixture, WordCounter, make_library, similarity, vector_of
from truespan.errors import ProviderRefused, TruespanError
from truespan.providers.keys import KeyRing
from truespan.providers.limits import RateLimiter
from truespan.providers.openai import OpenAiEmbedder
from truespan.types.token import ProviderKey, Secret

KEY = "sk-canary-77aa01"
TIDE = "The tide comes in twice a day."


def key(**changes: Any) -> ProviderKey:
    given: dict[str, Any] = {"enabled": True, "models": None}
    return ProviderKey("openai", "main", Secret(KEY), **given | changes)


def opened(
    folder: Path,
    server: OpenAi,
    *,
    keys: list[ProviderKey] | None = None,
    cooldowns: MemoryCooldowns | None = None,
    index: Any = None,
    **changes: Any,
) -> LibraryFixture:
    clock = changes.pop("clock", None) or PassingClock()
    own = [key()] if keys is None else keys
    given: dict[str, Any] = {"in_flight": 1} | changes
    embedder: Any = make_embedder(
        OpenAiEmbedder,
        server.base,
        server.model,
        keys=KeyRing("openai", own, cooldowns or MemoryCooldowns(), clock),
        dimensions=None,
        counter=WordCounter(),
        clock=clock,
        **given,
    )
    return make_library(folder, embedder=embedder, clock=clock, index=index)


def content_of(lib: LibraryFixture) -> list[list[tuple[Any, ...]]]:
    tables = lib.sql("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    return [lib.sql(f"SELECT * FROM {name}") for (name,) in tables]


UNUSABLE = {
    "missing": [],
    "disabled": [key(enabled=False)],
    "for another model": [key(models=("another",))],
    "for no model": [key(models=())],
}


@proves("errors.bad-key-configuration", "errors.credentials-before-index")
@pytest.mark.parametrize("keys", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_missing_key_sends_and_changes_nothing(tmp_path: Path, keys: list[ProviderKey]):
    with OpenAi() as server:
        before = opened(tmp_path, server)
        before.world(tide__txt=TIDE)
        lib = opened(tmp_path, server, keys=keys, index=before.index)
        world, path = lib.library.world("world"), lib.write("late.txt", "It comes late.")
        kept, calls, asked = content_of(lib), list(lib.index.calls), len(server.asked)

        for call in (lambda: world.search("the tide"), lambda: world.ingest(path)):
            with raises_code("credentials_missing"):
                call()

        assert content_of(lib) == kept
        assert lib.index.calls == calls
        assert len(server.asked) == asked


@proves("errors.cooldown-before-index")
def test_cooling_key_stops_a_search_before_provider_and_index(tmp_path: Path) -> None:
    with OpenAi() as server:
        clock, cooldowns = PassingClock(), MemoryCooldowns()
        lib = opened(tmp_path, server, clock=clock, cooldowns=cooldowns)
        world = lib.world(tide__txt=TIDE)
        cooldowns.cool_down("openai", "main", clock.now() + 40)
        calls, asked = list(lib.index.calls), len(server.asked)

        with raises_code("provider_cooldown") as caught:
            world.search("the tide")

        assert caught.value.retry_after == 40.0
        assert (caught.value.code, caught.value.retryable) == ("provider_cooldown", True)
        assert [call for call in lib.index.calls if call not in calls] == []
        assert lib.index.calls.count("search") == calls.count("search")
        assert len(server.asked) == asked
        clock.time += 41
        assert world.search("the tide", floor=0.0).passages


@proves("errors.bad-key-configuration")
def test_denied_key_changes_nothing_in_the_store(tmp_path: Path) -> None:
    with OpenAi() as server:
        lib = opened(tmp_path, server)
        world = lib.world(tide__txt=TIDE)
        server.keys = ()
        kept, searched = content_of(lib), lib.index.calls.count("search")

        with pytest.raises(ProviderRefused):
            world.search("the tide")

        assert content_of(lib) == kept
        assert lib.index.calls.count("search") == searched


@proves("embedding.rate-limit", "embedding.batch-items")
def test_ingestion_respects_its_rate_and_batch_size(tmp_path: Path) -> None:
    with OpenAi() as server:
        clock = PassingClock()
        begun: list[float] = []
        server.fault = lambda asked: begun.append(clock.time)
        lib = opened(tmp_path, server, clock=clock, items=10, pace=RateLimiter(4, clock))
        world = lib.library.create_world("world")

        report = world.ingest([lib.write(f"{n}.txt", f"This is story {n}.") for n in range(60)])

        assert len(report.ingested) == 60
        assert max(len(asked["input"]) for asked in server.embeds) == 10
        assert len(begun) == len(server.asked) > 8
        for moment in begun:
            assert sum(moment <= other < moment + 60 for other in begun) <= 4


@proves("embedding.oversized-item", "embedding.vector-per-input")
def test_provider_with_a_lower_limit_gets_smaller_batches(tmp_path: Path) -> None:
    with OpenAi() as server:
        server.most_texts = 5
        lib = opened(tmp_path, server, items=32)
        world = lib.library.create_world("world")

        report = world.ingest([lib.write(f"{n}.txt", f"This is story {n}.") for n in range(40)])

        assert (len(report.ingested), report.failures) == (40, [])
        for chunk_id, point in lib.points(world).items():
            chunk = world.documents.chunk(chunk_id).chunk
            assert chunk is not None
            assert similarity(point.vector, vector_of(chunk.data.decode())) > 0.9999


@proves("embedding.no-silent-truncation")
def test_overlong_chunk_keeps_its_bounds_and_is_found(tmp_path: Path) -> None:
    text = " ".join(f"This is sentence{number} of a long chapter." for number in range(20))
    with OpenAi(context=60) as server:
        world = opened(tmp_path, server).world(tide__txt=TIDE, long__txt=text)

        found = world.search("sentence19 of a long chapter", floor=0.0).passages

        assert found[0].text == text
        assert max(len(one.split()) for asked in server.embeds for one in asked["input"]) > 60
        assert {document.name for document in world.documents.list() if document.active} == {
            "tide.txt",
            "long.txt",
        }


@proves("errors.no-secrets")
def test_key_is_in_no_log_error_or_file(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with OpenAi() as server:
        lib = opened(tmp_path, server)
        world = lib.world(tide__txt=TIDE)
        server.fault = lambda asked: complaint(401, f"Incorrect key {asked.headers!r}")

        with pytest.raises(TruespanError) as caught:
            world.search("the tide")

        shown = repr(caught.getrepr(showlocals=False, style="long")) + caplog.text
        assert any(KEY in str(asked.headers) for asked in server.asked)
        assert KEY not in shown + repr(vars(caught.value)) + repr(lib.embedder)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert files
        assert all(KEY.encode() not in path.read_bytes() for path in files)
