"""Recipes of CONTRIBUTING.md, followed on a copy of the source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import truespan

SOURCE = Path(truespan.__file__).parent
FILTER = {
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
}
"""A filter by document in two files: the lines to add, by the line before them."""
USE_FILTER = """
import sys
import truespan
from truespan.cli.options import QueryOptions
from truespan.extensions.quality.golden import _check_filters
from truespan.extensions.server.http.requests import DocumentQuery
from truespan.extensions.server.arguments import SearchArguments, arguments_schema

with truespan.open(sys.argv[1], create=True) as library:
    world = library.world("world", create=True)
    for number in ("first", "second"):
        world.add_texts([f"The {number} lamp burns."], tags=[number])
    found = world.search("lamp", floor=0.0, edition="second").passages
    assert [passage.tags for passage in found] == [("second",)], found
assert QueryOptions(further=["edition=second"]).filters()["edition"] == "second"
assert _check_filters({"edition": "second"}).edition == "second"
for kind in (SearchArguments, DocumentQuery):
    assert "edition" in arguments_schema(kind)["properties"], kind
"""


def test_new_filter_needs_two_files(tmp_path: Path) -> None:
    copy = tmp_path / "truespan"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, additions in FILTER.items():
        text = (copy / name).read_text("utf-8")
        for before, added in additions.items():
            assert before in text, before
            text = text.replace(before, before + added, 1)
        (copy / name).write_text(text, "utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", USE_FILTER, str(tmp_path / "library")],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
