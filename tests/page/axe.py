"""axe-core, which finds accessibility violations.

`make test-page` installs it with npm. Without npm, the tests that use it are skipped loudly.
"""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.visit import Visit

SCRIPT = Path(__file__).parents[2] / ".venv" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
MISSING = "ACCESSIBILITY IS NOT TESTED: axe-core is not here; install npm and run 'make test-page'"
RUN = """async () => {
    const found = await axe.run(document, {resultTypes: ['violations']});
    return found.violations.flatMap(({id, nodes}) => nodes.map(
        ({target, failureSummary}) => `${id}: ${target} ${failureSummary.split('\\n')[1].trim()}`));
}"""
BUSY = "document.querySelector('[aria-busy=true]') !== null"


def require_axe() -> str:
    """Return the program; skip the test if it is not installed."""
    if not SCRIPT.exists():
        pytest.skip(MISSING)
    return SCRIPT.read_text("utf-8")


def violations(visit: Visit, where: str) -> list[str]:
    """Return the violations that axe-core finds on the current page."""
    if not visit.page.evaluate("Boolean(window.axe)"):
        visit.page.evaluate(require_axe())
    # Content that is loading is dimmed, which is not a violation.
    found: list[str] = visit.page.evaluate(RUN)
    while found and (visit.page.evaluate(BUSY) or found != visit.page.evaluate(RUN)):
        expect(visit.find("[aria-busy=true]")).to_have_count(0)
        found = visit.page.evaluate(RUN)
    return [f"{where}: {line}" for line in found]
