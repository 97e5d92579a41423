"""Recipes of CONTRIBUTING.md, followed on a copy of the source."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import truespan

SOURCE = Path(truespan.__file__).parent
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/extension/src/index_cards"


class Recipe(NamedTuple):
    """A heading of CONTRIBUTING.md, an example of what it describes, and a program that uses it."""

    heading: str
    max_files: int
    edits: Mapping[str, Mapping[str, str] | Path]
    """By file, what to add and behind which text; or the file to copy."""
    program: str


FIELD = Recipe(
    "Add a field to a result",
    max_files=3,
    edits={
        "types/trust.py": {
            "    other_places: tuple[OtherPlace, ...] = ()\n": "    words: int = 0\n",
        },
        "retrieval/stages.py": {
            "        compared_language=found.language,\n": (
                "        words=len(found.text.split()),\n"
            )
        },
        "retrieval/reading/book.py": {
            "        kind=ChunkKind.TEXT,\n        score=score,\n": (
                "        words=len(chunk.text.split()),\n"
            )
        },
    },
    program="""
import json
from truespan.extensions.server.http.openapi import document_operation, make_document
from truespan.extensions.server.http.routes import OPERATIONS

book = Path("book.md")
book.write_text("# One\\n\\nThe lamp burns. Nobody sees it.\\n")
with truespan.open("library", create=True) as library:
    world = library.world("world", create=True)
    world.ingest(book, kind="book")
    found = world.search("lamp").passages[0]
    assert found.words == len(found.text.split()), found
    bundle = world.retrieve("lamp")
    assert bundle.passages[0].words == bundle.metadata.sources[0].words == found.words
    reader = world.reader("ada")
    reader.set_position("book.md", sentence=1)
    [tail] = reader.retrieve("lamp").passages
    assert 0 < tail.words == len(tail.text.split()) < found.words, tail
document = make_document((*OPERATIONS, document_operation(OPERATIONS)), needs_token=False)
schemas = json.loads(document)["components"]["schemas"]
for record in ("Passage", "SourceNote"):
    assert "words" in schemas[record]["properties"], record
""",
)
FILTER = Recipe(
    "Add a filter",
    max_files=2,
    edits={
        "types/arguments.py": {
            "FILTERS: Mapping[str, Filter] = {\n": (
                '    "edition": Filter(_name("Only this edition.")),\n'
            )
        },
        "types/request.py": {
            "    chapter: str | None\n": "    edition: str | None\n",
            "    chapter: str | None = None\n": "    edition: str | None = None\n",
            "            set(self.tags) <= set(labels.tags)\n": (
                "            and (self.edition is None or self.edition in labels.tags)\n"
            ),
        },
    },
    program="""
from truespan.cli.options import QueryOptions
from truespan.extensions.quality.golden import _check_filters
from truespan.extensions.server.http.requests import DocumentQuery
from truespan.extensions.server.arguments import SearchArguments, arguments_schema

with truespan.open("library", create=True) as library:
    world = library.world("world", create=True)
    for number in ("first", "second"):
        world.add_texts([f"The {number} lamp burns."], tags=[number])
    found = world.search("lamp", floor=0.0, edition="second").passages
    assert [passage.tags for passage in found] == [("second",)], found
assert QueryOptions(further=["edition=second"]).filters()["edition"] == "second"
assert _check_filters({"edition": "second"}).edition == "second"
for kind in (SearchArguments, DocumentQuery):
    assert "edition" in arguments_schema(kind)["properties"], kind
""",
)
FORMAT = Recipe(
    "Add a file format",
    max_files=2,
    edits={
        "extensions/formats/cards.py": EXAMPLE / "cards.py",
        "extensions/formats/__init__.py": {
            "    tables.formats += (\n": (
                '        FileFormat("cards", endings=(".cards",), load=f"{_HERE}.cards:load"),\n'
            )
        },
    },
    program="""
cards = Path("village.cards")
cards.write_text("# The mill\\nThe mill was sold to Jonas Reed in 1904.\\n")
with truespan.open("library", create=True) as library:
    world = library.world("world", create=True)
    world.ingest(cards)
    assert [passage.chapter for passage in world.search("mill").passages] == ["The mill"]
""",
)
PROVIDER = Recipe(
    "Add a provider",
    max_files=2,
    edits={
        "extensions/models/words.py": EXAMPLE / "models.py",
        "extensions/models/__init__.py": {
            "    tables.embedders |= {\n": (
                '        "words": EmbeddingProvider('
                'f"{_HERE}.words:make_embedder", f"{_HERE}.words:WordSettings"),\n'
            ),
            "    tables.rerankers |= {\n": (
                '        "words": RerankerKind(f"{_HERE}.words:make_reranker"),\n'
            ),
        },
    },
    program="""
Path("library").mkdir()
Path("library/truespan.toml").write_text(
    '[embedding]\\nprovider = "words"\\ndimensions = 64\\n\\n'
    '[rerank]\\nkind = "words"\\nmodel = "shared"\\n'
)
with truespan.open("library", create=True) as library:
    world = library.world("world", create=True, defaults="contract")
    world.add_texts(["The lamp burns."])
    assert [document.dimensions for document in world.documents.list()] == [64]
    assert world.search("lamp", rerank=True).rerank.model == "words/shared"
""",
)
OPTION = Recipe(
    "Add an option to a command",
    max_files=2,
    edits={
        "cli/documents.py": {
            """    text: Annotated[bool, Option(help="Print the document's text.")] = False,\n""": (
                "    characters: Annotated[\n"
                '        int | None, Option(help="Print at most this many characters.")\n'
                "    ] = None,\n"
            ),
            "            whole = documents.text(reference": ", characters=characters",
        },
        "engine/documents.py": {
            "    def text(self, reference: str | int": ", *, characters: int | None = None",
            "        return self._access.components.store.documents.canonical_text("
            "scope, document.number)": "[:characters]",
        },
    },
    program="""
from truespan.cli import run

with truespan.open("library", create=True) as library:
    library.world("world", create=True).add_texts(["The lamp burns."])
assert run(["show", "1", "-L", "library", "--text", "--characters", "8"]) == 0
""",
)
RECIPES = (FIELD, FILTER, FORMAT, PROVIDER, OPTION)


def follow(recipe: Recipe, folder: Path) -> str:
    """Follow a recipe on a copy of the source, and return what its program prints."""
    copy = folder / "truespan"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, edit in recipe.edits.items():
        if isinstance(edit, Path):
            assert not (copy / name).exists(), name
            shutil.copyfile(edit, copy / name)
            continue
        text = (copy / name).read_text("utf-8")
        for before, added in edit.items():
            assert before in text, before
            text = text.replace(before, before + added, 1)
        (copy / name).write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", f"from pathlib import Path\nimport truespan\n{recipe.program}"],
        env=os.environ | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_of(heading: str) -> list[str]:
    """Return the file or folder that each numbered step of a recipe begins with."""
    _, _, after = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(f"\n### {heading}\n")
    steps = re.findall(r"^\d\. `src/truespan/([^`]+)`", after.partition("\n#")[0], re.MULTILINE)
    assert len(steps) == len(re.findall(r"^\d\. ", after.partition("\n#")[0], re.MULTILINE))
    return steps


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.heading)
def test_recipe_lists_the_files_to_change(recipe: Recipe, tmp_path: Path) -> None:
    steps = files_of(recipe.heading)
    assert len(steps) == len(recipe.edits) <= recipe.max_files
    for step, name in zip(steps, recipe.edits, strict=True):
        assert name == step or name.startswith(f"{step}/")
    printed = follow(recipe, tmp_path)
    assert printed == ("The lamp\n" if recipe is OPTION else "")


def test_contributing_has_no_other_recipe() -> None:
    _, _, recipes = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("\n## Recipes\n")
    headings = re.findall(r"^### (.+)$", recipes, re.MULTILINE)
    assert headings == [recipe.heading for recipe in RECIPES]
