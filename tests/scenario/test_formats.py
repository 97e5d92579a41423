"""A folder of many formats: each document is found, and its place is named as its format does."""

from __future__ import annotations

import json
from email.message import EmailMessage
from pathlib import Path

from tests.promises import proves
from tests.support import odf_maker as odf
from tests.support.docx_maker import docx, p
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.pptx_maker import line, pptx, shape, title
from tests.support.sheet_maker import rows, sheet, xlsx, zipped
from tests.support.worlds import make_library


def sentence(word: str) -> str:
    return f"The {word} was mended by the keeper in the evening."


def notebook(*cells: str) -> bytes:
    made = [{"cell_type": "markdown", "source": [cell], "metadata": {}} for cell in cells]
    return json.dumps({"cells": made, "nbformat": 4, "nbformat_minor": 5}).encode()


def mail(text: str, attached: str) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = "Ida <ida@quay.example>", "The quay"
    message.set_content(text)
    message.add_attachment(attached, filename="note.txt")
    return bytes(message)


FILES: dict[str, bytes] = {
    "a.docx": docx(p("Quay", style="Heading1") + p(sentence("anchor"))),
    "b.odt": odf.odf(odf.h("Quay") + odf.p(sentence("barge"))),
    "c.rtf": rb"{\rtf1\ansi " + sentence("capstan").encode() + rb"\par}",
    "d.pptx": pptx(title("Quay"), title("Boats") + shape(line(sentence("dinghy")))),
    "e.xlsx": xlsx({"Boats": sheet(rows([["Boat", "Note"], ["one", sentence("engine")]]))}),
    "f.csv": f"boat,note\none,{sentence('flag')}\n".encode(),
    "g.jsonl": json.dumps({"boat": 1}).encode()
    + b"\n"
    + json.dumps({"n": sentence("gate")}).encode(),
    "h.eml": mail(sentence("harpoon"), sentence("inlet")),
    "i.ipynb": notebook("# Quay", sentence("jetty")),
    "j.pdf": make_pdf([Page(column(["The quay."])), Page(column([sentence("keel")]))]),
    "k.html": f"<title>Quay</title><h1>Boats</h1><p>{sentence('lantern')}".encode(),
    "l.md": f"# Boats\n\n{sentence('mast')}\n".encode(),
    "m.zip": zipped({"deep/n.txt": sentence("net")}),
}
FOUND: dict[str, tuple[str, str | None, str | None]] = {
    # The file, the chapter, or the title where there is none, and the location.
    "anchor": ("a.docx", "Quay", None),
    "barge": ("b.odt", "Quay", None),
    "capstan": ("c.rtf", "c.rtf", None),
    "dinghy": ("d.pptx", "Quay", "slides 1-2"),
    "engine": ("e.xlsx", "Boats", "A1:B2"),
    "flag": ("f.csv", "f.csv", "lines 1-2"),
    "gate": ("g.jsonl", "g.jsonl", "lines 1-2"),
    "harpoon": ("h.eml", "The quay", None),
    "inlet": ("note.txt", "note.txt", None),
    "jetty": ("i.ipynb", "Quay", "cells 1-2"),
    "keel": ("j.pdf", "j.pdf", "pages 1-2"),
    "lantern": ("k.html", "Boats", None),
    "mast": ("l.md", "Boats", None),
    "net": ("n.txt", "n.txt", None),
}


@proves("loader.sheets", "ingest.no-duplicates")
def test_a_folder_of_many_formats_is_found_with_its_places(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    (folder / "manifest.jsonl").write_text('{"path": "a.docx"}\n')
    lib = make_library(tmp_path / "library", defaults="recommended")
    world = lib.library.create_world("world")

    report = world.ingest(str(folder))

    assert (report.failures, len(report.ingested)) == ([], len(FILES) + 1)
    found: dict[str, tuple[str, str | None, str | None]] = {}
    for word in FOUND:
        best = world.search(f"Which {word} was mended?", top_k=1).passages[0]
        assert sentence(word) in " ".join(best.text.split()), word
        found[word] = (best.source, best.chapter, best.location)
    assert found == FOUND
    assert world.ingest(str(folder)).unchanged == len(FILES) + 1


@proves("loader.sheets")
def test_a_figure_is_found_in_the_sheet_and_cells_it_is_from(tmp_path: Path) -> None:
    lib = make_library(tmp_path, defaults="recommended")
    world = lib.library.create_world("world")
    months = ("January", "February", "March", "April", "May")
    tables = {
        month: sheet(rows([["City", "Sold"], [f"Bergen {month}", number]], top=number + 1))
        for number, month in enumerate(months)
    }
    path = lib.folder / "sales.xlsx"
    path.write_bytes(xlsx(tables))
    world.ingest(str(path))

    for number, month in enumerate(months, 1):
        best = world.search(f"Bergen {month}", top_k=1).passages[0]
        assert (best.chapter, best.location) == (month, f"A{number}:B{number + 1}")
        assert f"Bergen {month}" in best.text
