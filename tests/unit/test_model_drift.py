"""A provider that changes a model behind its name is noticed before anything is embedded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.worlds import WordEmbedder, place, vector_of
from truespan.errors import ModelDrifted
from truespan.ingest.embed import PROBES
from truespan.protocols import EmbeddingLimits
from truespan.types.chunk import Vector
from truespan.types.job import JobState

TEXT = "The harbour was quiet. A light moved on the water."


@dataclass
class Served(WordEmbedder):
    """A model that is reached by name, so that another may come to stand behind it."""

    changed: bool = False

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        found = super().embed_documents(texts)
        if not self.changed:
            return found
        return [vector_of(f"{text} other model", self.profile.dimensions) for text in texts]


def served() -> Served:
    return Served(limits=EmbeddingLimits(items=16, in_flight=1, joint=True))


def test_a_changed_model_is_refused_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    embedder = served()
    here = place(tmp_path, embedder=embedder)
    world = here.world(a__txt=TEXT)
    before = here.sql("SELECT * FROM vectors ORDER BY text_hash")
    embedder.changed = True

    with pytest.raises(ModelDrifted) as refusal:
        world.ingest(here.write("world/b.txt", "Something new was written here."))

    assert refusal.value.code == "model_drifted"
    assert here.sql("SELECT * FROM vectors ORDER BY text_hash") == before
    assert world.jobs.list()[0].state is JobState.FAILED
    embedder.changed = False
    assert world.resume(world.jobs.list()[0].id).ingested == ["b.txt"]


def test_the_probes_of_the_first_run_are_the_measure_of_all_later_ones(tmp_path: Path) -> None:
    here = place(tmp_path, embedder=served())
    here.world(a__txt=TEXT)

    kept = here.sql("SELECT probe FROM probes ORDER BY probe")

    assert [name for (name,) in kept] == sorted(PROBES)


def test_what_needs_no_embedding_asks_no_probe(tmp_path: Path) -> None:
    embedder = served()
    here = place(tmp_path, embedder=embedder)
    world = here.world(a__txt=TEXT)
    asked = len(embedder.documents)
    embedder.changed = True

    assert world.ingest(here.folder / "files" / "world").unchanged == 1
    assert len(embedder.documents) == asked


def test_a_model_on_this_machine_is_known_by_its_digest_and_not_probed(tmp_path: Path) -> None:
    here = place(tmp_path)
    here.world(a__txt=TEXT)

    assert here.sql("SELECT count(*) FROM probes") == [(0,)]
