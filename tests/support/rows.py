"""A matrix of cases as one test that tries every row and reports all that fail."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[..., Callable]:
    """Call a test once for each row, with its values as the named arguments.

    This is `pytest.mark.parametrize` without a test for each row: for tests that need no fixture,
    thousands of which cost more to collect and to report than to run. Rows of several decorators
    are combined.
    """
    arguments = tuple(names.replace(" ", "").split(",")) if isinstance(names, str) else names
    listed = list(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(**others: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            for row in listed:
                values = (row,) if len(arguments) == 1 else tuple(row)
                try:
                    test(**dict(zip(arguments, values, strict=True)), **others)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((repr(row), error))
            if failed:
                told = "\n\n".join(f"{row}: {error}" for row, error in failed)
                count = f"{len(failed)} of {len(listed)} rows failed"
                raise AssertionError(f"{count}:\n\n{told}") from failed[0][1]

        left = [
            parameter
            for name, parameter in inspect.signature(test).parameters.items()
            if name not in arguments
        ]
        run.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "pytestmark"):
            if hasattr(test, name):
                setattr(run, name, getattr(test, name))
        return run

    return decorate
