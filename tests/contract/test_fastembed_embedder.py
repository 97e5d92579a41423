"""The embedder of the extra `fastembed`: what is said when it is missing, and what it gives.

Its models are downloaded from a hub that tests do not reach. The contract runs on the files of the
local model, put into a folder under the names that `fastembed` expects.
"""

from __future__ import annotations

import math
import shutil
import sys
from array import array
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.contract.keyed_parts import PASSAGES
from tests.promises import proves
from tests.support.worlds import similarity
from truespan.errors import ModelUnavailable, TextTooLong
from truespan.protocols import Embedder
from truespan.providers.fastembed import INSTALL, FastembedEmbedder
from truespan.providers.local import LocalModel
from truespan.types.vectors import Vector

INSTALLED = find_spec("fastembed") is not None
MODEL = "BAAI/bge-small-en-v1.5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not INSTALLED:
        pytest.skip("fastembed is not installed; its embedder was not tried")
    made = tmp_path_factory.mktemp("fastembed")
    files = LocalModel().location
    shutil.copy(files / "model_quantized.onnx", made / "model_optimized.onnx")
    shutil.copy(files / "tokenizer.json", made)
    (made / "tokenizer_config.json").write_text('{"model_max_length": 512, "pad_token": "[PAD]"}')
    (made / "config.json").write_text('{"pad_token_id": 0}')
    return made


@pytest.fixture(scope="module")
def embedder(folder: Path) -> FastembedEmbedder:
    return FastembedEmbedder(MODEL, cache_dir=folder, folder=folder, threads=1)


def test_missing_package_error_has_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    embedder = FastembedEmbedder(cache_dir=tmp_path)

    for call in (
        lambda: embedder.profile,
        lambda: embedder.embed_query("q"),
        lambda: embedder.embed_documents(["d"]),
        lambda: embedder.count_query("q"),
    ):
        with pytest.raises(ModelUnavailable) as caught:
            call()
        assert INSTALL in caught.value.advice


def test_package_is_imported_when_first_needed(tmp_path: Path) -> None:
    before = "fastembed" in sys.modules

    port: Embedder = FastembedEmbedder(cache_dir=tmp_path)

    assert (port.endpoint, port.limits.joint, port.limits.in_flight) == ("local", False, 1)
    assert port.embed_documents([]) == []
    assert ("fastembed" in sys.modules) is before


@pytest.mark.skipif(not INSTALLED, reason="fastembed is not installed; its errors were not tried")
def test_missing_model_error_has_the_download_command(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        assert FastembedEmbedder(MODEL, cache_dir=tmp_path / "cache").profile

    assert MODEL in caught.value.message
    assert "TextEmbedding('BAAI/bge-small-en-v1.5'" in caught.value.advice


@pytest.mark.skipif(not INSTALLED, reason="fastembed is not installed; its errors were not tried")
def test_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no model 'my/own'"):
        assert FastembedEmbedder("my/own", cache_dir=tmp_path).profile


def test_profile_states_everything_that_affects_a_vector(embedder: FastembedEmbedder) -> None:
    profile = embedder.profile

    assert (profile.provider, profile.model) == ("fastembed", MODEL)
    assert (profile.dimensions, profile.input_limit) == (384, 510)
    assert profile.revision.startswith("sha256:")
    assert "Represent this sentence" in profile.query_mode


def test_other_model_files_are_another_profile(embedder: FastembedEmbedder, folder: Path) -> None:
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    with (other / "tokenizer_config.json").open("a") as file:
        file.write("\n")

    changed = FastembedEmbedder(MODEL, cache_dir=other, folder=other, threads=1)

    assert changed.profile.id != embedder.profile.id


@proves("embedding.vector-per-input")
def test_vector_depends_on_its_text_alone(embedder: FastembedEmbedder) -> None:
    together = embedder.embed_documents([*PASSAGES, "word " * 400])

    alone = [embedder.embed_documents([text])[0] for text in PASSAGES]
    assert together[:3] == alone
    assert embedder.embed_documents(PASSAGES[::-1]) == alone[::-1]
    for vector in together:
        assert math.hypot(*array("f", vector)) == pytest.approx(1, abs=1e-6)


def test_question_is_nearest_to_the_passage_that_answers_it(embedder: FastembedEmbedder) -> None:
    query = embedder.embed_query("Why does the tide come in?")

    scores = [similarity(query, passage) for passage in embedder.embed_documents(PASSAGES)]

    assert max(scores) == scores[1]


@proves("embedding.no-silent-truncation")
def test_text_one_token_too_long_is_refused(embedder: FastembedEmbedder) -> None:
    assert embedder.count_query("word " * 10) == 10 + embedder.count_query("")

    found: list[Vector] = embedder.embed_documents(["word " * 510])

    assert len(found) == 1
    with pytest.raises(TextTooLong):
        embedder.embed_documents(["short", "word " * 511])
