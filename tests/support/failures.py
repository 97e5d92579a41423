"""Assertions on errors by their codes."""

from typing import Any

import pytest

from truespan.errors import TruespanError, error_codes


def raises_code(
    *kinds: str | type[TruespanError], match: str | None = None
) -> pytest.RaisesExc[Any]:
    """Expect an error with one of the codes; a class stands for its own code."""
    codes = {kind if isinstance(kind, str) else kind.code for kind in kinds}
    types = tuple({error_codes()[code] for code in codes})
    return pytest.raises(types, match=match, check=lambda error: error.code in codes)
