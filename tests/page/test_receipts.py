"""Receipts in the page: a receipt is checked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

import truespan
from tests.page.library import Served, served
from tests.page.visit import Visit, Visits
from tests.promises import proves
from tests.support.receipts import as_json

TEXT = "The brass key <b>hung</b> on the seventh hook. The porter swept the quay."
QUESTION = "Where did the brass key hang?"


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path, Path]]:
    folder = tmp_path_factory.mktemp("receipts")
    file, receipt = folder / "guide.md", folder / "receipt.json"
    file.write_text(TEXT)
    with truespan.open(folder / "library", create=True) as library:
        library.keys.create()
        world = library.world()
        world.ingest(file)
        receipt.write_bytes(as_json(world.sign(world.search(QUESTION))))
    with served(folder / "library") as running:
        yield running, file, receipt


def open_dialog(visit: Visit) -> Locator:
    visit.find("#open-keys").click()
    visit.find("#open-receipt").click()
    return visit.find("#receipt-result")


@proves("proof.page")
@pytest.mark.parametrize(("locale", "valid", "refused"), [
    ("en", "Valid. Signed: search of ", "Not valid (text_differs): The text of passage 1"),
    ("de", "Gültig. Signiert: Suche vom ", "Nicht gültig (text_differs): Ein Text wurde"),
])  # fmt: skip
def test_receipt_is_checked_as_by_the_command(
    visits: Visits,
    signed: tuple[Served, Path, Path],
    locale: str,
    valid: str,
    refused: str,
) -> None:
    running, _, receipt = signed
    visit = visits(running.address, locale=locale)
    result = open_dialog(visit)
    visit.find("#receipt-file").set_input_files(receipt)

    expect(result).to_contain_text(valid)
    expect(result.locator("blockquote")).to_contain_text("<b>hung</b>")
    changed = json.loads(receipt.read_text())
    changed["texts"][0] += "!"
    visit.find("#receipt-text").fill(json.dumps(changed))
    expect(result).to_contain_text(refused)
    expect(result.locator("blockquote")).to_have_count(0)
    visit.find("#receipt-text").fill(receipt.read_text().replace('{"env', '{"texts":[],"env', 1))
    expect(result.locator("[data-failure=not_a_receipt]")).to_be_visible()


@proves("proof.page")
def test_dropped_receipt_is_checked(visits: Visits, signed: tuple[Served, Path, Path]) -> None:
    running, _, receipt = signed
    visit = visits(running.address)
    result = open_dialog(visit)
    visit.page.evaluate(
        """text => {
            const dropped = new DataTransfer();
            dropped.items.add(new File([text], "receipt.json"));
            const event = new DragEvent("drop", { dataTransfer: dropped, cancelable: true });
            document.getElementById("check-receipt").dispatchEvent(event);
        }""",
        receipt.read_text(),
    )

    expect(result).to_contain_text("Valid. Signed: search of ")
