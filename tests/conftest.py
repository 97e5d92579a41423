"""What pytest itself needs for this suite."""

import pytest

from tests import promises


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many promises are proved and which are open, so that gaps stay in sight."""
    for line in promises.summary(promises.load()):
        terminalreporter.write_line(line)
