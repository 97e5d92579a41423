"""Documentation: examples run, tables match the code, and links resolve."""

import ast
import inspect
import json
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

import truespan
from tests.support.docs_reader import (
    CHANGELOG,
    CONTRIBUTING,
    DOCS,
    PAGES,
    README,
    ROOT,
    SECURITY,
    Newcomer,
    blocks_of,
    captured,
    first_missing,
    prose_of,
    sections_of,
    table_rows,
)
from tests.support.known_vectors import known_vectors
from tests.support.rows import each_row
from truespan import errors
from truespan.extensions.quality.build import ReindexReport
from truespan.extensions.quality.generations import Promotion
from truespan.ingest import draft
from truespan.ingest.manifest import MANIFEST_FIELDS
from truespan.ingest.metadata import derive_metadata
from truespan.ingest.plan import DocumentOutcome, DryRun, PlannedDocument
from truespan.ingest.report import IngestReport
from truespan.maintenance.doctor.plan import Finding
from truespan.parsing import archive
from truespan.parsing.formats import all_formats, formats_by_ending, pdf
from truespan.parsing.sandbox import client as child_parser
from truespan.parsing.sandbox.client import ChildParser
from truespan.settings import read_settings
from truespan.settings.catalogue import (
    MAX_NUMBER,
    SHARED_NAMES,
    Settings,
    all_types,
    base_type,
    choices,
    constraints,
)
from truespan.settings.tables import CHUNKING_FIELDS
from truespan.types import answer, bundle
from truespan.types.answer import SentenceSupport, Support, SupportReason, UsageRecord
from truespan.types.conversation import ConversationInfo, Turn
from truespan.types.decision import AnswerMode, DecisionReason, Refusal, RewrittenBy
from truespan.types.document import Derivable, DomainRecord, GenerationRecord
from truespan.types.job import DocumentState, Job, JobCounts, JobState
from truespan.types.profile import STANDARD_CHUNKING
from truespan.types.reading import ReadingPosition
from truespan.types.text import Properties
from truespan.types.token import TokenRecord
from truespan.types.trust import FailureKind, OtherPlace
from truespan.wire.serialize import EXIT_PARTIAL, EXIT_UNHEALTHY, STATUS

CHECKED = {"python", "console", "sh", "text", "toml", "json"}
"""Kinds of blocks that something here looks at."""
TABLES = {"keys": "[[keys]]", "chunkings": "[chunking.NAME]", "embeddings": "[embedding.NAME]"}
"""Settings that are tables of a file, and how they are spelled there."""


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    with known_vectors():
        yield Newcomer(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_each_page_run_as_shown(page: Path, newcomer: Newcomer) -> None:
    assert "\n\n".join(newcomer.follow(page)) == ""


def test_demo_fits_the_screen_and_its_last_question_is_answered_at_the_end(
    newcomer: Newcomer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("TRUESPAN_WORLD_DEFAULTS")
    demo = ROOT / "examples" / "demo.py"
    with captured() as output:
        runpy.run_path(str(demo), run_name="__main__")
    start, *parts = re.split(r"^(?=\d\. .* ─+$)", output.getvalue(), flags=re.MULTILINE)
    _, chapter_two, end = re.split(r"^(?:After chapter two|At the end),", parts[-1], flags=re.M)

    assert "seconds" in start
    assert len(parts) == 7
    assert {
        part.splitlines()[0]: count for part in parts if (count := part.count("\n")) >= 24
    } == {}
    assert {line for line in output.getvalue().splitlines() if len(line) > 80} == set()
    assert "Nothing certain in what has been read of this book so far." in chapter_two
    assert "Lavinia Sorrel" not in chapter_two
    assert re.search(r"Lavinia Sorrel,.*You killed\s+him", end, re.DOTALL)


def test_demo_explains_itself_before_any_import() -> None:
    [_, future, first, *_] = ast.parse((ROOT / "examples" / "demo.py").read_text("utf-8")).body
    assert isinstance(future, ast.ImportFrom)
    assert future.module == "__future__"
    assert ast.unparse(first).startswith("print('Truespan demo:")


@each_row("page", [*PAGES, CHANGELOG])
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


def test_settings_page_lists_every_table_of_the_file() -> None:
    assert all(spelled in prose_of(DOCS / "settings.md") for spelled in TABLES.values())


def test_each_variable_sets_its_setting(tmp_path: Path) -> None:
    for name in all_types():
        own = f"TRUESPAN_{name.upper()}"
        for spelled in (own, name.upper()) if name.upper() in SHARED_NAMES else (own,):
            for value, expected in values_for(name):
                assert read_settings(tmp_path, {spelled: value}).value_of(name) == expected
        for wrong in wrong_values_for(name):
            with pytest.raises(errors.InvalidConfiguration):
                read_settings(tmp_path, {own: wrong})


def whole_number_limits(name: str) -> tuple[int, int] | None:
    """Return the minimum and the maximum of a setting that is a whole number."""
    limits = constraints(name)
    if base_type(name) is not int or limits.ge is None:
        return None
    return int(limits.ge), int(MAX_NUMBER if limits.le is None else limits.le)


def values_for(name: str) -> list[tuple[str, Any]]:
    """Return values of a setting, as a variable spells them and as they are read."""
    if limits := whole_number_limits(name):
        return [(str(number), number) for number in limits]
    if base_type(name) is bool:
        return [("1", True), ("0", False)]
    if base_type(name) is float:
        return [("0.5", 0.5)]
    if name.endswith(("_url", "_issuer")):
        return [("http://localhost:1", "http://localhost:1")]
    return [(choice, choice) for choice in choices(name) or ("another",)]


def wrong_values_for(name: str) -> list[str]:
    if limits := whole_number_limits(name):
        return [str(limits[0] - 1), str(limits[1] + 1)]
    return ["nonsense"] if choices(name) else []


def test_the_settings_page_names_every_other_variable_that_is_read() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r'"((?:(?:TRUESPAN|XDG)_[A-Z_]+|[A-Z]+_API_)[A-Z]+)"', source))
    others = table_rows(sections_of(DOCS / "settings.md")["Other variables"])
    assert {row[0] for row in others} == read


@each_row("page", [*PAGES])
def test_settings_files_that_a_page_shows_are_valid(page: Path, tmp_path: Path) -> None:
    for block in blocks_of(page):
        if block.language == "toml":
            (tmp_path / "truespan.toml").write_text(block.body, encoding="utf-8")
            shown = tomllib.loads(block.body)
            settings = read_settings(tmp_path, kept_keys(shown.get("keys", []), tmp_path))
            assert len(settings.keys) == len(shown.pop("keys", []))
            for name, members in shown.pop("chunking", {}).items():
                profile = settings.chunkings[name]
                assert {member: getattr(profile, member) for member in members} == members
            for name, members in shown.pop("embedding", {}).items():
                model = settings.embeddings[name] if isinstance(members, dict) else settings
                for member, value in (
                    members.items() if isinstance(members, dict) else [(name, members)]
                ):
                    own = "provider" if member == "kind" else member
                    is_shared = own in ("provider", "device")
                    prefix = "embedding" if is_shared else model.embedding.provider
                    assert model.value_of(f"{prefix}_{own}".replace("-", "_")) == value
            assert len(settings.audiences) == len(shown.pop("audience", []))
            assert len(settings.auth_rules) == len(shown.get("auth", {}).pop("rules", []))
            for section in ("rerank", "auth"):
                for name, value in shown.pop(section, {}).items():
                    assert settings.value_of(f"{section}_{name}") == value
            for name, value in shown.items():
                expected = ",".join(value) if isinstance(value, list) else value
                assert settings.value_of(name) == expected


def kept_keys(tables: list[dict[str, Any]], folder: Path) -> dict[str, str]:
    """Write a key to each documented place; return the variables among these places."""
    for table in tables:
        if "file" in table:
            (folder / table["file"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / table["file"]).write_text("a-key", encoding="utf-8")
    return {table["env"]: "a-key" for table in tables if "env" in table}


@each_row("page", [*PAGES])
def test_json_that_a_page_shows_is_valid(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "json":
            json.loads(block.body)


def test_command_line_page_lists_every_exit_code() -> None:
    codes = {0, EXIT_PARTIAL, EXIT_UNHEALTHY} | {status.exit_code for status in STATUS.values()}
    rows = table_rows(sections_of(DOCS / "command-line.md")["Exit codes"])
    assert [int(row[0]) for row in rows] == sorted(codes)


@pytest.mark.parametrize("kind", [
    IngestReport, bundle.SearchResult, bundle.Passage, bundle.ContextBundle, bundle.RetrievedChunk,
    bundle.BundleMetadata, bundle.SourceNote, OtherPlace, bundle.Located, bundle.FigureNote,
    ReadingPosition, answer.Answer, answer.Citation, answer.Quote, answer.RetrievedNote, Support,
    SentenceSupport, answer.ConversationNote, Turn, ConversationInfo, UsageRecord, DryRun,
    PlannedDocument, Job, JobCounts, ReindexReport, Promotion, GenerationRecord, DomainRecord,
])  # fmt: skip
def test_records_page_lists_every_member(kind: Any) -> None:
    sections = sections_of(DOCS / "records.md")
    text = sections[kind.__name__]
    shared = [row[0] for row in table_rows(sections["Members of several records"])]
    also = re.search(r"\*\*Also:\*\* (.*)\.", text)
    others = re.findall(r"`(\w+)`", also[1]) if also else []
    own = [row[0] for row in table_rows(text)]
    assert sorted([*own, *others]) == sorted(entry.name for entry in fields(kind))
    assert [name for name in others if name not in shared] == []


def test_http_page_lists_every_member_of_a_token_record() -> None:
    rows = table_rows(sections_of(DOCS / "http.md")["TokenRecord"])
    assert [row[0] for row in rows] == [entry.name for entry in fields(TokenRecord)]


@pytest.mark.parametrize(("page", "heading", "kinds"), [
    ("how-it-works.md", "Verifying", FailureKind), ("answers.md", "Reasons", SupportReason),
    ("maintenance.md", "What it finds", Finding), ("retrieval.md", "Status", bundle.BundleStatus),
    ("retrieval.md", "Why not", bundle.WhyNot), ("ingesting.md", "Jobs", JobState),
    ("ingesting.md", "States of a document", DocumentState),
    ("ingesting.md", "Dry runs", DocumentOutcome),
])  # fmt: skip
def test_every_code_is_explained(page: str, heading: str, kinds: Any) -> None:
    rows = table_rows(sections_of(DOCS / page)[heading])
    assert sorted(row[0] for row in rows) == sorted(kind.value for kind in kinds)


def test_every_warning_of_a_bundle_is_explained() -> None:
    stages = [
        *(ROOT / "src/truespan/retrieval").rglob("*.py"),
        *(ROOT / "src/truespan/words").rglob("*.py"),
        ROOT / "src/truespan/types/bundle.py",
    ]
    source = "".join(path.read_text("utf-8") for path in stages)
    given = set(re.findall(r'Notice\(\s*"(\w+)"', source))
    rows = table_rows(sections_of(DOCS / "retrieval.md")["Warnings"])
    assert {row[0] for row in rows} == given


def test_every_warning_reason_and_refusal_of_an_answer_is_explained() -> None:
    engine = ROOT / "src/truespan/engine/answering.py"
    checks = (ROOT / "src/truespan/extensions/checks").rglob("*.py")
    stages = [*(ROOT / "src/truespan/answers").rglob("*.py"), *checks, engine]
    source = "".join(path.read_text("utf-8") for path in stages)
    given = set(re.findall(r'Notice\(\s*"(\w+)"', source))
    sections = sections_of(DOCS / "answers.md")
    codes = [row[0] for row in table_rows(sections["Modes"])]
    assert {row[0] for row in table_rows(sections["Answer warnings"])} == given
    assert {*AnswerMode, *DecisionReason, *Refusal} <= set(codes)


def test_chunking_page_lists_profiles_and_their_members() -> None:
    rows = table_rows(sections_of(DOCS / "ingesting.md")["The three strategies"])
    assert [(name, size, overlap) for name, _, size, overlap, _ in rows] == [
        (profile.name, str(profile.size), str(profile.overlap))
        for profile in STANDARD_CHUNKING.values()
    ]
    rows = table_rows(sections_of(DOCS / "ingesting.md")["Custom profiles"])
    assert [row[0] for row in rows] == [*CHUNKING_FIELDS]


def test_answers_page_describes_question_rewriting() -> None:
    sections = sections_of(DOCS / "answers.md")
    rows = table_rows(sections["How a question is completed"])
    assert [row[0] for row in rows] == [*RewrittenBy]


def test_formats_page_lists_every_format_with_its_endings() -> None:
    rows = table_rows(sections_of(DOCS / "formats.md")["Formats"])
    listed = {ending: row[0] for row in rows for ending in re.findall(r"\.\w+", row[1])}
    assert listed == {ending: each.name for ending, each in formats_by_ending().items()}
    assert sorted(row[0] for row in rows) == sorted(each.name for each in all_formats())


def test_formats_page_states_the_limits_in_force() -> None:
    settings = Settings()
    parser = inspect.signature(ChildParser).parameters
    per_size = child_parser._MEMORY_PER_BYTE, child_parser._OUTPUT_PER_BYTE
    expected = [
        (f"{settings.source_max_mib} MiB", "source_max_mib"),
        (f"{parser['memory_bytes'].default >> 20} MiB, and {per_size[0]} times", ""),
        (
            f"{parser['cpu_seconds'].default:g} seconds, and "
            f"{parser['cpu_seconds_per_mb'].default:g} for each MiB",
            "",
        ),
        (f"{child_parser._WALL_PER_CPU} times", ""),
        (f"{parser['output_bytes'].default >> 20} MiB, and {per_size[1]} times", ""),
        (f"{archive.MAX_MEMBERS}", ""),
        (f"{archive.MAX_MEMBER_SIZE >> 20} MiB", ""),
        (f"{archive.MAX_TOTAL_SIZE >> 20} MiB", ""),
        (f"{archive.MAX_RATIO}, beyond the first {archive.FREE_SIZE >> 20} MiB", ""),
        (f"{pdf._MAX_PAGES}", ""),
        (f"{parser['ocr_cpu_seconds'].default} seconds more", ""),
        (f"{child_parser.RECOGNITION_MEMORY >> 20} MiB more", ""),
    ]

    rows = table_rows(sections_of(DOCS / "formats.md")["Limits"])

    for (_, limit, setting), (begins, named) in zip(rows, expected, strict=True):
        assert limit.startswith(begins)
        assert setting == named


def test_formats_page_explains_the_summary_records() -> None:
    source = inspect.getsource(draft)
    records = re.findall(r"DOCX_\w+_SUMMARY .*?\n +\)", source, re.DOTALL)
    rows = table_rows(sections_of(DOCS / "formats.md")["Summary records"])
    assert len(records) == 2
    assert [row[0] for row in rows] == re.findall(r"(\w+)=\{", "".join(records))


def test_metadata_is_listed_where_it_is_derived_and_declared() -> None:
    nothing = Derivable("", None, "en", False, None, Properties(), "", (), 0)
    rows = table_rows(sections_of(DOCS / "ingesting.md")["Metadata"])
    assert sorted(row[0] for row in rows) == sorted(json.loads(derive_metadata(nothing)))
    rows = table_rows(sections_of(DOCS / "metadata.md")["Lines"])
    assert sorted(row[0] for row in rows) == sorted(MANIFEST_FIELDS)


# Words and links


def anchors_of(page: Path) -> set[str]:
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in sections_of(page)]
    return {re.sub(r"\s", "-", heading) for heading in plain}


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    place = (page.parent / name).resolve() if name else page
    # The documentation site has no other pages.
    allowed = DOCS if page.is_relative_to(DOCS) else ROOT
    if not place.is_relative_to(allowed) or not place.exists():
        return False
    return not anchor or anchor in anchors_of(place)


@each_row("page", [*PAGES, CHANGELOG, SECURITY, CONTRIBUTING])
def test_links_within_the_project_resolve(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose_of(page))
    inner = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in inner if not leads_somewhere(page, target)] == []


def test_index_links_to_every_page_and_readme_to_index() -> None:
    from_index = set(re.findall(r"\]\(([\w-]+\.md)\)", prose_of(DOCS / "index.md")))
    from_readme = re.findall(r"\]\(([\w/-]+\.md)\)", prose_of(README))
    assert {page.name for page in PAGES[1:]} - {"index.md"} <= from_index
    linked = {"docs/index.md", CHANGELOG.name, SECURITY.name, CONTRIBUTING.name}
    assert linked <= set(from_readme)


def test_contributing_names_only_files_that_exist() -> None:
    text = prose_of(CONTRIBUTING)
    named = set(re.findall(r"`((?:src|tests|docs|tools|lock)/[\w/.-]+)`", text))
    table = sections_of(CONTRIBUTING)["Source tree"].split("Tests:")[0]
    parts = {
        f"src/truespan/{part}"
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for part in re.findall(r"`([\w./]+)`", row)
    }
    assert sorted(path for path in named | parts if not (ROOT / path).exists()) == []


def test_the_site_navigation_lists_every_page_once() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    listed = re.findall(r"[\w-]+\.md", json.dumps(site["nav"]))
    assert sorted(listed) == sorted(page.name for page in PAGES[1:])


@each_row("page", [*PAGES, CHANGELOG, SECURITY, CONTRIBUTING])
def test_every_page_has_one_title(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    assert text.startswith("# ")


def test_readme_opens_with_sentence_install_and_ten_lines() -> None:
    opening = README.read_text("utf-8").split("```")[0].split("\n\n")[1]
    install, command, example = blocks_of(README)[:3]
    assert re.fullmatch(r"[^.!?]+\.\s*", opening)
    assert install.body == "$ pip install .\n"
    assert command.body.startswith("$ truespan ask examples/")
    assert example.language == "python"
    assert len([line for line in example.body.splitlines() if line.strip()]) <= 10


@each_row("page", [*PAGES])
def test_no_page_states_the_number_of_promises(page: Path) -> None:
    counted = r"\b\d+ (?:of \d+ )?(?:promises|statements|proved|open)\b|\bpromises: \d+"
    assert re.findall(counted, prose_of(page)) == []


@each_row("page", [*PAGES, CHANGELOG, SECURITY, CONTRIBUTING])
def test_no_page_names_a_local_path_or_a_package_index(page: Path) -> None:
    foreign = r"(?<![\w.~])/(?:work|tmp|home|root|Users|usr|opt|var)\b|[A-Z]:\\|pypi|pythonhosted"
    # The guide for one host says where that host has the program, the library and its backups.
    of_host = r"/(?:opt|var/lib|var/backups)/truespan\b|/usr/sbin/nologin"
    text = re.sub(of_host, "", page.read_text("utf-8"))
    assert re.findall(foreign, text, re.IGNORECASE) == []
    assert "index-url" not in page.read_text("utf-8")


def test_the_newest_change_is_this_version_with_its_date() -> None:
    newest = next(heading for heading in sections_of(CHANGELOG) if heading[0].isdigit())
    assert re.fullmatch(re.escape(truespan.__version__) + r" - \d{4}-\d\d-\d\d", newest)
