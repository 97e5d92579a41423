"""Patterns of paths: `*`, `?` and `[...]` within a name, `**` for any number of folders.

A tree is walked once, whatever the pattern: at each folder it is known which parts of the pattern
may come next. So no pattern takes longer than there are files, times its parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import translate

ANY_DEPTH = "**"
_WILD = re.compile(r"[*?\[]")

States = frozenset[int]
"""Which parts of a pattern may match the next name."""


def is_wild(text: str) -> bool:
    """Say whether a path or a name holds a character that can stand for others."""
    return _WILD.search(text) is not None


def parts_of(path: str) -> list[str]:
    """Return the names in a path that slashes divide; empty ones and `.` say nothing."""
    return [part for part in path.split("/") if part not in ("", ".")]


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern that is held against one name after another.

    As in a shell, only a part that begins with a dot matches a name that does.
    """

    _parts: tuple[Callable[[str], bool] | None, ...]
    """How each part matches a name; None is any number of folders."""

    @classmethod
    def of(cls, parts: Sequence[str]) -> PathPattern:
        """Return the pattern with these parts; several `**` in a row are one."""
        pairs = zip(parts, ["", *parts], strict=False)
        kept = [part for part, before in pairs if not part == before == ANY_DEPTH]
        return cls(tuple(None if part == ANY_DEPTH else _name_test(part) for part in kept))

    def begin(self) -> States:
        """Return the states in which the folder to be searched is entered."""
        return self._with_skipped({0})

    def enter(self, states: States, name: str) -> States:
        """Return the states within the folder `name`; none when nothing below it can match."""
        after: set[int] = set()
        for state in states:
            test = self._test(state)
            if test is None:
                after.update(() if _is_hidden(name) else (state,))
            elif test(name):
                after.add(state + 1)
        return self._with_skipped(after)

    def accepts(self, states: States, name: str) -> bool:
        """Say whether a file of this name, met in these states, is what the pattern means."""
        last = len(self._parts) - 1
        if last not in states:
            return False
        test = self._parts[last]
        return not _is_hidden(name) if test is None else test(name)

    def matches(self, names: Sequence[str]) -> bool:
        """Say whether a whole path, given as its names, is what the pattern means."""
        if not names:
            return False
        states = self.begin()
        for name in names[:-1]:
            states = self.enter(states, name)
        return self.accepts(states, names[-1])

    def _test(self, state: int) -> Callable[[str], bool] | None:
        # Past the last part nothing matches any more.
        return self._parts[state] if state < len(self._parts) else _never

    def _with_skipped(self, states: set[int]) -> States:
        """Add what may come next where `**` stands for no folder at all."""
        skipped = {state + 1 for state in states if self._test(state) is None}
        return frozenset(states | skipped)


def _name_test(part: str) -> Callable[[str], bool]:
    if not is_wild(part):
        return part.__eq__
    match = re.compile(translate(part)).match
    if part.startswith("."):
        return lambda name: match(name) is not None
    return lambda name: not _is_hidden(name) and match(name) is not None


def _never(_: str) -> bool:
    return False


def _is_hidden(name: str) -> bool:
    return name.startswith(".")
