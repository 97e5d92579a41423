"""Files of a model on this machine: reading, hashing, the tokenizer, and the stated properties.

Must hold: the bytes that were hashed are the bytes used, and no file outside the model's folder is
read.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError, convert

from truespan.core.decoding import prepare
from truespan.errors import InvalidConfiguration, ModelUnavailable, resource_error
from truespan.providers.prefixes import ModelPrefixes, prefixes_for

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_FILE = "tokenizer.json"
DESCRIPTION_FILE = "model.toml"
DATA_LIMIT = 64 << 30
"""Maximum size of a file with weights."""
TEXT_LIMIT = 256 << 20
"""Maximum size of a tokenizer or configuration file."""
_CHANGED = "Start again if the folder was changed on purpose."


class ModelDescription(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `model.toml`: properties that the other files of a model's folder lack.

    A blank text, a zero and a missing member leave a property to those files.
    """

    file: str = ""
    """Network file in the folder."""
    name: str = ""
    """Name of the model."""
    pooling: Literal["", "cls", "mean", "max", "last", "none"] = ""
    """Pooling of token vectors into one vector."""
    output: str = ""
    """Output of the network to use."""
    query_prefix: str | None = None
    """Text before each query."""
    document_prefix: str | None = None
    """Text before each text of a document."""
    dimensions: Annotated[int, Meta(ge=0)] = 0
    """Dimensions of a vector."""
    max_length: Annotated[int, Meta(ge=0)] = 0
    """Maximum number of tokens of a text, special tokens included."""
    precision: Literal["", "float32", "float16", "bfloat16"] = ""
    """Precision of weights that run with PyTorch; blank for the stored one, or float16."""


class ModelFiles(ABC):
    """The files of one model in one folder. Bytes are hashed before they are used."""

    def __init__(self) -> None:
        self._loading = Lock()
        self._tokenizer: Tokenizer | None = None

    @cached_property
    def location(self) -> Path:
        """Return the folder the files are in; `ModelUnavailable` if there is none."""
        return self._locate()

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Return the SHA-256 that each file must have."""
        return self._find_digests()

    @abstractmethod
    def _locate(self) -> Path: ...

    @abstractmethod
    def _find_digests(self) -> Mapping[str, str]: ...

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self.location / name

    def remedy(self) -> str:
        return _CHANGED

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; raise ModelUnavailable if their SHA-256 differs."""
        return read_checked(self.path(name), self.digests[name], advice=self.remedy())

    def tokenizer(self) -> Tokenizer:
        """Return the model's tokenizer, loaded once, without truncation and padding."""
        # Names of special tokens in a text are read as ordinary text: a document cannot end its own
        # input by spelling out a separator.
        with self._loading:
            if self._tokenizer is not None:
                return self._tokenizer
            tokenizer = self._read_tokenizer()
            tokenizer.no_truncation()
            tokenizer.no_padding()
            tokenizer.encode_special_tokens = True
            self._tokenizer = tokenizer
            return tokenizer

    def _read_tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        content = self.read(TOKENIZER_FILE)
        try:
            return Tokenizer.from_buffer(content)
        except Exception as failure:  # The library raises nothing narrower.
            raise ModelUnavailable(
                f"The file {self.path(TOKENIZER_FILE)} is not a valid tokenizer.",
                advice=self.remedy(),
            ) from failure


class ModelFolder(ModelFiles):
    """The files of a model in a folder with the configuration files of sentence-transformers.

    A property that neither these files nor the caller state is an error, not a guess.
    """

    def __init__(self, folder: Path, description: ModelDescription | None = None) -> None:
        super().__init__()
        self._folder = folder
        self._description = description

    @cached_property
    def description(self) -> ModelDescription:
        """Return the given description, or that of `model.toml`.

        Raises:
            InvalidConfiguration: the file is not valid.
        """
        path = self.path(DESCRIPTION_FILE)
        if self._description is not None or not path.is_file():
            return self._description or ModelDescription()
        self._require_size(DESCRIPTION_FILE, TEXT_LIMIT)
        import tomllib

        try:
            return convert(
                tomllib.loads(path.read_text(encoding="utf-8")), prepare(ModelDescription)
            )
        except OSError as failure:
            raise resource_error(failure) or unreadable(path) from failure
        except (ValidationError, ValueError) as failure:
            raise InvalidConfiguration(
                f"The file {path} is not valid: {failure}.", advice="See docs/providers.md."
            ) from None

    def _locate(self) -> Path:
        folder = self._folder.resolve()
        if not folder.is_dir():
            raise ModelUnavailable(
                f"There is no model folder {self._folder}.",
                advice="Correct the setting; a relative path begins at the library's folder.",
            )
        return folder

    @property
    def _root(self) -> Path:
        """Folder that contains every file, also if a file is a link."""
        return self.location

    def path(self, name: str) -> Path:
        """Return the path of a file; raise ModelUnavailable if it is outside the folder."""
        path = self.location / name
        inside = not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
        if not inside or not path.resolve().is_relative_to(self._root):
            raise ModelUnavailable(
                f"The model file {name!r} leads out of the folder {self.location}.",
                advice="Copy the files themselves into the folder, without links.",
            )
        return path

    def configuration(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file of the folder; empty if there is no such file."""
        path = self.path(name)
        if not path.is_file():
            return {}
        self._require_size(name, TEXT_LIMIT)
        try:
            content = json.loads(path.read_bytes())
        except OSError as failure:
            raise resource_error(failure) or unreadable(path) from failure
        except (ValueError, RecursionError):
            content = None
        if isinstance(content, list):
            content = {"entries": content}
        if not isinstance(content, dict):
            raise ModelUnavailable(
                f"The file {path} is not valid JSON.", advice="Export the model again."
            )
        return content

    def stated_name(self) -> str:
        """Return the name of the model: as described, in `config.json`, or that of the folder."""
        if self.description.name:
            return self.description.name
        stated = self.configuration("config.json").get("_name_or_path")
        if isinstance(stated, str) and stated.count("/") == 1 and stated[0] not in "/.~":
            return stated
        return self.location.name

    def prefixes(self, name: str) -> ModelPrefixes:
        """Return the prefixes of the description, of the other files, or of the model's family."""
        own = self.description
        stated = self.configuration("config_sentence_transformers.json")
        prompts, family = stated.get("prompts"), prefixes_for(name)
        prompts = prompts if isinstance(prompts, dict) else {}
        usual = prompts.get(stated.get("default_prompt_name") or "", "")
        found = {
            "query": [prompts.get(key) for key in ("query", "retrieval.query")],
            "document": [
                prompts.get(key) for key in ("document", "passage", "corpus", "retrieval.passage")
            ],
        }
        query, document = (
            next((text for text in [*texts, usual] if isinstance(text, str) and text), None)
            for texts in found.values()
        )
        if query is None and document is None:
            query, document = family.query, family.document
        return ModelPrefixes(
            query or "" if own.query_prefix is None else own.query_prefix,
            document or "" if own.document_prefix is None else own.document_prefix,
        )

    def max_length(self) -> int:
        """Return the maximum number of tokens of a text, including special tokens."""
        declared, positions = self.description.max_length, self.positions
        stated = whole_number(self._encoder.get("max_seq_length"))
        known = [limit for limit in (stated, self.tokenizer_limit, positions) if limit]
        if declared and positions and declared > positions:
            raise InvalidConfiguration(
                f"The maximum length is set to {declared} tokens, but the model in "
                f"{self.location} reads {positions}.",
                advice=f"Set max_length in {DESCRIPTION_FILE} to at most {positions}.",
            )
        if not declared and not known:
            raise InvalidConfiguration(
                f"The folder {self.location} does not state the maximum length of a text.",
                advice=f"Set max_length in {DESCRIPTION_FILE}, as the model's publisher says.",
            )
        return declared or min(known)

    @property
    def lowercase(self) -> bool:
        """Return whether texts are converted to lower case before they are tokenized."""
        return self._encoder.get("do_lower_case") is True

    @property
    def _encoder(self) -> dict[str, Any]:
        return self.configuration("sentence_bert_config.json")

    @property
    def positions(self) -> int | None:
        """Return the number of positions of the network, if `config.json` states it."""
        config = self.configuration("config.json")
        positions = whole_number(config.get("max_position_embeddings"))
        if positions and config.get("model_type") in _SHIFTED_POSITIONS:
            positions -= (whole_number(config.get("pad_token_id")) or 1) + 1
        return positions

    @property
    def tokenizer_limit(self) -> int | None:
        """Return the maximum number of tokens in the tokenizer's settings, if they state it."""
        return whole_number(self.configuration("tokenizer_config.json").get("model_max_length"))

    def _digest(self, name: str, limit: int) -> str:
        self._require_size(name, limit)
        try:
            with self.path(name).open("rb") as file:
                return file_digest(file, "sha256").hexdigest()
        except OSError as failure:
            raise resource_error(failure) or unreadable(self.path(name)) from failure

    def _require_size(self, name: str, limit: int) -> None:
        path = self.path(name)
        if not path.is_file():
            raise ModelUnavailable(
                f"The model folder {self.location} does not hold {name}.",
                advice="Export the model again, with all its files.",
            )
        if path.stat().st_size > limit:
            raise ModelUnavailable(
                f"The model file {path} has more than {limit >> 20} MiB.",
                advice="Choose a smaller model.",
            )


_SHIFTED_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet", "xlm-roberta-xl")
"""Models whose positions start after the number of the padding token."""
_UNLIMITED = 1_000_000
"""Number above which a stated limit means no limit."""


def whole_number(value: object) -> int | None:
    """Return a positive whole number of a configuration file; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value < _UNLIMITED and value == value // 1 else None


def unreadable(path: Path) -> ModelUnavailable:
    return ModelUnavailable(
        f"The model file {path} cannot be read.", advice="Check that it exists and is readable."
    )


def read_checked(path: Path, expected: str, *, advice: str) -> bytes:
    """Return the bytes of a model file; raise ModelUnavailable if their SHA-256 differs."""
    try:
        content = path.read_bytes()
    except OSError as failure:
        raise resource_error(failure) or unreadable(path) from failure
    if sha256(content).hexdigest() != expected:
        raise ModelUnavailable(
            f"The SHA-256 of the model file {path} differs from the expected one.", advice=advice
        )
    return content
