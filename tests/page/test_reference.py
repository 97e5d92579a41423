"""The API reference in a browser: on a phone, in light and dark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.page.library import Served
from tests.page.test_form import CONTRAST, PHONE
from tests.page.visit import Visit


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_reference_is_readable_on_a_phone_and_fits_it(
    visits: Callable[..., Visit], harbour: Served, scheme: str
) -> None:
    page = visits(harbour.address, **PHONE, color_scheme=scheme).page
    page.goto(f"{harbour.address}docs")

    assert page.title().startswith("Truespan API")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 384) == (scheme == "dark")


def test_reference_links_lead_to_parts_of_the_page(
    visits: Callable[..., Visit], harbour: Served
) -> None:
    page = visits(harbour.address, viewport={"width": 1200, "height": 900}).page
    page.goto(f"{harbour.address}docs")

    page.get_by_role("navigation").get_by_text("Get a world and its statistics").click()
    page.locator("#showWorld").get_by_role("link", name="world_not_found").click()
    assert page.url.endswith("#error-world_not_found")
    # The browser's own search; it finds only what is shown.
    assert page.evaluate("window.find('SearchArguments', true, false, true)")
