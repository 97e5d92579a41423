"""Draw the pictures of the documentation: `make pictures` (needs Chromium).

A library is made from `examples/` in a temporary folder, and Chromium photographs the page that
serves it.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright
from tests.page.conftest import ARGUMENTS
from tests.page.library import served
from tests.page.visit import Visit

import truespan

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "assets"
HANDBOOK = "Handbook for the Keepers of Vael Rock"
SETUP = (
    "truespan init --library library --world mysteries",
    "truespan ingest examples/the-glass-ferry.md -L library -w mysteries --kind book "
    "--title 'The Glass Ferry'",
    "truespan init --library library --world physics",
    "truespan ingest examples/optics.md -L library --title Optics -w physics",
    "truespan init --library library --world papers",
    f"truespan ingest handbook.pdf -L library --title '{HANDBOOK}' -w papers",
)


def show_ask(visit: Visit) -> None:
    visit.page.goto(visit.address)
    visit.open("Optics")
    visit.ask("Why does a lens bend light?")
    visit.find("#panel-context .card-foot [data-show]").first.click()
    expect(visit.find("#text .s.lit").first).to_be_in_viewport()


def show_reader(visit: Visit) -> None:
    visit.page.goto(f"{visit.address}#reader=ada&document=1")
    expect(visit.find("#s138")).to_be_attached()
    visit.ask("Who killed Mr. Vayle?")


def show_page(visit: Visit) -> None:
    visit.page.goto(visit.address)
    visit.open(HANDBOOK)
    visit.ask("How is the wick cut?")
    visit.find("#panel-context .card-foot [data-show]").first.click()
    visit.find("#as-page").click()
    expect(visit.find(".leaf img")).to_be_visible()


def show_notes(visit: Visit) -> None:
    show_reader(visit)
    visit.find("#open-notes").click()
    expect(visit.find("#note-list blockquote").first).to_be_visible()


def show_library(visit: Visit) -> None:
    visit.page.goto(f"{visit.address}#view=library")
    expect(visit.page.get_by_role("row", name="The Glass Ferry").first).to_be_visible()


def show_compare(visit: Visit) -> None:
    query = "view=compare&q=Who has the key?&left=mode=vector&right=mode=keyword"
    visit.page.goto(f"{visit.address}#{query}")
    expect(visit.find(".compare-row").first).to_be_visible()


def show_evaluate(visit: Visit) -> None:
    visit.page.goto(f"{visit.address}#view=evaluate")
    visit.find("#golden-file").set_input_files(ROOT / "examples" / "golden.yaml")
    visit.find("#evaluate-run").click()
    expect(visit.find("#evaluate-body svg").first).to_be_visible()


PAGES: Mapping[str, tuple[str, Callable[[Visit], None]]] = {
    "page-ask": ("physics", show_ask),
    "page-source": ("papers", show_page),
    "page-reader": ("mysteries", show_reader),
    "page-notes": ("mysteries", show_notes),
    "page-library": ("mysteries", show_library),
    "page-compare": ("mysteries", show_compare),
    "page-evaluate": ("mysteries", show_evaluate),
}
"""Pictures of the page: the served world, and the steps to the view."""


@contextmanager
def browser_pages() -> Iterator[Callable[[], Page]]:
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("Chromium is missing. Install it, for example with 'make chromium'.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield lambda: browser.new_page(
            viewport={"width": 1180, "height": 700}, color_scheme="light"
        )
        browser.close()


def photograph(library: Path) -> None:
    """Photograph every view."""
    with browser_pages() as new_page:
        for name, (world, show) in PAGES.items():
            with served(library, "--world", world) as server:
                page = new_page()
                show(Visit(page, server.address))
                save(page, name)
                page.close()


def save(page: Page, name: str) -> None:
    """Save a picture of what the browser shows."""
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path, animations="disabled")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "examples", folder / "examples")
        shutil.copy(ROOT / "tests" / "fixtures" / "libreoffice.pdf", folder / "handbook.pdf")
        for command in SETUP:
            subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=folder, check=True)
        with truespan.open(folder / "library") as library:
            ada = library.world("mysteries").reader("ada")
            ada.notes.add("Who else knows of the spare key?", first=38)
        photograph(folder / "library")


if __name__ == "__main__":
    main()
