"""The index by settings: embedded unless a server is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.worlds import WordCounter, WordEmbedder
from truespan.errors import InvalidConfiguration
from truespan.extensions.cluster.configured import server_options
from truespan.extensions.cluster.qdrant import server_target
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.index.edge.client import EdgeIndex
from truespan.settings import read_settings
from truespan.wiring import open_library

KEY = "a-key-that-nobody-may-see"
WORLD = "6f1c2c9e-4f0e-4f0e-8f0e-4f0e4f0e4f0e"
URL = {"TRUESPAN_INDEX_URL": "http://127.0.0.1:1"}


def options(folder: Path, **variables: str):
    chosen = {f"TRUESPAN_{name.upper()}": value for name, value in variables.items()}
    return server_options(folder, read_settings(folder, URL | chosen))


def test_index_is_embedded_unless_a_server_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def index_of(folder: Path) -> object:
        with open_library(
            folder, create=True, embedder=WordEmbedder(), counter=WordCounter()
        ) as library:
            return library._components.index

    monkeypatch.setenv("TRUESPAN_INDEX_APPROXIMATE_WORLDS", WORLD.upper())
    embedded = index_of(tmp_path / "one")
    monkeypatch.setenv("TRUESPAN_INDEX_URL", "http://127.0.0.1:1")
    served = index_of(tmp_path / "other")

    assert isinstance(embedded, EdgeIndex)
    assert embedded._approximate == {WORLD}
    # Nobody listens there: opening a library asks the server nothing.
    assert isinstance(served, QdrantServerIndex)
    assert not (tmp_path / "other" / "index").exists()


def test_client_library_is_imported_with_the_first_call(tmp_path: Path) -> None:
    code = (
        "import sys, truespan.extensions.cluster.configured as one;"
        "from truespan.settings import read_settings; from pathlib import Path;"
        "from truespan.core.clock import SystemClock;"
        "from truespan.extensions.cluster.qdrant.index import QdrantServerIndex;"
        f"options = one.server_options(Path('.'), read_settings(Path('.'), {URL!r}));"
        "QdrantServerIndex(options, SystemClock());"
        "sys.exit(any(name in sys.modules for name in ('qdrant_client', 'httpx')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0


def test_every_qdrant_setting_reaches_the_adapter(tmp_path: Path) -> None:
    chosen = options(
        tmp_path,
        qdrant_ca_file="ca.pem",
        qdrant_prefix="mine-",
        index_approximate_worlds=f" {WORLD.upper()},",
    )
    assert chosen.url == "http://127.0.0.1:1"
    assert (chosen.prefix, chosen.ca_file) == ("mine-", str(tmp_path / "ca.pem"))
    assert chosen.approximate == {WORLD}


@pytest.mark.parametrize("wrong", [
    {"qdrant_prefix": "../"}, {"qdrant_prefix": "a/b"}, {"qdrant_prefix": "x" * 65},
    {"index_approximate_worlds": "my world"},
])  # fmt: skip
def test_invalid_index_settings_fail_when_opening(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidConfiguration):
        options(tmp_path, **wrong)


def test_key_is_read_from_environment_or_file_and_hidden(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}-2\n")
    entry = '[[keys]]\nprovider = "qdrant"\nfile = "key"\n'
    usual = server_options(tmp_path, read_settings(tmp_path, URL | {"QDRANT_API_KEY": KEY}))
    (tmp_path / "truespan.toml").write_text(entry)
    named = server_options(tmp_path, read_settings(tmp_path, URL | {"QDRANT_API_KEY": KEY}))
    (tmp_path / "truespan.toml").write_text(f"{entry}enabled = false\n")
    none = server_options(tmp_path, read_settings(tmp_path, URL))
    assert (usual.key.reveal(), named.key.reveal()) == (KEY, f"{KEY}-2")
    assert not none.key
    assert KEY not in f"{usual!r} {named!r}"


@pytest.mark.parametrize(("url", "meant"), [
    ("http://localhost", "http://localhost:6333"),
    ("https://qdrant.test/", "https://qdrant.test:6333"),
    ("https://qdrant.test:443/behind/it", "https://qdrant.test:443/behind/it"),
    ("http://[::1]:7000", "http://[::1]:7000"),
])  # fmt: skip
def test_address_without_a_port_uses_the_port_of_qdrant(url: str, meant: str) -> None:
    assert server_target(url).url == meant
