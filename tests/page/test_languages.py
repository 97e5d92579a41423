"""The languages of the page."""

from playwright.sync_api import FilePayload, expect

from tests.page.library import QUESTION, Served
from tests.page.test_form import WIDE
from tests.page.visit import Visits

DESK = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}


def test_page_speaks_the_language_of_the_browser(visits: Visits, harbour: Served):
    visit = visits(harbour.address, locale="de-AT", **DESK)
    expect(visit.find("html[lang=de]")).to_be_attached()
    expect(visit.find("#views")).to_contain_text("Bibliothek")
    expect(visit.find("#question")).to_have_attribute("placeholder", "Zu den Dokumenten fragen")
    visit.ask(QUESTION)
    expect(visit.find(".card .score").first).to_contain_text(",")
    expect(visit.find("#panel-context .summary")).to_contain_text("5 Textstellen")


def test_language_chosen_in_the_settings_is_remembered(visits: Visits, harbour: Served) -> None:
    visit = visits(harbour.address, locale="fr-FR", **DESK)
    expect(visit.find("html[lang=en]")).to_be_attached()
    visit.find("#open-settings").click()
    visit.find("#page-language").select_option("de")
    visit.find("#settings-form button:not([type])").click()

    expect(visit.find("html[lang=de]")).to_be_attached()
    visit.page.reload()
    expect(visit.find("#views")).to_contain_text("Abstimmen")
    visit.find("#open-settings").click()
    expect(visit.find("#page-language")).to_have_value("de")
    visit.find("#page-language").select_option("")
    visit.find("#settings-form button:not([type])").click()
    expect(visit.find("html[lang=en]")).to_be_attached()


def test_german_texts_fit_on_a_phone(visits: Visits, harbour: Served) -> None:
    visit = visits(harbour.address, locale="de", **PHONE)
    found: list[str] = []
    for view in ("library", "tune", "evaluate", "ask"):
        visit.find(f"[data-to={view}]").click()
        expect(visit.find(f"#view-{view}")).to_be_visible()
        found += [f"{view}: {one}" for one in visit.page.evaluate(WIDE)]
    visit.find("label.seg").filter(has_text="Als Leser").click()
    expect(visit.find("#slider")).to_be_visible()
    found += visit.page.evaluate(WIDE)
    assert found == []


def test_refusals_with_a_code_are_shown_in_german(visits: Visits, harbour: Served):
    visit = visits(f"{harbour.address}#view=library", locale="de", **DESK)
    file: FilePayload = {"name": "a.docx", "mimeType": "text/plain", "buffer": b"no archive"}
    visit.find("#files").set_input_files(file)
    failed = visit.find("#jobs .job").filter(has_text="a.docx")
    expect(failed.locator("[data-state=failed] .file-state")).to_have_text(
        "Die Datei ist beschädigt."
    )
    expect(failed.locator(".job-label")).to_have_text("Fertig: 1 von 1 Datei (1 fehlgeschlagen)")
