"""Tables that extensions add rows to, and the discovery of installed extensions.

Owns: the types of the rows; finding and calling each extension's `register`. Does not own: the
engine's own formats, models and commands, which are listed beside their code. Must hold:
registering imports no parser, no model and no interface, because a row names its function by a
path; this module imports nothing heavy, because `truespan --help` reads it; nothing that verifies,
reveals, packs or scopes text can be added or replaced.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from re import Pattern
from typing import Any, NamedTuple

from truespan.errors import InvalidConfiguration

GROUP = "truespan.extensions"
"""Group of the entry points that name extensions."""


class FileFormat(NamedTuple):
    """A file format: how its files are recognised, and which functions read them.

    A function is named by its path, `module:function`.
    """

    name: str
    endings: tuple[str, ...] = ()
    load: str = ""
    """The loader. It takes the name and the bytes of a file, and `options` by keyword."""
    options: tuple[str, ...] = ()
    """Members of `ParseOptions` that the loader takes."""
    open: str = ""
    """The generator of the documents in a file; see `truespan.parsing.members`."""
    only_members: bool = False
    """Whether a file has no text of its own."""
    has_records: bool = False
    """Whether each record of a file may be a document."""
    is_book: bool = False
    """Whether a file is a book unless declared otherwise."""
    has_pictures: bool = False
    """Whether the loader finds pictures."""
    has_hidden_sheets: bool = False
    may_need_ocr: bool = False
    """Whether the text of a file may need text recognition."""
    only_ocr: bool = False
    """Whether a file has no text without text recognition."""
    has_running_heads: bool = False
    may_be_novel: bool = False
    """Whether a file is plain text that may be a novel."""
    is_text: bool = False
    """Whether a file of another content is refused as not being text."""
    needs_pattern: bool = False
    """Whether files in folders are read only if a pattern names their ending."""
    yields_to_content: bool = False
    """Whether the content of a file overrules its ending."""
    is_zip: bool = False
    zip_mark: bytes = b""
    """First member of an archive and its content, as EPUB and OpenDocument prescribe."""
    zip_part: bytes = b""
    """Beginning of the name of a member that only archives of this format have."""
    zip_word: bytes = b""
    """Word in the list of content types of an Office file."""
    mark: bytes = b""
    """First bytes of a file."""
    mark_pattern: Pattern[bytes] | None = None
    """Pattern of the first bytes of a file whose ending is unknown."""
    recognise: str = ""
    """Function that decides for a file with `mark`, given its bytes."""


class TextRecognition(NamedTuple):
    """Recognition of text in pictures."""

    make: str
    """Path of a class whose method `find_lines` returns the lines of a picture."""
    needs: tuple[str, ...] = ()
    """Modules that must be installed."""

    @property
    def is_installed(self) -> bool:
        """Return whether the modules it needs are installed, without importing them."""
        return all(find_spec(name) is not None for name in self.needs)


class Commands(NamedTuple):
    """Commands of the command line in one module.

    The function of a command has its name with underscores for hyphens; a group has `_group`
    appended.
    """

    panel: str
    """Heading in the help."""
    module: str
    names: tuple[str, ...]


class EmbeddingProvider(NamedTuple):
    """A provider of embeddings: a server, or a model on this machine."""

    make: str
    """Path of the function that makes its embedder from a `ModelContext`."""
    settings: str = ""
    """Path of the class of its settings; their section has the name of the provider."""


class RerankerKind(NamedTuple):
    """A kind of reranker."""

    make: str
    """Path of the function that makes the reranker from a `ModelContext` and the maximum time of a
    request in seconds."""
    needs_model: bool = True
    """Whether it needs the setting `rerank_model`; otherwise this setting is refused."""


class JobKind(NamedTuple):
    """A kind of background jobs."""

    queue: str
    """Path of a function that takes the access to the world and the request, and returns the job
    that it stored."""
    run: str
    """Path of a function that takes the access to the world, the job, its log and its trace."""


class Tables:
    """The rows that extensions added."""

    def __init__(self) -> None:
        self.formats: list[FileFormat] = []
        self.text_recognition: TextRecognition | None = None
        self.commands: list[Commands] = []
        self.answer_checks: dict[str, str] = {}
        """Checks of a model's reply by name: the path of a function that takes a `CheckedReply` and
        returns a `CheckResult`; see `truespan.answers.checks`."""
        self.embedders: dict[str, EmbeddingProvider] = {}
        """Providers by the value of `embedding_provider`; "local" is the bundled model on a GPU."""
        self.rerankers: dict[str, RerankerKind] = {}
        """Rerankers by the value of `rerank_kind`."""
        self.gates: dict[str, str] = {}
        """Checks of a generation before its promotion, by the argument that they need: the path of
        a function that takes the access to the world and a `Candidate`, and returns a `Verdict`, or
        None if there is nothing to check."""
        self.jobs: dict[str, JobKind] = {}
        """Kinds of background jobs."""
        self.members: dict[str, str] = {}
        """Members of `World`, `Library` and `Reader` by names such as "World.sign": the path of a
        function whose first argument is the object. Also functions of the package, such as
        "truespan.verify_receipt", and of its command line."""
        self.components: dict[str, str] = {}
        """Components of a library by the names of their fields: the path of a function that takes
        the folder, the settings and other components."""
        self.store_parts: dict[str, str] = {}
        """Parts of the store by name: the path of a subclass of `Part`, which runs
        statements on tables of the store."""
        self.observers: dict[str, str] = {}
        """Observers by the settings that turn them on: the path of a class."""
        self.pictures: dict[str, str] = {}
        """Functions that draw a page of a source, by the name of its format. They take its bytes
        and a `PictureRequest`."""


# Shared by threads: read once, and never changed after that.
@cache
def tables() -> Tables:
    """Return the rows of all installed extensions.

    Raises:
        InvalidConfiguration: an extension cannot be loaded.
    """
    found = Tables()
    for name, path in sorted(_find_extensions()):
        try:
            register = import_member(path)
        except ModuleNotFoundError as error:
            # The package of the extension was removed. Another missing module is a fault.
            if error.name and path.replace(":", ".").startswith(f"{error.name}."):
                continue
            raise _refuse(name, error) from error
        except (ImportError, AttributeError) as error:
            raise _refuse(name, error) from error
        register(found)
    return found


def _find_extensions() -> set[tuple[str, str]]:
    """Return the names of the installed extensions and the paths of their `register`."""
    # `importlib.metadata` reads the same files, but it imports 60 modules, e-mail among them: a
    # fifth of the time of `truespan --help`, and a third of that of a parser process for a book.
    found: set[tuple[str, str]] = set()
    for folder in sys.path:
        for file in Path(folder).glob("*-info/entry_points.txt"):
            group = text = ""
            with suppress(PermissionError):
                text = file.read_text("utf-8")
            for line in map(str.strip, text.splitlines()):
                if line.startswith("["):
                    group = line
                elif group == f"[{GROUP}]" and "=" in line and not line.startswith("#"):
                    name, path = line.split("=", 1)
                    found.add((name.strip(), path.strip()))
    return found


def _refuse(name: str, error: Exception) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"The extension {name!r} cannot be loaded: {error}.",
        advice="Install what it needs, or remove the package that brings it.",
    )


def require(path: str | None, what: str, extension: str) -> Any:
    """Return the member that an extension's path names.

    Raises:
        InvalidConfiguration: no extension gave the path, so the one that has it is not installed.
    """
    if not path:
        raise InvalidConfiguration(code="extension_missing", what=what, extension=extension)
    return import_member(path)


def member(name: str, extension: str) -> Any:
    """Return the function that an extension brings as the member `name`."""
    return require(tables().members.get(name), name, extension)


def member_of(thing: object, name: str, extension: str) -> Any:
    """Return a member of a world, library or reader that an extension brings, bound to it."""
    return partial(member(f"{type(thing).__name__}.{name}", extension), thing)


class Extended:
    """A class whose members installed extensions add to; its own are looked up first."""

    def __getattr__(self, name: str) -> Any:
        path = None
        # Python and tools look for members with underscores in anything.
        if not name.startswith("_"):
            path = tables().members.get(f"{type(self).__name__}.{name}")
        if path is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return partial(import_member(path), self)


def import_member(path: str) -> Any:
    """Return the member that a path `module:member` names; its module is imported now."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
