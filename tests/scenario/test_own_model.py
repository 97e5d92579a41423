"""A library whose embedding model is a folder: it is configured, used, checked and locked."""

from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.onnx_maker import attention_network, model_folder, table
from truespan.errors import InvalidConfiguration, ProfileMismatch
from truespan.settings import read_settings
from truespan.types.maintenance import Verdict
from truespan.wiring import open_library

TEXT = "The tide comes in at night. The moon pulls on the sea. The tide goes out."


def configured(tmp_path: Path, toml: str) -> Path:
    library = tmp_path / "library"
    library.mkdir(exist_ok=True)
    (library / "truespan.toml").write_text(toml)
    return library


@proves("embedding.own-model", "embedding.query-by-locked-profile")
def test_world_is_locked_to_its_model_from_a_folder(tmp_path: Path) -> None:
    library = configured(tmp_path, '[embedding]\nkind = "onnx"\nfolder = "models/mine"\n')
    folder = model_folder(library / "models" / "mine", attention_network(table()))
    source = tmp_path / "tides.txt"
    source.write_text(TEXT)

    with open_library(library, create=True) as opened:
        world = opened.create_world("sea")
        world.ingest(source)
        [first, *_] = world.search("the moon pulls on the sea", floor=0.0).passages
        checks = {check.name: check for check in opened._components.check_environment()}
    assert "moon" in first.text
    assert checks["embedding model"].verdict is Verdict.OK
    assert "mine, sha256:" in checks["embedding model"].says

    (folder / "model.onnx").write_bytes(attention_network(table(7)))
    with open_library(library) as opened, pytest.raises(ProfileMismatch):
        opened.world("sea").search("moon")

    (folder / "tokenizer.json").unlink()
    with open_library(library) as opened:
        [check] = [c for c in opened._components.check_environment() if c.name == "embedding model"]
    assert check.verdict is Verdict.PROBLEM
    assert "tokenizer.json" in check.says


@proves("embedding.own-model")
def test_own_model_of_a_library_can_be_configured_in_a_table(tmp_path: Path) -> None:
    table = """
        [embedding]
        kind = "onnx"
        folder = "mine"
        [embedding.other]
        kind = "onnx"
        folder = "other"
        [embedding.home]
        provider = "ollama"
        model = "m"
    """
    library = configured(tmp_path, table)
    settings = read_settings(library, {})
    assert (settings.embedding.provider, settings.onnx.folder) == ("onnx", "mine")
    other, home = settings.embeddings["other"], settings.embeddings["home"]
    assert (other.embedding.provider, other.onnx.folder) == ("onnx", "other")
    assert (home.embedding.provider, home.ollama.model) == ("ollama", "m")
    assert set(settings.embeddings) == {"other", "home"}
    # A variable wins over the file, as for every setting.
    assert read_settings(library, {"TRUESPAN_ONNX_FOLDER": "there"}).onnx.folder == "there"


@proves("embedding.own-model")
def test_contradictory_model_tables_are_refused(tmp_path: Path) -> None:
    rows = {
        '[embedding]\nkind = "onnx"\nprovider = "onnx"': "both kind and provider",
        'onnx_folder = "a"\n[embedding]\nkind = "onnx"\nfolder = "b"': "twice",
        '[embedding]\nfolder = "b"': "unknown field 'folder'",
        '[embedding]\nkind = "onnx"\nbase_url = "http://x"': "unknown field",
        '[embedding]\nkind = "onnx"\npooling = "sum"': "unknown field 'pooling'",
        '[embedding]\nkind = "onnx"': "no folder is named",
    }
    for toml, words in rows.items():
        with pytest.raises(InvalidConfiguration, match=words):
            open_library(configured(tmp_path, toml), create=True).close()
