"""The fast part of the suite (`pytest --fast`): tests in one process, without PostgreSQL.

A file with tests that start processes, or that takes seconds, belongs to the rest as a whole. A
test of the fast part that starts a process fails, so that the part stays fast.
"""

import re
import sys
from functools import cache
from pathlib import Path

import pytest

FOLDERS = ("unit", "laws", "scenario")
SLOW = {
    *("laws/test_non_interference", "laws/test_reach", "laws/test_reading_words"),
    *("scenario/test_backup", "scenario/test_doctor", "scenario/test_doctor_damage"),
    *("scenario/test_own_model", "scenario/test_provider_faults", "unit/test_doctor_machine"),
    *("unit/test_http_json", "unit/test_regex_growth"),
    *("laws/test_audience_non_interference", "unit/test_upkeep_jobs", "unit/test_world_evaluation"),
    *("laws/test_conversation_non_interference", "laws/test_fused_non_interference"),
    *("laws/test_look_ahead", "scenario/test_spoilers", "laws/test_token_counts"),
    *("unit/test_code", "unit/test_docx_hostile", "scenario/test_rotation"),
}
"""Files that take long, or start a process in a way that their text does not show."""
_STARTS_PROCESS = re.compile(
    r"\b(subprocess|multiprocessing|forked_process|qdrant_loopback|ChildParser|EdgeIndex|"
    r"truespan\.open|postgres|fork|make_certificate)\b"
)
_NEEDS_EXTENSION = re.compile(
    r"truespan\.extensions\b|^pytestmark = .*needs_extension|\.generations\.|update_alias=True",
    re.MULTILINE,
)
_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"}


@cache
def is_fast(file: Path) -> bool:
    """Return whether a test file belongs to the fast part."""
    folder = file.parent.name
    if folder not in FOLDERS or f"{folder}/{file.stem}" in SLOW:
        return False
    return not _STARTS_PROCESS.search(file.read_text())


def is_of_engine(file: Path) -> bool:
    """Return whether a file of tests needs no extension, except for single tests marked so."""
    return not _NEEDS_EXTENSION.search(file.read_text())


def deselect_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all tests outside the fast part, and let every test fail that starts a process."""
    config.hook.pytest_deselected(items=[item for item in items if not is_fast(item.path)])
    items[:] = [item for item in items if is_fast(item.path)]
    sys.addaudithook(_refuse_processes)


def _refuse_processes(event: str, _arguments: tuple[object, ...]) -> None:
    if event in _EVENTS:
        pytest.fail(f"A fast test must not start a process ({event}).")
