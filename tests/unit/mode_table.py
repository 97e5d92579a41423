"""The mode table: which answer mode each situation has, typed out by hand in `mode_table.toml`.

This module does not use the code under test. A line of the table is

    words | situation ; situation ; ... | models | mode reason query sources llm used

and each of its word counts with each of its situations is one row; after a `;` it may go on in the
next line. A situation is a list of chunks in any order. A chunk is `t` (text) or `f` (figure) and a
score, then `*` and its characters (200 unless told), `x` and how many there are of it, `@` and
where it starts in the document. A score is the float32 number nearest to what is written; `+` and
`-` after it mean the next one above and below, `=` the double as it is written. `models` says what
became of the primary model and, after a slash, of the fallback model (`-`: not run); `reader` marks
a reader's request.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CHUNK = re.compile(r"([tf])(-?[\d.]+)([-+=]?)(?:\*(\d+))?(?:x(\d+))?(?:@(\d+))?")


class Chunk(NamedTuple):
    """One chunk of a situation; `score` is on the scale of the family's settings."""

    kind: str
    score: float
    characters: int
    start: int | None


class Expected(NamedTuple):
    """The expected result."""

    mode: str
    reason: str
    short_query_active: bool
    sources_used: str
    used_llm: str
    used: int


@dataclass(frozen=True)
class Row:
    """One row: a situation under the settings of its family, and its expected result."""

    family: str
    settings: dict[str, Any]
    words: int
    situation: str
    primary: str
    fallback: str
    reading: bool
    expected: Expected

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for spelled in self.situation.split() for chunk in _chunks(spelled)]

    def __str__(self) -> str:
        models = f"{self.primary}/{self.fallback}{' reader' if self.reading else ''}"
        return f"{self.family}: {self.words} words, {self.situation or 'nothing'}, {models}"


def _chunks(spelled: str) -> list[Chunk]:
    match = CHUNK.fullmatch(spelled)
    assert match, spelled
    kind, number, step, characters, times, start = match.groups()
    score = np.float32(number)
    if step in ("+", "-"):
        score = np.nextafter(score, np.float32(9 if step == "+" else -9))
    exact = float(number) if step == "=" else float(score)
    place = None if start is None else int(start)
    one = Chunk("text" if kind == "t" else "figure", exact, int(characters or 200), place)
    return [one] * int(times or 1)


def _rows(family: str, given: dict[str, Any], text: str) -> list[Row]:
    rows: list[Row] = []
    settings = {key: tuple(one) if isinstance(one, list) else one for key, one in given.items()}
    for line in filter(None, text.replace(";\n", ";").splitlines()):
        words, situations, models, outcome = (part.strip() for part in line.split("|"))
        primary, _, fallback = models.removesuffix("reader").strip().partition("/")
        mode, reason, query, sources, llm, used = outcome.split()
        expected = Expected(mode, reason, query == "short", sources, llm, int(used))
        rows += [
            Row(
                family=family,
                settings=settings,
                words=int(count),
                situation=" ".join(situation.split()),
                primary=primary.replace("-", "not_run"),
                fallback=(fallback or "-").replace("-", "not_run"),
                reading=models.endswith("reader"),
                expected=expected,
            )
            for count in words.split()
            for situation in situations.split(";")
        ]
    return rows


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
ROWS = [
    row
    for family in _TABLE["family"]
    for row in _rows(family["name"], family.get("settings", {}), family["rows"])
]
