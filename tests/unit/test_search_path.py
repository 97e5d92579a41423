"""The length of the path of a search: the functions and files that a warm search enters."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import truespan

SOURCE = str(Path(truespan.__file__).parent)
TEXT = "The keeper of lamp {0} wrote {1} letters about the storm. Nobody answered letter {0}. "
MAX_ENTERED = {"recommended": (155, 32), "contract": (107, 26)}
"""Maximum number of functions, without lambdas and comprehensions, and of files."""


@contextmanager
def noting_functions() -> Iterator[set[CodeType]]:
    """Collect the functions of the package that are entered."""
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            entered.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("defaults", MAX_ENTERED)
def test_warm_search_enters_few_functions_and_files(tmp_path: Path, defaults: str) -> None:
    book = tmp_path / "book.md"
    book.write_text("\n\n".join(f"# Chapter {n}\n\n{TEXT.format(n, n + 3) * 9}" for n in range(9)))
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.create_world("world", defaults=defaults)
        world.ingest(book)
        world.search("who wrote letters?")
        with noting_functions() as entered:
            found = world.search("who wrote letters?")

    named = {code for code in entered if not code.co_name.startswith("<")}
    files = {code.co_filename for code in named}
    assert len(found.passages) == 9
    assert any(code.co_name == "search" for code in named)
    max_functions, max_files = MAX_ENTERED[defaults]
    assert len(named) <= max_functions
    assert len(files) <= max_files
