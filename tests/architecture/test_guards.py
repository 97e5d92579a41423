"""Each guard of `make guards` exists in the source, with its promise and its tests."""

from tools.guards import ROOT, Guard, load_guards

from tests import promises
from tests.support.rows import each_row

PROMISES = {promise.id for promise in promises.load()}


@each_row("guard", load_guards())
def test_guard_occurs_once_and_can_be_broken(guard: Guard) -> None:
    broken = guard.break_in((ROOT / guard.file).read_text("utf-8"))
    assert broken is not None, f"its text occurs not once in {guard.file}: move its row"
    assert compile(broken, guard.file, "exec")
    assert guard.promise in PROMISES


@each_row("guard", load_guards())
def test_guard_names_existing_tests(guard: Guard) -> None:
    for test in guard.tests:
        file, *names = test.split("::")
        text = (ROOT / file).read_text("utf-8")
        assert all(f" {name.partition('[')[0]}(" in text for name in names), test


def test_guard_names_are_unique() -> None:
    names = [guard.name for guard in load_guards()]
    assert len(set(names)) == len(names)
