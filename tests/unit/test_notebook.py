"""Jupyter notebooks: cells, outputs and places."""

import json
from typing import Any

import pytest

from tests.support.failures import raises_code
from truespan.ingest.canonical import assemble
from truespan.parsing import load
from truespan.types.text import BlockKind, Loaded

pytestmark = pytest.mark.needs_extension

PICTURE = {"image/png": "iVBORw0KGgo=" * 1000, "text/plain": ["<Figure size 640x480>"]}
TABLE = (
    "<div><style>.x{}</style><table><thead><tr><th>pier</th><th>depth</th></tr></thead>"
    "<tbody><tr><td>north</td><td>4.5</td></tr></tbody></table><p>1 rows × 2 columns</p></div>"
)


def read(*cells: dict[str, Any], **rest: Any) -> Loaded:
    """Return the loaded content of a notebook of the current format."""
    return load("a.ipynb", json.dumps({"cells": cells, "nbformat": 4, **rest}).encode())


def markdown(*lines: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": [*lines], "metadata": {}}


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": [*outputs], "execution_count": 1}


def shown(kind: str = "display_data", **data: Any) -> dict[str, Any]:
    forms = {name.replace("_", "/"): value for name, value in data.items()}
    return {"output_type": kind, "data": forms, "metadata": {}}


def test_cells_are_blocks_at_the_places_that_headings_name() -> None:
    loaded = read(
        markdown("# Ferries\n", "\n", "Text of *Quill*."), code("import ferry\n\nferry.cross()"),
        markdown("## Depth\n"), {"cell_type": "raw", "source": "As *is*"}, markdown("## Width"),
        code("width()"),
    )  # fmt: skip

    assert [(block.kind, block.text, block.chapter) for block in loaded.blocks] == [
        (BlockKind.HEADING, "Ferries", "Ferries"),
        (BlockKind.PARAGRAPH, "Text of Quill.", "Ferries"),
        (BlockKind.CODE, "import ferry\n\nferry.cross()", "Ferries"),
        (BlockKind.HEADING, "Depth", "Depth"), (BlockKind.PARAGRAPH, "As *is*", "Depth"),
        (BlockKind.HEADING, "Width", "Width"), (BlockKind.CODE, "width()", "Width"),
    ]  # fmt: skip
    assert loaded.title == "Ferries"
    canonical = assemble(loaded.blocks)
    found = [canonical.location(start, start + 1) for start in canonical.block_starts]
    assert found == ["cell 1", "cell 1", "cell 2", "cell 3", "cell 4", "cell 5", "cell 6"]
    assert canonical.location(0, len(canonical.text)) == "cells 1-6"


def test_text_outputs_are_kept_and_pictures_are_not() -> None:
    loaded = read(
        code(
            "run()",
            {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mred\x1b[0m\n", " two\n"]},
            {"output_type": "stream", "text": "  0%|  |\r 50%|# |\r100%|##|\r\ndone\n"},
            {"output_type": "display_data", "data": PICTURE},
            shown(text_plain="pier depth\nnorth 4.5", text_html=TABLE),
            shown("execute_result", text_plain=["{'a':\n", " 1}"]),
            shown(text_plain="<IPython.Markdown object>", text_markdown="**Bold** *claim*"),
            shown(text_plain="<IPython.HTML object>", text_html="<p>From <b>HTML</b></p>"),
            shown(text_html="<script>draw(1)</script>"),
            shown(text_latex="$x^2$"),
            {"output_type": "error", "ename": "ValueError", "evalue": "no pier",
             "traceback": ["\x1b[0;31mFile ...", "ValueError: no pier"]},
        )
    )  # fmt: skip

    assert [(block.kind, block.text) for block in loaded.blocks] == [
        (BlockKind.CODE, "run()"), (BlockKind.CODE, "red\n two"),
        (BlockKind.CODE, "100%|##|\ndone"), (BlockKind.TABLE, "pier | depth\nnorth | 4.5"),
        (BlockKind.PARAGRAPH, "1 rows × 2 columns"), (BlockKind.CODE, "{'a':\n 1}"),
        (BlockKind.PARAGRAPH, "Bold claim"), (BlockKind.PARAGRAPH, "From HTML"),
        (BlockKind.CODE, "$x^2$"), (BlockKind.CODE, "ValueError: no pier"),
    ]  # fmt: skip
    assert loaded.blocks[3].header_rows == 1


def test_notebook_has_its_title_and_authors() -> None:
    metadata = {"title": "Of ferries", "authors": [{"name": "Ida  Quill"}, "B. Ell", {}, 3]}
    loaded = read(markdown("Text"), metadata=metadata)
    assert (loaded.title, loaded.properties.title) == ("Of ferries", "Of ferries")
    assert loaded.properties.authors == ("Ida Quill", "B. Ell")


def test_notebook_pictures_and_odd_values_leave_plain_text() -> None:
    cell = code("x", shown(application_json={"a": float("nan")}, text_plain="nan \ud83d"))
    assert [block.text for block in read(cell).blocks] == ["x", "nan "]
    address = f"data:image/png;base64,{'iVBORw0KGgo' * 40}"
    loaded = read(markdown(f"See ![the plan]({address}) and <img src='{address}'> here"))
    assert [block.text for block in loaded.blocks] == ["See the plan and <img src=''> here"]


@pytest.mark.parametrize(("data", "error"), [
    (b'{"cells": [', "source_broken"), (b"[1]", "source_broken"), (b'{"a": 1}', "source_broken"),
    (b'{"cells": 3}', "source_broken"), (b'{"cells": []}', "source_empty"),
    (b'{"cells": [], "x":' + b"[" * 100_000, "source_unsafe"),
    (b'{"x": NaN, "cells":' + b"[" * 100_000, "source_unsafe"),
])  # fmt: skip
def test_broken_notebooks_are_refused(data: bytes, error: str) -> None:
    with raises_code(error):
        load("a.ipynb", data)
