"""The pages are true: examples run, tables match the code, and links lead somewhere."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

import truespan
from tests.docs_reader import (
    CHANGELOG,
    DOCS,
    PAGES,
    README,
    ROOT,
    Newcomer,
    blocks_of,
    first_missing,
    prose_of,
    sections_of,
    table_rows,
)
from truespan import errors
from truespan.doors.cli import reading
from truespan.doors.wire import EXIT_PARTIAL, EXIT_UNHEALTHY, STATUS, status_of
from truespan.ingest.run import IngestReport
from truespan.model import bundle
from truespan.model.profile import STANDARD_CHUNKING
from truespan.model.request import ReadingRequest, RetrievalRequest
from truespan.model.trail import FlawKind
from truespan.reading.positions import Whereabouts
from truespan.settings import Settings, read_settings
from truespan.upkeep.doctor import Finding

CHECKED = {"python", "console", "sh", "text", "toml", "json"}
"""Kinds of blocks that something here looks at."""


def each_page(*pages: Path) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.name)


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    return Newcomer(tmp_path_factory.mktemp("pages"))


@each_page(*PAGES)
def test_what_a_page_shows_is_what_happens(page: Path, newcomer: Newcomer) -> None:
    assert "\n\n".join(newcomer.follow(page)) == ""


@each_page(*PAGES, CHANGELOG)
def test_every_block_is_of_a_kind_that_is_checked(page: Path) -> None:
    assert {block.language for block in blocks_of(page)} <= CHECKED
    assert page.read_text("utf-8").count("```") == 2 * len(blocks_of(page))


def test_output_that_differs_is_noticed() -> None:
    real = "1. 0.697  Chapter One\n   “And who has\n   the key?”\n104 chunks (7 ms)."

    assert first_missing("1. 0.700 Chapter One\n...\n104 chunks (... ms).", real) is None
    assert first_missing("“And who has the key?”", real) is None
    assert first_missing("1. 0.600 Chapter One", real) == "1. 0.600 Chapter One"
    assert first_missing("105 chunks", real) == "105 chunks"
    assert first_missing("104 chunks\n1. 0.697", real) == "1. 0.697"


# Tables


def test_the_settings_page_lists_every_setting_with_its_default() -> None:
    preface = prose_of(DOCS / "settings.md").split("\n## ")[0]
    listed = {row[0]: row[2].replace("empty", "") for row in table_rows(preface)}

    assert listed == {entry.name: str(entry.default) for entry in fields(Settings)}


def test_each_variable_of_the_settings_page_sets_its_setting(tmp_path: Path) -> None:
    texts = {"embedding_provider": "ollama", "ollama_base_url": "http://localhost:1"}
    for name, variable, _, least, _ in table_rows(prose_of(DOCS / "settings.md").split("\n## ")[0]):
        values = [least, str(int(least) + 7)] if least else [texts.get(name, "another")]
        for spelled in (variable, f"TRUESPAN_{name.upper()}"):
            for value in values:
                assert str(getattr(read_settings(tmp_path, {spelled: value}), name)) == value
        if least:
            with pytest.raises(errors.InvalidConfiguration):
                read_settings(tmp_path, {variable: str(int(least) - 1)})


def test_the_settings_page_names_every_other_variable_that_is_read() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r'"((?:TRUESPAN|XDG)_[A-Z_]+[A-Z])"', source))

    others = table_rows(sections_of(DOCS / "settings.md")["Other variables"])

    assert {row[0] for row in others} == read


@each_page(*PAGES)
def test_settings_files_that_a_page_shows_are_valid(page: Path, tmp_path: Path) -> None:
    for block in blocks_of(page):
        if block.language == "toml":
            (tmp_path / "truespan.toml").write_text(block.body, encoding="utf-8")
            settings = read_settings(tmp_path, {})
            for name, value in tomllib.loads(block.body).items():
                assert getattr(settings, name) == value


@each_page(*PAGES)
def test_json_that_a_page_shows_is_valid(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "json":
            json.loads(block.body)


def test_the_errors_page_lists_every_error_as_the_program_treats_it() -> None:
    kinds: list[type[errors.TruespanError]] = [errors.TruespanError]
    for kind in kinds:
        kinds.extend(sub for sub in kind.__subclasses__() if sub.__module__ == errors.__name__)
    expected = []
    for kind in kinds[1:]:
        status = status_of(kind.__new__(kind))
        retryable = "yes" if kind.retryable else "no"
        row = [kind.code, kind.__name__, retryable, str(status.exit_code), str(status.http)]
        expected.append(row)

    tables = [table_rows(text) for text in sections_of(DOCS / "errors.md").values()]
    listed = [[*row[:2], *row[3:]] for rows in tables for row in rows]

    assert sorted(listed) == sorted(expected)


def test_the_command_line_page_lists_every_exit_code() -> None:
    codes = {0, EXIT_PARTIAL, EXIT_UNHEALTHY} | {status.exit_code for status in STATUS.values()}

    rows = table_rows(sections_of(DOCS / "command-line.md")["Exit codes"])

    assert [int(row[0]) for row in rows] == sorted(codes)


def commands_of(group: Any, above: str = "") -> dict[str, set[str]]:
    """Return the options of each command, those of a group by their full names."""
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():
        full = f"{above}{name}"
        if hasattr(command, "commands"):
            found |= commands_of(command, f"{full} ")
        else:
            options = {spelled for option in command.params for spelled in option.opts}
            found[full] = {spelled for spelled in options if spelled[0] == "-"}
    return found


def test_the_command_line_page_has_every_command_with_its_options() -> None:
    known = commands_of(typer.main.get_command(reading.app))
    shared = {"-L", "-w", "-r"}

    listed: dict[str, set[str]] = {}
    for heading, text in sections_of(DOCS / "command-line.md").items():
        for options in re.findall(r"^Options: (.*?)\.$", text, re.MULTILINE | re.DOTALL):
            listed[heading] = set(re.findall(r"`(-[\w-]+)`", options)) | (shared & known[heading])

    assert listed == known


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("library.md", IngestReport),
        ("library.md", bundle.SearchResult),
        ("library.md", bundle.Passage),
        ("retrieval.md", bundle.ContextBundle),
        ("retrieval.md", bundle.RetrievedChunk),
        ("retrieval.md", bundle.BundleMetadata),
        ("retrieval.md", bundle.SourceNote),
        ("retrieval.md", bundle.Located),
        ("reading.md", Whereabouts),
    ],
)
def test_the_pages_list_every_member_of_what_is_returned(page: str, kind: Any) -> None:
    rows = table_rows(sections_of(DOCS / page)[kind.__name__])

    assert [row[0] for row in rows] == [entry.name for entry in fields(kind)]


@pytest.mark.parametrize(
    ("page", "kind", "others"),
    [("retrieval.md", RetrievalRequest, ["near_misses"]), ("reading.md", ReadingRequest, [])],
)
def test_the_pages_list_every_argument_with_its_default(
    page: str, kind: Any, others: list[str]
) -> None:
    rows = table_rows(sections_of(DOCS / page)[kind.__name__])
    required = ["query"] if kind is ReadingRequest else []
    listed = {row[0]: row[1] for row in rows if row[0] not in (*others, *required)}

    assert [row[0] for row in rows] == [*(entry.name for entry in fields(kind)), *others]
    assert listed == {
        entry.name: json.dumps(entry.default).replace("null", "None").replace("[]", "()")
        for entry in fields(kind)
        if entry.name not in required
    }


@pytest.mark.parametrize(
    ("page", "heading", "kinds"),
    [
        ("how-it-works.md", "Verifying", FlawKind),
        ("how-it-works.md", "Doctor", Finding),
        ("retrieval.md", "Status", bundle.BundleStatus),
        ("retrieval.md", "Why not", bundle.WhyNot),
    ],
)
def test_every_code_is_explained(page: str, heading: str, kinds: Any) -> None:
    rows = table_rows(sections_of(DOCS / page)[heading])

    assert sorted(row[0] for row in rows) == sorted(kind.value for kind in kinds)


def test_every_warning_of_a_bundle_is_explained() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    given = set(re.findall(r'Notice\(\s*"(\w+)"', source))

    rows = table_rows(sections_of(DOCS / "retrieval.md")["Warnings"])

    assert {row[0] for row in rows} == given


def test_the_chunking_page_lists_every_profile_with_its_size_and_overlap() -> None:
    rows = table_rows(sections_of(DOCS / "chunking.md")["The three strategies"])

    assert [(name, size, overlap) for name, _, size, overlap, _ in rows] == [
        (profile.name, str(profile.size), str(profile.overlap))
        for profile in STANDARD_CHUNKING.values()
    ]


# Words and links


def anchors_of(page: Path) -> set[str]:
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in sections_of(page)]
    return {re.sub(r"\s", "-", heading) for heading in plain}


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    place = (page.parent / name).resolve() if name else page
    if not place.is_relative_to(ROOT) or not place.exists():
        return False
    return not anchor or anchor in anchors_of(place)


@each_page(*PAGES, CHANGELOG)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose_of(page))
    inner = [target for target in targets if not re.match(r"[a-z]+:", target)]

    assert [target for target in inner if not leads_somewhere(page, target)] == []


def test_the_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\((?:docs/)?([\w-]+\.md)\)", prose_of(README)))

    assert {page.name for page in [*PAGES[1:], CHANGELOG]} <= linked


def test_the_readme_opens_with_one_sentence_and_ten_lines_that_run() -> None:
    opening = README.read_text("utf-8").split("```")[0].split("\n\n")[1]
    first = blocks_of(README)[0]

    assert re.fullmatch(r"[^.!?]+\.\s*", opening)
    assert first.language == "python"
    assert len([line for line in first.body.splitlines() if line.strip()]) <= 10


@each_page(*PAGES)
def test_no_page_counts_promises_by_hand(page: Path) -> None:
    counted = r"\b\d+ (?:of \d+ )?(?:promises|statements|proved|open)\b|\bpromises: \d+"

    assert re.findall(counted, prose_of(page)) == []


@each_page(*PAGES, CHANGELOG)
def test_no_page_names_a_place_on_a_machine_or_a_package_index(page: Path) -> None:
    foreign = r"(?<![\w.~])/(?:work|tmp|home|root|Users|usr|opt|var)\b|[A-Z]:\\|pypi|pythonhosted"

    assert re.findall(foreign, page.read_text("utf-8"), re.IGNORECASE) == []
    assert "index-url" not in page.read_text("utf-8")


def test_the_newest_change_is_this_version_with_its_date() -> None:
    newest = next(heading for heading in sections_of(CHANGELOG) if heading[0].isdigit())

    assert re.fullmatch(re.escape(truespan.__version__) + r" - \d{4}-\d\d-\d\d", newest)
