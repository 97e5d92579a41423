"""Embedders and rerankers that extensions bring, and the refusal of those not installed."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import Struct, structs

import truespan
from tests.support.failures import raises_code
from tests.support.rows import each_row
from truespan.errors import InvalidConfiguration
from truespan.providers.context import ModelContext
from truespan.settings import read_settings
from truespan.settings.catalogue import Name, descriptions
from truespan.tables import EmbeddingProvider, RerankerKind, tables
from truespan.testing import WordEmbedder
from truespan.wiring import open_library


class AcmeSettings(Struct, frozen=True):
    """Settings of a provider in another package."""

    model: Name = "small"
    """Model of Acme."""


def make_embedder(context: ModelContext) -> WordEmbedder:
    embedder = WordEmbedder()
    model = context.settings.section("acme", AcmeSettings).model
    embedder.profile = structs.replace(embedder.profile, provider="acme", model=model)
    return embedder


class AcmeReranker:
    name = "acme"

    def __init__(self, context: ModelContext, _seconds: float) -> None:
        self.model = context.settings.rerank.model

    def scores(self, _query: str, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = EmbeddingProvider(f"{__name__}:make_embedder", f"{__name__}:AcmeSettings")
    monkeypatch.setitem(tables().embedders, "acme", embedder)
    reranker = RerankerKind(f"{__name__}:AcmeReranker")
    monkeypatch.setitem(tables().rerankers, "acme", reranker)


def write(folder: Path, text: str) -> Path:
    (folder / "truespan.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.usefixtures("acme")
def test_row_registers_a_provider_with_settings_and_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME", "k-1")
    keys = '[[keys]]\nprovider = "acme"\nenv = "ACME"\n'
    write(
        tmp_path,
        keys + '[embedding]\nkind = "acme"\nmodel = "large"\n[embedding.b]\nkind = "acme"\n',
    )

    settings = read_settings(tmp_path)
    with truespan.open(tmp_path, create=True) as library:
        world = library.world()
        world.add_texts(["The tide turned."])
        [record] = library.worlds()

    assert record.generation is not None
    assert record.generation.profile.model == "large"
    assert settings.value_of("acme_model") == "large"
    assert settings.embeddings["b"].value_of("acme_model") == "large"
    assert [key.provider for key in settings.keys] == ["acme"]
    assert descriptions()["acme_model"] == "Model of Acme."


@pytest.mark.usefixtures("acme")
def test_row_registers_a_reranker(tmp_path: Path) -> None:
    write(tmp_path, '[rerank]\nkind = "acme"\nmodel = "small"\n')
    with open_library(tmp_path, create=True) as library:
        options = library._components.rerank
    assert options is not None
    assert options.reranker.name == "acme"
    write(tmp_path, '[rerank]\nkind = "acme"\n')
    with pytest.raises(InvalidConfiguration, match="needs the setting rerank_model"):
        open_library(tmp_path)


@each_row("text", [
    'embedding_provider = "google"\n', '[embedding]\nkind = "multilingual"\n',
    '[embedding.other]\nkind = "sentence-transformers"\n', 'embedding_device = "auto"\n',
    '[google]\nmodel = "gemini-embedding-001"\n', 'sentence_transformers_model = "BAAI/bge-m3"\n',
    '[rerank]\nkind = "sentence-transformers"\nmodel = "x"\n',
])  # fmt: skip
def test_uninstalled_provider_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables(), "embedders", {})
    monkeypatch.setattr(tables(), "rerankers", {})
    write(tmp_path, text)
    with raises_code("extension_missing", match="needs the extension 'models'"):
        open_library(tmp_path, create=True)


def test_uninstalled_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables(), "embedders", {})
    monkeypatch.setattr(tables(), "members", {})
    with truespan.open(tmp_path, create=True) as library:
        with raises_code("extension_missing", match="multilingual"):
            library.create_world("books", model="multilingual")
        assert library.worlds() == []
    with raises_code("extension_missing", match="download_model"):
        truespan.download_model("BAAI/bge-m3")
