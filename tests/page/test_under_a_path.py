"""The page behind a proxy that serves it below a path."""

from playwright.sync_api import Browser, Route, expect

from tests.page.library import QUESTION, Served

PREFIX = "truespan/"


def test_page_below_a_path_works(browser: Browser, harbour: Served) -> None:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    root = harbour.address.rstrip("/") + "/"
    strays: list[str] = []

    def forward(route: Route) -> None:
        url = route.request.url
        if not url.startswith(root + PREFIX):
            strays.append(url)
            route.abort()
        else:
            route.fulfill(response=route.fetch(url=root + url.removeprefix(root + PREFIX)))

    page.route(f"{root}**", forward)
    page.goto(root + PREFIX)
    expect(page.locator("body[data-ready]")).to_be_attached()
    page.locator("#question").fill(QUESTION)
    page.locator("#go").click()

    expect(page.locator("#panel-context .card").first).to_be_visible()
    assert page.url.startswith(f"{root}{PREFIX}#")
    # A request may still be on its way when the page is closed; its reply is ignored.
    page.unroute_all(behavior="ignoreErrors")
    assert strays == []
    page.context.close()
