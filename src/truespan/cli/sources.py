"""Files and folders that a command asks directly: a separate library, kept in a cache.

The name of a library is a hash of the paths and contents of its files, of the settings and of the
version of Truespan, so that a library is never asked about other files than it was made of.
"""

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from truespan.cli.app import complete
from truespan.cli.options import Target, folder_of, new_folder_of
from truespan.cli.terminal import pluralize, write_error
from truespan.core.disk import FileLock, hash_file
from truespan.errors import InvalidArgument, SourceRefused
from truespan.settings import cache_folder, read_settings
from truespan.types.request import check_query, is_blank
from truespan.types.source import is_page

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World


def split_question(words: Sequence[str]) -> tuple[Sequence[str], str]:
    """Return the sources and the question of a command: the question is the last word.

    Raises:
        InvalidArgument: There is no question, or the first source does not exist.
        InvalidArgument, QueryTooLong: The question cannot be asked, so nothing is read for it.
    """
    *sources, question = words
    if sources:
        require_sources(sources)
        check_query(question)
        if is_blank(question):
            raise InvalidArgument(code="blank_query")
    elif _exists(question):
        raise InvalidArgument(
            f"There is no question after {question!r}.",
            advice=f'Ask as in: truespan ask {shlex.quote(question)} "What is it about?"',
        )
    return sources, question


def require_sources(sources: Sequence[str]) -> None:
    """Raise an error for the first source that does not exist."""
    for source in sources:
        if not _exists(source):
            raise SourceRefused(
                "source_missing",
                source,
                advice="Check the path; a question of several words needs quotes.",
            )


def _exists(source: str) -> bool:
    from truespan.types.source import is_page

    return is_page(source) or os.path.lexists(source)


@contextmanager
def open_asked(
    target: Target, sources: Sequence[str], reader: str | None, *, hidden: bool
) -> "Iterator[World]":
    """Open the target of a command: the named world, or a library with the sources.

    That library is kept in the user's cache folder, so that the same files are read once. `hidden`
    hides progress and the line about the cache.
    """
    if not sources:
        with target.open_world() as world:
            yield world
        return
    origin = click.get_current_context().get_parameter_source("world")
    if origin is ParameterSource.ENVIRONMENT:
        # It is meant for commands that ask a library.
        target = replace(target, world=None)
    if reader is not None or target != Target():
        raise InvalidArgument(
            "Files are asked in a separate library, without a reader, world or generation.",
            advice="Keep them with 'truespan ingest' first, and ask without naming them.",
        )
    with open_cached(sources, _settings_folder()) as (library, folder, known):
        world = library.world(create=True)
        if not known:
            _ingest(world, sources, hidden=hidden)
            if folder is not None:
                mark_complete(folder)
        yield world
    if not hidden:
        kept = "Nothing was kept." if folder is None else f"Kept in {folder} for the next question."
        if known:
            kept = f"Nothing was read again: the files are kept in {folder}."
        command = f"truespan ingest {shlex.join(sources)}"
        write_error(complete(f"{kept} '{command}' adds the documents to a library.\n"))


def _settings_folder() -> Path:
    """Return the folder whose settings apply: that of the library that a command would use."""
    try:
        return folder_of(None)
    except InvalidArgument:
        # Which of several libraries is meant does not matter to files.
        return new_folder_of(None)


def _ingest(world: "World", sources: Sequence[str], *, hidden: bool) -> None:
    from truespan.cli.follow import progress_bar

    with progress_bar(hidden=hidden) as on_progress:
        report = world.ingest(sources, on_progress=on_progress)
    for failure in report.failures:
        write_error(f"Not read: {failure.message}\n")
    # An interrupted run is continued: some documents may be there already.
    read = len(report.ingested) + report.unchanged
    if not read:
        named = ", ".join(sources)
        raise InvalidArgument(
            f"Nothing in {named} can be read."
            if report.failures
            else f"No document was found in {named}.",
            advice="Name files of a supported format, or folders that contain some.",
        )
    if not hidden:
        write_error(f"Read {pluralize(read, 'document')}.\n")


MAX_BYTES = 1 << 30
"""Maximum size of all libraries; the least recently asked are removed."""
MAX_FILES = 2000
MAX_SOURCE_BYTES = 256 << 20
"""Maximum number and size of files whose library is kept."""
_COMPLETE = "complete"


@contextmanager
def open_cached(
    sources: Sequence[str], settings_folder: Path
) -> "Iterator[tuple[Library, Path | None, bool]]":
    """Open the library of some files; yield it, its folder, and whether it has the documents.

    The folder is None for a temporary library: if the files are too many, are web pages, or are
    asked by another process at the same time. Call `mark_complete` after ingesting.
    """
    import truespan

    with ExitStack() as stack:
        folder = None
        with suppress(OSError):
            folder = _claim(sources, settings_folder, stack)
        if folder is None:
            yield stack.enter_context(truespan.open_temporary(settings_folder)), None, False
            return
        complete = folder / _COMPLETE
        known = complete.exists()
        if known:
            # The time of the last use decides which library is removed first.
            complete.touch()
        else:
            # Another process may remove a file meanwhile.
            with suppress(OSError):
                make_room(folder.parent)
        opened = truespan.open_temporary(settings_folder, folder=folder)
        yield stack.enter_context(opened), folder, known


def mark_complete(folder: Path) -> None:
    """Say that a library has all documents that can be read."""
    (folder / _COMPLETE).touch()


def make_room(home: Path, max_bytes: int = MAX_BYTES) -> None:
    """Remove the least recently asked libraries until the others fit."""
    found: list[tuple[float, int, Path]] = []
    for folder in home.iterdir():
        if folder.is_dir():
            files = [path for path in folder.rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in files)
            used = folder / _COMPLETE
            found.append((used.stat().st_mtime if used.exists() else 0.0, size, folder))
    total = sum(size for _, size, _ in found)
    for _, size, folder in sorted(found):
        if total <= max_bytes:
            return
        lock = FileLock(home / f"{folder.name}.lock")
        if lock.acquire():
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
            total -= size


def _claim(sources: Sequence[str], settings_folder: Path, stack: ExitStack) -> Path | None:
    """Return the folder for some files, locked; None if there is none, or it is in use."""
    name = _name_of(sources, settings_folder)
    if name is None:
        return None
    home = cache_folder() / "asked"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(home / f"{name}.lock")
    if not lock.acquire():
        return None
    stack.callback(lock.release)
    return home / name


def _name_of(sources: Sequence[str], settings_folder: Path) -> str | None:
    """Return a hash of all that affects a library of these files; None if not cacheable."""
    if any(is_page(source) for source in sources):
        return None
    known = sha256(repr((metadata.version("truespan"), read_settings(settings_folder))).encode())
    size = 0
    for number, path in enumerate(path for source in sources for path in _files_of(source)):
        # A device or a pipe may have no end; ingesting refuses it.
        if not path.is_file():
            return None
        size += path.stat().st_size
        if number >= MAX_FILES or size > MAX_SOURCE_BYTES:
            return None
        known.update(f"{path}\0{hash_file(path)[0]}\0".encode("utf-8", "surrogatepass"))
    return known.hexdigest()[:32]


def _files_of(source: str) -> Iterator[Path]:
    path = Path(os.path.abspath(source))
    if not path.is_dir():
        yield path
        return
    for folder, inner, names in os.walk(path):
        inner.sort()
        yield from (file for name in sorted(names) if (file := Path(folder, name)).is_file())
