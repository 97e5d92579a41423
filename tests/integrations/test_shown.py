"""The page and the examples, on the real store, index and model: they run as shown."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.library import require
from tests.support.docs_reader import DOCS, ROOT, Newcomer, end_index_process

EXAMPLES = ["langchain_retriever.py", "llamaindex_retriever.py", "haystack_pipeline.py"]


@pytest.fixture(autouse=True, scope="module")
def _installed() -> None:
    require("langchain_core", "llama_index", "haystack")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose library the examples share, so that the book is embedded once."""
    made = tmp_path_factory.mktemp("examples")
    yield made
    end_index_process(made)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_shows_a_reader_less_than_the_owner(name: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), "library"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert (done.returncode, done.stderr) == (0, "")
    owner, ada = done.stdout.split("ada:", 1)
    assert "owner:" in owner
    assert set(re.findall(r"Chapter \w+:", ada)) <= {"Chapter One:", "Chapter Two:"}
    assert re.search(r"Chapter (One|Two):", ada)


def test_examples_of_the_page_run_as_shown(tmp_path: Path) -> None:
    assert "\n\n".join(Newcomer(tmp_path).follow(DOCS / "library.md")) == ""
