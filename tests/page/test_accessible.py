"""axe-core finds no violation in any view, at any size, in any scheme."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import truespan
from tests.page.axe import require_axe, violations
from tests.page.library import QUESTION, Served, served
from tests.page.visit import Visit, Visits
from tests.support.pdf_maker import Page, column, make_pdf

VERBS = [word for verb in ("read", "write", "administer") for word in ("--verb", verb)]
SIZES: dict[str, dict[str, Any]] = {
    "desk": {"viewport": {"width": 1440, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}

SMALL_TARGETS = """() => [...document.querySelectorAll("button, select, summary, [role=tab]")]
    .map((node) => [node, node.getBoundingClientRect()])
    .filter(([node, box]) => box.width && node.checkVisibility())
    .filter(([, box]) => box.width < 24 || box.height < 24)
    .map(([node, box]) => `${node.id || node.className} ${box.width} by ${box.height}`)"""


def open_keys(visit: Visit) -> None:
    """Open the list of keys, which is in the settings on a small screen."""
    if not visit.find("#open-keys").is_visible():
        visit.find("#open-settings").click()
        visit.find("[data-press=open-keys]").click()
    else:
        visit.find("#open-keys").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_no_view_has_a_violation(visits: Visits, harbour: Served, size: str, scheme: str) -> None:
    require_axe()
    # Colours that are fading in would be measured half-way.
    still = {"color_scheme": scheme, "reduced_motion": "reduce"}
    visit = visits(harbour.address, **SIZES[size], **still)
    found = violations(visit, "fresh")
    for view in ("library", "tune", "evaluate"):
        visit.find(f"[data-to={view}]").click()
        expect(visit.find(f"#view-{view}")).to_be_visible()
        if view == "library":
            visit.find("#shelf tbody").get_by_role("checkbox").first.check()
        found += violations(visit, view)
        found += [f"{view}: {target}" for target in visit.page.evaluate(SMALL_TARGETS)]
    visit.find("[data-to=ask]").click()
    if size == "phone":
        for pane in ("documents", "reading", "ask"):
            visit.find(f"[data-to-pane={pane}]").click()
            found += violations(visit, pane)
    visit.find("#question").fill(QUESTION)
    visit.find("#go-answer").click()
    expect(visit.find(".answer[aria-busy=false]").first).to_be_visible()
    visit.find("#options summary").click()
    found += violations(visit, "answer")
    for tab in ("context", "why"):
        visit.find(f"#tab-{tab}").click()
        found += violations(visit, tab)
        found += [f"{tab}: {target}" for target in visit.page.evaluate(SMALL_TARGETS)]
    visit.find("label.seg").filter(has_text="As a reader").click()
    expect(visit.find("#slider")).to_be_visible()
    visit.settled()
    found += violations(visit, "reader")
    visit.find("#open-settings").click()
    found += violations(visit, "settings")
    visit.page.keyboard.press("Escape")
    open_keys(visit)
    found += violations(visit, "keys")
    visit.page.keyboard.press("Escape")
    open_keys(visit)
    visit.find("#open-receipt").click()
    visit.find("#receipt-text").fill("{}")
    expect(visit.find("#receipt-result")).not_to_be_empty()
    found += violations(visit, "receipt")

    assert found == [], "\n".join(found)


def test_welcome_screens_have_no_violation(visits: Visits, tmp_path: Path) -> None:
    require_axe()
    truespan.open(tmp_path / "library", create=True).close()
    with served(tmp_path / "library", "--require-token") as running:
        visit = visits(running.address, **SIZES["desk"], reduced_motion="reduce")
        visit.failures_expected = True
        states = [
            lambda: visit.sign_in(running.token("--all-worlds", *VERBS)),
            lambda: create(visit),
        ]
        found = in_all_forms(visit, "sign-in")
        for name, act in zip(("empty library", "empty world"), states, strict=True):
            act()
            found += in_all_forms(visit, name)
        visit.find("#new-world").click()
        found += in_all_forms(visit, "new world")

    assert found == [], "\n".join(found)


def test_notes_and_pictures_have_no_violation(visits: Visits, tmp_path: Path) -> None:
    """Notes of a reader, the source as it looks, and each target of a finger is large enough."""
    require_axe()
    pdf = make_pdf([Page(column(["The brass key hung on a nail. Old Marten oiled it."]))])
    (tmp_path / "heron.pdf").write_bytes(pdf)
    with truespan.open(tmp_path / "library", create=True) as library:
        library.create_world("pier").ingest(tmp_path / "heron.pdf", kind="book", title="The Heron")
    with served(tmp_path / "library") as running:
        visit = visits(running.address, **SIZES["desk"], reduced_motion="reduce")
        visit.open("The Heron")
        visit.find("#as-page").click()
        expect(visit.find(".leaf img")).to_be_visible()
        found = in_all_forms(visit, "picture") + small_targets(visit, "picture")
        visit.find("#as-page").click()
        visit.as_reader("ada")
        visit.read_to(1)
        visit.find("#open-notes").click()
        visit.find("#note-text").fill("Why him alone?")
        visit.find("#add-note").click()
        expect(visit.find("#note-list li")).to_have_count(1)
        found += in_all_forms(visit, "notes") + small_targets(visit, "notes")

    assert found == [], "\n".join(found)


def small_targets(visit: Visit, where: str) -> list[str]:
    """Return the visible controls that are smaller than a finger needs, 24 by 24 pixels."""
    small: list[str] = []
    for size in ("phone", "desk"):
        visit.page.set_viewport_size(SIZES[size]["viewport"])
        small += visit.page.evaluate(SMALL_TARGETS)
    return [f"{where}: {target} is too small" for target in small]


def create(visit: Visit) -> None:
    """Create a world on the welcome screen."""
    visit.find("#start-world-name").fill("harbour")
    visit.find("#start-create").click()
    expect(visit.find("#start")).to_contain_text("harbour has no documents yet")


def in_all_forms(visit: Visit, where: str) -> list[str]:
    """Return the violations at both sizes and in both schemes."""
    found: list[str] = []
    for size, form in SIZES.items():
        visit.page.set_viewport_size(form["viewport"])
        for scheme in ("light", "dark"):
            visit.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            found += violations(visit, f"{where}, {size}, {scheme}")
    visit.page.set_viewport_size(SIZES["desk"]["viewport"])
    return found
