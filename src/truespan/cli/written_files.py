"""Files that commands write. A failed command leaves no incomplete file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from truespan.core.disk import create_file, replace_file
from truespan.errors import InvalidArgument, resource_error

_MODE = 0o666
"""Permissions before those that the user's umask removes."""


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file that did not exist; it is removed if the block raises an exception.

    Raises:
        InvalidArgument: it exists, or cannot be created.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(create_file(path, _MODE))
        except FileExistsError:
            raise InvalidArgument(f"The file {path} already exists.") from None
        except OSError as error:
            raise resource_error(error) or _unwritable(path, error) from None
        yield file


def write_file(path: Path, text: str) -> None:
    """Write a file or replace its content; if that fails, the file is as before."""
    try:
        if path.exists() and not path.is_file():
            # A pipe or a terminal.
            path.write_text(text, encoding="utf-8")
        else:
            replace_file(path.resolve(), text.encode(), _MODE)
    except OSError as error:
        raise resource_error(error) or _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> InvalidArgument:
    reason = error.strerror or type(error).__name__
    return InvalidArgument(f"{path} cannot be written: {reason}.", advice="Check the folder.")
