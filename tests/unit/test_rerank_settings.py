"""The reranker comes from `[rerank]` or the caller, and is loaded only on use."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.onnx_maker import reranker_folder
from truespan.errors import InvalidConfiguration
from truespan.retrieval.rerank import RerankOptions
from truespan.wiring import open_library


class Own:
    """A custom reranker."""

    name = "own/first-come"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [0.0 for _ in texts]


def options_of(folder: Path, text: str = "", own: Own | None = None) -> RerankOptions | None:
    """Return the reranker of a library with this settings file."""
    folder.mkdir(exist_ok=True)
    (folder / "truespan.toml").write_text(text, encoding="utf-8")
    with open_library(folder, create=True, reranker=own) as library:
        return library._components.rerank


def test_no_reranker_is_configured_by_default(tmp_path: Path) -> None:
    assert options_of(tmp_path) is None


def test_reranker_folders_are_relative_to_the_library(tmp_path: Path) -> None:
    reranker_folder(tmp_path / "models" / "tiny")
    options = options_of(tmp_path, '[rerank]\nkind = "onnx"\nmodel = "models/tiny"\n')
    assert options is not None
    assert options.reranker.name == "onnx/tiny"
    one, two = options.reranker.scores("the tide", ["the tide comes in", "nothing"])
    assert one > two


def test_reranker_of_the_caller_replaces_the_configured_one(tmp_path: Path) -> None:
    own = Own()
    assert options_of(tmp_path, "", own) == RerankOptions(own, 30, 10)


def test_invalid_rerank_settings_are_refused(tmp_path: Path) -> None:
    rows = [
        ('[rerank]\nkind = "onnx"\n', "needs the setting rerank_model"),
        ('[rerank]\nkind = "torch"\n', "must be one of"),
        ('[rerank]\nmodel = "x"\n', "has no use with rerank_kind ''"),
        ('[rerank]\nkind = "http"\nmodel = "x"\n', "must be one of"),
        ('[rerank]\nkey = "secret"\n', "no setting 'rerank_key'"),
        ('rerank = "onnx"\n', "no setting 'rerank'"),
        ('rerank_model = "a"\n[rerank]\nmodel = "b"\n', "rerank_model twice"),
    ]
    for text, said in rows:
        with pytest.raises(InvalidConfiguration) as caught:
            options_of(tmp_path, text)
        assert said in str(caught.value), text
        assert "secret" not in str(caught.value)


def test_no_rerank_module_is_imported_without_a_reranker(tmp_path: Path) -> None:
    program = (
        "import sys; from truespan.wiring import open_library\n"
        f"open_library({str(tmp_path)!r}, create=True).close()\n"
        "assert 'truespan.providers.rerank' not in sys.modules\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
