"""Identity of the caller: signing in with a provider, and viewing with other labels."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

import truespan
from tests.page.library import Served, served
from tests.page.visit import Visit, Visits
from tests.promises import proves
from tests.support.providers.issuer import AUDIENCE, AUTHORIZE, TOKEN, Issuer

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def company(tmp_path: Path, browser: object, issuer: Issuer) -> Iterator[Served]:
    """A company library whose users sign in."""
    folder = tmp_path / "library"
    with truespan.open(folder, create=True) as library:
        library.create_world("handbook").add_text("Lamps are switched off at ten.", id="rules")
        library.create_world("payroll")
    (folder / "truespan.toml").write_text(
        f"""
        [auth]
        issuer = "{issuer.url}"
        audience = "{AUDIENCE}"
        jwks_url = "{issuer.keys_url}"
        client_id = "page"
        authorize_url = "{issuer.url}{AUTHORIZE}?policy=sign-in"
        token_url = "{issuer.url}{TOKEN}"

        [[auth.rules]]
        claim = "groups"
        value = "staff"
        worlds = ["handbook"]
        labels = ["group:{{groups}}"]
        """
    )
    with served(folder) as running:
        yield running


def arrive(visits: Visits, company: Served, issuer: Issuer, **context: object) -> Visit:
    visit = visits(company.address, **context)
    visit.failures_expected = True
    visit.other_hosts = frozenset({urlsplit(issuer.url).netloc})
    expect(visit.find("#view-signin")).to_be_visible()
    return visit


def stored(visit: Visit) -> str:
    """Return everything that the browser keeps."""
    return visit.page.evaluate(
        "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.href])"
    )


@proves("identity.page-sign-in")
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_people_sign_in_with_the_provider(
    visits: Visits, company: Served, issuer: Issuer, size: dict[str, int]
) -> None:
    issuer.user = {"groups": ["staff"], "sub": "ana"}
    visit = arrive(visits, company, issuer, viewport=size)
    visit.find("#signin-provider").click()
    expect(visit.find("#view-signin")).to_be_hidden()
    expect(visit.find("#world option")).to_have_text(["handbook"])
    kept = stored(visit)
    assert not any(part in kept for part in ("eyJ", "code", "verifier", "state="))
    # Another load of the page has no token, so people sign in again.
    visit.page.reload()
    expect(visit.find("#view-signin")).to_be_visible()


@proves("identity.page-sign-in")
@pytest.mark.parametrize("returned", [
    {"state": "another"}, {"iss": "https://login.example.org"}, {"code": "invented"},
    {"error": "access_denied", "code": ""},
], ids=["state", "issuer", "code", "error"])  # fmt: skip
def test_wrong_callback_signs_no_user_in(
    visits: Visits, company: Served, issuer: Issuer, returned: dict[str, str]
) -> None:
    issuer.user, issuer.returned = {"groups": ["staff"]}, returned
    visit = arrive(visits, company, issuer, viewport=DESK)
    visit.find("#signin-provider").click()
    expect(visit.find("#signin-problem")).to_have_text("Signing in failed. Try again.")
    assert urlsplit(visit.page.url).query == ""
    assert len(issuer.to(TOKEN)) == (1 if returned.get("code") else 0)


@proves("identity.page-sign-in")
def test_foreign_code_is_not_exchanged(visits: Visits, company: Served, issuer: Issuer):
    visit = arrive(visits, company, issuer, viewport=DESK)
    visit.page.goto(f"{company.address}?code=code-0&state=stolen")
    expect(visit.find("#signin-problem")).to_have_text("Signing in failed. Try again.")
    assert issuer.to(TOKEN) == []


def test_owner_can_view_as_a_caller_with_labels(visits: Visits, harbour: Served) -> None:
    visit = visits(harbour.address, viewport=DESK)
    visit.failures_expected = True
    expect(visit.find("#viewing")).to_be_hidden()
    visit.find("#open-settings").click()
    visit.find("#view-as").fill("group:legal, user:zoë")
    visit.find("#view-as").press("Enter")

    expect(visit.find("#viewing")).to_contain_text("Viewing as group:legal, user:zoë")
    asked = [request for request in visit.requests if request.url.endswith("/v1/me")][-1]
    assert asked.headers["x-truespan-audience"] == "group%3Alegal,user%3Azo%C3%AB"
    # A caller who sees only some documents cannot add any.
    expect(visit.find("#new-world")).to_be_hidden()
    visit.find("#stop-viewing").click()
    expect(visit.find("#viewing")).to_be_hidden()
    expect(visit.find("#new-world")).to_be_visible()


def test_labels_of_several_documents_are_changed(visits: Visits, tmp_path: Path):
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.world()
        for name in ("a", "b"):
            world.add_text(f"Lamp {name}.", id=name)
        world.add_text("Lamp c.", id="c", audience=["group:board"])
    with served(tmp_path / "library") as running:
        visit = visits(running.address, viewport=DESK)
        visit.find("#views a[data-to=library]").click()
        expect(visit.find("#shelf .chip.audience")).to_have_text(["group:board"])
        visit.find("#select-all").check()
        visit.find("#bulk-audience").click()
        visit.find("#bulk-labels").fill("group:legal, user:ana")
        visit.find("#confirm-audience").click()
        expect(visit.find("#shelf .chip.audience")).to_have_count(6)
    with truespan.open(tmp_path / "library") as library:
        found = {document.audience for document in library.world("main").documents.list()}
        assert found == {("group:legal", "user:ana")}
