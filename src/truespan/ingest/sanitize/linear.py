"""Which patterns of a profile may run: those whose work on any text is bounded beforehand.

A pattern tried at one place of a text can end in several ways, and the engine may have to try them
all. Their number is the product of the choices along the pattern. Where it is known and small, and
the width is too, the work on a text is at most its length times a constant. Unbounded repetition,
references to earlier groups and conditions have no such number, and are refused.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from truespan.errors import InvalidConfiguration

MOST_WAYS = 10_000
WIDEST = 512


def checked(pattern: str, where: str) -> re.Pattern[str]:
    """Return a pattern compiled, once it is sure that it cannot run for long.

    Raises:
        InvalidConfiguration: it is no pattern, matches nothing at all, or could run for long.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidConfiguration(f"{where}: the pattern cannot be read: {error}.") from None
    # The engine's own reader of patterns: a second one of ours might read some of them differently.
    tree: Any = import_module("re._parser").parse(pattern)
    ways = _ways_of(tree, where)
    if ways > MOST_WAYS:
        raise InvalidConfiguration(
            f"{where}: the pattern could be tried in more than {MOST_WAYS} ways at one place.",
            advice="Use fewer or smaller repetitions, and none inside another.",
        )
    narrowest, widest = tree.getwidth()
    if narrowest == 0:
        raise InvalidConfiguration(f"{where}: the pattern matches where there is nothing.")
    if widest > WIDEST:
        raise InvalidConfiguration(
            f"{where}: the pattern may match {widest} characters; {WIDEST} are allowed."
        )
    return compiled


def _ways_of(items: Any, where: str) -> int:
    """Return in how many ways a sequence can match at one place, at most."""
    ways = 1
    for kind, content in items:
        ways = min(ways * _ways_of_one(str(kind), content, where), MOST_WAYS + 1)
    return ways


def _ways_of_one(kind: str, content: Any, where: str) -> int:
    match kind:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT":
            return 1
        case "BRANCH":
            return sum(_ways_of(branch, where) for branch in content[1])
        case "SUBPATTERN":
            return _ways_of(content[3], where)
        case "ASSERT" | "ASSERT_NOT":
            return _ways_of(content[1], where)
        case "ATOMIC_GROUP":
            return _ways_of(content, where)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, repeated = content
            return _ways_of_repeat(least, most, repeated, where)
    raise InvalidConfiguration(
        f"{where}: the pattern refers back to a group, which could run for long.",
        advice="Write the repeated part out.",
    )


def _ways_of_repeat(least: int, most: int, items: Any, where: str) -> int:
    if most > WIDEST:
        raise InvalidConfiguration(
            f"{where}: the pattern repeats something without a bound, or more than {WIDEST} times.",
            advice="Give each repetition an upper bound, such as {1,64} instead of +.",
        )
    once, total, power = _ways_of(items, where), 0, 1
    for count in range(most + 1):
        if count >= least:
            total += power
        power = min(power * once, MOST_WAYS + 1)
    return min(total, MOST_WAYS + 1)
