"""The documentation of sanitizing lists all labels of the code."""

import re

from tests.support.docs_reader import DOCS, sections_of, table_rows
from truespan.extensions.checks.sanitize.findings import LABELS
from truespan.extensions.checks.sanitize.numbers import DISTINCTIVE, INTRODUCED, NAMED

SECTIONS = sections_of(DOCS / "ingesting.md")


def test_page_lists_labels_identity_numbers_and_validators() -> None:
    assert {row[0] for row in table_rows(SECTIONS["Labels of the sanitiser"])} == set(LABELS)
    alone, after_a_word = SECTIONS["National identity numbers"].split("These need a word")
    assert re.findall(r"`([\w.]+)`", alone) == [number.name for number in DISTINCTIVE]
    assert re.findall(r"`([\w.]+)`", after_a_word) == [number.name for number in INTRODUCED]
    profiles = SECTIONS["Profiles of the sanitiser"]
    listed = re.search(r"Available validators: (.*?)\. ", profiles, re.DOTALL)
    assert listed is not None
    assert re.findall(r"`(\w+)`", listed[1]) == list(NAMED)
