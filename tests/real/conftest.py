"""Tests against real servers, each named by a variable; missing servers are listed at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SERVICES = {
    "QDRANT_URL": "a Qdrant server",
    "DATABASE_URL": "a PostgreSQL server, as a role that may create databases and roles",
    "OLLAMA_BASE_URL": "an Ollama server (TRUESPAN_OLLAMA_MODEL, TRUESPAN_CHAT_MODEL)",
    "OPENAI_BASE_URL": "a server with OpenAI's API (TRUESPAN_OPENAI_MODEL, TRUESPAN_CHAT_MODEL)",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests here: they need servers."""
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.real)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which servers were tested, and prominently which were not."""
    for name, what in SERVICES.items():
        if os.environ.get(name):
            terminalreporter.write_line(f"tested: {what}")
        else:
            terminalreporter.write_line(f"NOT TESTED, {name} is not set: {what}", yellow=True)


def address(name: str) -> str:
    """Return the address of a server, or skip the test."""
    found = os.environ.get(name, "")
    if not found:
        pytest.skip(f"{name} is not set: {SERVICES[name]}")
    return found
