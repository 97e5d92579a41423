"""Files and folders that a command asks directly: a library of their own, kept in a cache."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from truespan.cli.app import complete
from truespan.cli.options import Target, folder_of
from truespan.cli.terminal import pluralize, write_error
from truespan.errors import InvalidArgument, SourceMissing

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World


def split_question(words: Sequence[str]) -> tuple[Sequence[str], str]:
    """Return the sources and the question of a command: the question is the last word.

    Raises:
        InvalidArgument: There is no question, or the first source does not exist.
    """
    *sources, question = words
    if sources:
        require_sources(sources)
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
            raise SourceMissing(
                source, advice="Check the path; a question of several words needs quotes."
            )


def _exists(source: str) -> bool:
    from truespan.types.source import is_page

    return is_page(source) or os.path.lexists(source)


@contextmanager
def open_asked(
    target: Target, sources: Sequence[str], reader: str | None, *, hidden: bool
) -> "Iterator[tuple[Library, World]]":
    """Open what a command asks: the named world, or a library with the sources.

    That library is kept in the user's cache folder, so that the same files are read once. `hidden`
    hides progress and the line that says so.
    """
    if not sources:
        with target.open() as opened:
            yield opened
        return
    origin = click.get_current_context().get_parameter_source("world")
    if origin is ParameterSource.ENVIRONMENT:
        # It is meant for commands that ask a library.
        target = replace(target, world=None)
    if reader is not None or target != Target():
        raise InvalidArgument(
            "Files are asked in a library of their own, without a reader, world or generation.",
            advice="Keep them with 'truespan ingest' first, and ask without naming them.",
        )
    from truespan.cli.asked_cache import mark_complete, open_cached

    with open_cached(sources, folder_of(None)) as (library, folder, known):
        world = library.world(create=True)
        if not known:
            _ingest(world, sources, hidden=hidden)
            if folder is not None:
                mark_complete(folder)
        yield library, world
    if not hidden:
        kept = "Nothing was kept." if folder is None else f"Kept in {folder} for the next question."
        if known:
            kept = f"Nothing was read again: the files are kept in {folder}."
        command = f"truespan ingest {shlex.join(sources)}"
        write_error(complete(f"{kept} '{command}' adds the documents to a library.\n"))


def _ingest(world: "World", sources: Sequence[str], *, hidden: bool) -> None:
    from truespan.cli.follow import progress_bar

    with progress_bar(hidden=hidden) as on_progress:
        report = world.ingest(sources, on_progress=on_progress)
    for failure in report.failures:
        write_error(f"Not read: {failure.message}\n")
    # An interrupted run is continued: some documents may be there already.
    read = len(report.ingested) + report.unchanged
    if not read:
        raise InvalidArgument(
            f"No document was found in {', '.join(sources)}.",
            advice="Name files of a supported format, or folders that contain some.",
        )
    if not hidden:
        write_error(f"Read {pluralize(read, 'document')}.\n")
