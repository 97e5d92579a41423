"""The mode table: which answer mode each situation has, typed out by hand.

Nothing in here knows the code. A line is

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
from dataclasses import dataclass
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
    """What must come out."""

    mode: str
    reason: str
    short_query_active: bool
    sources_used: str
    used_llm: str
    used: int


@dataclass(frozen=True)
class Row:
    """One row: a situation under the settings of its family, and what must come out."""

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


def _rows(family: str, settings: dict[str, Any], text: str) -> list[Row]:
    rows: list[Row] = []
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


LONG_QUERIES = """
4 40 | t.55 ; t.55+ ; t.55= ; t.56 ; t.6 ; t.75 ; t.99 ;
    t1 ; t1+ | answered | rag reached_high long all primary 1
4 40 | t.55 ; t.55+ ; t.55= ; t.56 ; t.6 ; t.75 ;
    t.99 ; t1 ; t1+ | - | rag reached_high long all none 1
5 | t.55 ; t.55+ ; t.55= ; t.57 ; t.9 ; t1 | absent | rag reached_high long all none 1
4 9 | t.55 ; t.55+ ; t.56 ; t.6 ; t.75 ; t1 | blank | fallback primary_blank long none none 0
4 9 | t.55 ; t.55+ ; t.56 ; t.6 ; t.75 ;
    t1 | no_context | fallback primary_no_context long none none 0
4 40 | t.55- ; t.549999 ; t.54 ; t.53 ; t.51 ; t.5+ ;
    t.5 ; t.5= | answered | hybrid gates_held long all primary 1
4 40 | t.55- ; t.549999 ; t.54 ; t.53 ; t.51 ;
    t.5+ ; t.5 ; t.5= | - | hybrid gates_held long all none 1
5 | t.55- ; t.549 ; t.52 ; t.5 | absent | hybrid gates_held long all none 1
4 9 | t.55- ; t.54 ; t.52 ; t.5 | blank | fallback primary_blank long none none 0
4 9 | t.55- ; t.54 ; t.52 ; t.5 | no_context | fallback primary_no_context long none none 0
4 40 | t.5- ; t.499999 ; t.45 ; t.3 ; t.28 ; t.25+ ;
    t.25 ; t.25= | - | fallback gate_failed long none none 0
4 | t.5- ; t.45 ; t.3 ; t.28 ; t.26 ; t.25 | -/answered | fallback gate_failed long none fallback 0
4 | t.5- ; t.4 ; t.25 | -/absent | fallback gate_failed long none none 0
4 | t.5- ; t.4 ; t.25 | -/blank | fallback gate_failed long none none 0
4 40 | t.25- ; t.249999 ; t.2 ; t.1 ; t0 ; t-0.1 ; t-1 | - | fallback below_low long none none 0
4 | t.25- ; t.24 ; t.2 ; t.1 ; t0 ; t-0.1 | -/answered | fallback below_low long none fallback 0
4 | t.25- ; t.2 ; t0 | -/no_context | fallback below_low long none none 0
4 40 | | - | fallback nothing_found long none none 0
4 40 | | -/answered | fallback nothing_found long none fallback 0
4 | | -/absent | fallback nothing_found long none none 0
"""

SHORT_QUERIES = """
0 1 3 | t.58 ; t.58+ ; t.58= ; t.59 ; t.7 ; t1 | answered | rag reached_high short all primary 1
1 3 | t.58 ; t.58+ ; t.58= ; t.9 | - | rag reached_high short all none 1
2 | t.58 ; t.6 ; t1 | blank | fallback primary_blank short none none 0
2 | t.58 ; t.6 ; t1 | no_context/answered | fallback primary_no_context short none fallback 0
0 1 3 | t.58- ; t.579999 ; t.57 ; t.55+ ; t.55 ;
    t.55- ; t.5 | answered | hybrid gates_held short all primary 1
1 3 | t.58- ; t.57 ; t.55 ; t.5+ ; t.5 | - | hybrid gates_held short all none 1
2 | t.58- ; t.55 ; t.5 | blank/answered | fallback primary_blank short none fallback 0
1 2 3 | t.5- ; t.49 ; t.4 ; t.28+ ; t.28 ; t.28= | - | fallback gate_failed short none none 0
1 3 | t.5- ; t.28 | -/answered | fallback gate_failed short none fallback 0
1 2 3 | t.28- ; t.279999 ; t.27 ; t.26 ; t.25+ ;
    t.25 ; t.2 ; t0 | - | fallback below_low short none none 0
1 3 | t.28- ; t.25 | -/answered | fallback below_low short none fallback 0
1 3 | | - | fallback nothing_found short none none 0
3 | t.6 t.27 ; t.6 t.28- ; t.9 t.25 | answered | rag reached_high short partial primary 1
4 | t.6 t.27 ; t.6 t.28- ; t.9 t.25 | answered | rag reached_high long all primary 2
3 | t.6 t.28 ; t.6 t.29 | answered | rag reached_high short all primary 2
"""

GATES = """
4 | t.52*100 ; t.52*101 ; t.52*8000 ; t.5*100 | answered | hybrid gates_held long all primary 1
4 | t.52*99 ; t.52*1 ; t.5*99 ; t.55-*99 | - | fallback gate_failed long none none 0
4 | t.55*99 ; t.55*1 ; t.9*1 ; t.55*8000 | answered | rag reached_high long all primary 1
4 | t.52*50 t.52*50 ; t.52*99 t.3*1 ;
    t.52*1 t.25*99 | answered | hybrid gates_held long all primary 2
4 | t.52*50 t.52*49 ; t.52*98 t.25*1 ; t.52*1 t.25*98 | - | fallback gate_failed long none none 0
4 | t.52*99 t.25-*500 ; t.52*99 t.1*8000 ; t.52*1 t.2*99 | - | fallback gate_failed long none none 0
4 | t.52*20x5 ; t.51*33x2 t.5*17x2 t.52*1 | answered | hybrid gates_held long all primary 5
4 | t.52*10x7 ; t.52*16x7 ; t.52*1x25 ; t.52*16x6 | - | fallback gate_failed long none none 0
4 | t.52*17x7 ; t.52*100x25 | answered | hybrid gates_held long partial primary 6
4 | t.52*17x6 ; t.52*100x6 | answered | hybrid gates_held long all primary 6
3 | t.52*100 ; t.57*100 ; t.58-*8000 | answered | hybrid gates_held short all primary 1
3 | t.52*99 ; t.57*1 | - | fallback gate_failed short none none 0
3 | t.52*99 t.27*5 ; t.57*50 t.28-*50 | - | fallback gate_failed short none none 0
"""

LIMITS = """
4 | t.6x6 ; t.6*1333x6 ;
    t.9*1 t.8*1 t.7*1 t.6*1 t.5*1 t.25*1 | answered | rag reached_high long all primary 6
4 | t.6x7 ; t.6x8 ; t.6x25 ; t.9*1x7 ;
    t.6*1000x9 t.25*1 | answered | rag reached_high long partial primary 6
4 | t.6*8000 ; t.6*7999 | answered | rag reached_high long all primary 1
4 | t.6*8001 ; t.9*9000 ; t1*100000 ; t.6*8001x9 ;
    t.52*8001 | - | fallback nothing_usable long none none 0
4 | t.6*0 ; t1*0 ; t.52*0 | - | fallback nothing_usable long none none 0
4 | t.6*8001 t.56*8000 ; t.9*9000 t.6 | answered | rag reached_high long partial primary 1
4 | t.9*8001 t.52*300 ; t.9*9999 t.5*100 ;
    t.9*0 t.5*100 | answered | hybrid gates_held long partial primary 1
4 | t.9*8001 t.52*99 ; t.9*8001 t.49 ; t.9*9000 t.25 | - | fallback gate_failed long none none 0
4 | t.9*8001 t.25- ; t.9*9000 t.1 | - | fallback below_low long none none 0
4 | t.6*4000x2 ; t.6*7999 t.59*1 ; t.6*1 t.25*7999 | answered | rag reached_high long all primary 2
4 | t.6*4000x3 ; t.6*4001 t.59*4000 t.58*3999 ;
    t.6*7000 t.5*1001 t.4*1000 | answered | rag reached_high long partial primary 2
4 | t.6*8000 t.59*1 ; t.6*7999 t.59*2 ;
    t.6*5000 t.5*3001 | answered | rag reached_high long partial primary 1
4 | t.6*5000 t.59*5000 t.58*3000 ;
    t.3*3000 t.6*5000 t.4*5000 | answered | rag reached_high long partial primary 2
4 | t.52*8000 t.51*100 ; t.52*100 t.51*7901 | answered | hybrid gates_held long partial primary 1
4 | t.52*99 t.51*7902 | - | fallback gate_failed long none none 0
3 | t.6x7 ; t.58*2000x2 t.58*600x8 | answered | rag reached_high short partial primary 6
"""

FIGURES = """
4 | f.9 ; f.55 ; f1 ; f.52 ; f.9x25 ; f0 ; f.2 ;
    f.9 t.9*8001 | - | fallback nothing_usable long none none 0
4 | f.9 ; f.55x2 | -/answered | fallback nothing_usable long none fallback 0
4 | f.9 t.55 ; t.6 f.1 ; f.9x24 t.56 ; f.6x6 t.55 ;
    f.9*8000 t.9*8000 | answered | rag reached_high long partial primary 1
4 | f.9 t.55- ; f.9 t.5 ; f1x24 t.52 ;
    f.52*1 t.52*100 | answered | hybrid gates_held long partial primary 1
4 | f.9 t.5- ; f.9 t.25 ; f1x24 t.3 ; f.52 t.52*99 ;
    f.9*500 t.52*1 | - | fallback gate_failed long none none 0
4 | f.9 t.25- ; f1 t.1 ; f.9 t0 ; f.55x20 t.2x5 | - | fallback below_low long none none 0
4 | f.9x19 t.6x6 ; f.9x3 t.6x3 f.5x3 t.5x3 | answered | rag reached_high long partial primary 6
4 | f.52*50 t.52*50x2 ; f.51*9000 t.52 t.5 | answered | hybrid gates_held long partial primary 2
3 | f.9 t.57 ; f.58 t.55 | answered | hybrid gates_held short partial primary 1
3 | f.9 t.58 ; f.58 t.6 | answered | rag reached_high short partial primary 1
3 | f.9 t.27 ; f.58 t.28- | - | fallback below_low short none none 0
"""

FIGURES_ALLOWED = """
4 | f.9 ; f.55 ; f1 | answered | rag reached_high long all primary 1
4 | f.52 ; f.5*100 ; f.55- | answered | hybrid gates_held long all primary 1
4 | f.52*99 ; f.49 ; f.25 | - | fallback gate_failed long none none 0
4 | f.9 t.3 ; f.3 t.9 | answered | rag reached_high long all primary 2
4 | f.52*60 t.4*40 | answered | hybrid gates_held long all primary 2
"""

TEXT_EXCLUDED = """
4 | t.9 ; t.6x3 ; t.52 | - | fallback nothing_usable long none none 0
4 | f.9 t.9 ; f.6 t.1 | answered | rag reached_high long partial primary 1
"""

OVERLAPS = """
4 | t.52*60@0 t.51*60@20 ; t.52*60@0 t.51*50@0 ;
    t.52*99@0 t.51*98@1 | - | fallback gate_failed long none none 0
4 | t.52*60@0 t.51*60@40 ; t.52*60@0 t.51*40@60 ;
    t.52*99@1 t.51*99@0 | answered | hybrid gates_held long all primary 2
4 | t.52*100@0 t.51*50@0 ; t.52*100@0 t.51*50@50 ;
    t.52*300@7 t.51*299@8 | answered | hybrid gates_held long partial primary 1
4 | t.6*100@0 t.59*100@50 t.58*100@25 ;
    t.9*10@0 t.8*10@10 t.7*20@0 | answered | rag reached_high long partial primary 2
4 | t.6*50@0 t.59*100@0 ; t.6*100@0 t.59*100@99 | answered | rag reached_high long all primary 2
4 | t.6*5000@0 t.59*5000@2500 | answered | rag reached_high long partial primary 1
"""

READERS = """
4 | t.55 ; t.6 ; t1 | answered reader | rag reached_high long all primary 1
4 | t.55 ; t.6 ; t1 | - reader | rag reached_high long all none 1
4 | t.55 ; t.6 | absent reader | rag reached_high long all none 1
4 | t.5 ; t.55- | answered reader | hybrid gates_held long all primary 1
4 | t.5- ; t.3 ; t.25 ; t.52*99 | - reader | fallback gate_failed long none none 0
4 | t.5- ; t.3 ; t.25 ; t.52*99 | -/answered reader | fallback gate_failed long none none 0
4 | t.25- ; t.1 ; t0 | -/answered reader | fallback below_low long none none 0
4 | f.9 ; t.9*8001 | -/answered reader | fallback nothing_usable long none none 0
4 | | - reader | fallback nothing_found long none none 0
4 | | -/answered reader | fallback nothing_found long none none 0
4 | t.55 ; t.6 ; t.52 | blank reader | fallback primary_blank long none none 0
4 | t.55 ; t.6 ; t.52 | blank/answered reader | fallback primary_blank long none none 0
4 | t.55 ; t.6 ; t.52 | no_context/answered reader | fallback primary_no_context long none none 0
3 | t.57 ; t.55 | answered reader | hybrid gates_held short all primary 1
3 | t.27 ; t.28- | -/answered reader | fallback below_low short none none 0
"""

MODELS = """
4 | t.6 | answered/answered | rag reached_high long all primary 1
4 | t.52 | answered/answered | hybrid gates_held long all primary 1
4 | t.6 | answered/absent | rag reached_high long all primary 1
4 | t.52 | answered/absent | hybrid gates_held long all primary 1
4 | t.6 | -/answered | rag reached_high long all none 1
4 | t.52 | -/answered | hybrid gates_held long all none 1
4 | t.6 | absent/answered | rag reached_high long all none 1
4 | t.52 | absent/answered | hybrid gates_held long all none 1
4 | t.6 | absent/absent | rag reached_high long all none 1
4 | t.52 | absent/absent | hybrid gates_held long all none 1
4 | t.6 ; t.52 t.3 | blank/answered | fallback primary_blank long none fallback 0
4 | t.6 ; t.52 t.3 | blank/absent | fallback primary_blank long none none 0
4 | t.6 ; t.52 t.3 | blank/blank | fallback primary_blank long none none 0
4 | t.6 ; t.52 t.3 | no_context/answered | fallback primary_no_context long none fallback 0
4 | t.6 ; t.52 t.3 | no_context/no_context | fallback primary_no_context long none none 0
4 | t.4 ; t.3 | answered/- | fallback gate_failed long none none 0
4 | t.4 ; t.3 | answered/answered | fallback gate_failed long none fallback 0
4 | t.4 ; t.3 | blank/answered | fallback gate_failed long none fallback 0
4 | t.2 ; t.1 | answered/- | fallback below_low long none none 0
4 | t.2 ; t.1 | no_context/answered | fallback below_low long none fallback 0
4 | f.9 | answered/answered | fallback nothing_usable long none fallback 0
4 | | blank/blank | fallback nothing_found long none none 0
"""

WIDER_SHORT = """
5 | t.7 ; t.71 | answered | rag reached_high short all primary 1
5 | t.7- ; t.6 ; t.5 | answered | hybrid gates_held short all primary 1
5 | t.4 ; t.49 | - | fallback gate_failed short none none 0
5 | t.4- ; t.3 | - | fallback below_low short none none 0
6 | t.55 ; t.6 | answered | rag reached_high long all primary 1
6 | t.4- ; t.3 | - | fallback gate_failed long none none 0
"""

HALF_LOOSER_SHORT = """
2 | t.3 ; t.4 | - | fallback gate_failed short none none 0
2 | t.3- ; t.28 ; t.1 | - | fallback below_low short none none 0
2 | t.58 ; t.6 | answered | rag reached_high short all primary 1
2 | t.58- ; t.55 | answered | hybrid gates_held short all primary 1
4 | t.55 ; t.58- | answered | rag reached_high long all primary 1
4 | t.3- ; t.28 | - | fallback below_low long none none 0
"""

OTHER_HALF_LOOSER_SHORT = """
2 | t.6 ; t.7 | answered | rag reached_high short all primary 1
2 | t.6- ; t.59 ; t.58 ; t.5 | answered | hybrid gates_held short all primary 1
2 | t.28 ; t.4 | - | fallback gate_failed short none none 0
2 | t.28- ; t.26 | - | fallback below_low short none none 0
4 | t.6- ; t.58 | answered | hybrid gates_held long all primary 1
4 | t.28- ; t.26 | - | fallback gate_failed long none none 0
"""

NO_SHORT = """
1 2 3 | t.55 ; t.57 | answered | rag reached_high long all primary 1
1 2 3 | t.25 ; t.27 | - | fallback gate_failed long none none 0
1 | t.25- | - | fallback below_low long none none 0
"""

NO_BETWEEN = """
4 | t.5 ; t.9 ; t.5*1 | answered | rag reached_high long all primary 1
4 | t.5- ; t.3 | - | fallback below_low long none none 0
"""

STRICT_GATES = """
4 | t.52*150x3 ; t.54*200 t.3*100 t.25*100 | answered | hybrid gates_held long all primary 3
4 | t.52*150x2 ; t.52*8000 t.51*100 ; t.52*150x2 t.2 ;
    t.52*150x2 f.52 | - | fallback gate_failed long none none 0
4 | t.52*133x3 ; t.52*398 t.5*1 t.25*0 | - | fallback gate_failed long none none 0
4 | t.52-*150x3 ; t.51*150x3 | - | fallback gate_failed long none none 0
4 | t.52*100x3 t.3*100 ; t.53*100x4 | answered | hybrid gates_held long all primary 4
4 | t.55*1 ; t.6*8 | answered | rag reached_high long all primary 1
"""

OPEN_GATES = """
4 | t.25 ; t.25*1 ; t.4*5 ; t.55-*1 | answered | hybrid gates_held long all primary 1
4 | t.25- | - | fallback below_low long none none 0
"""

SMALL_LIMITS = """
4 | t.6*300 ; t.55*1 | answered | rag reached_high long all primary 1
4 | t.6*301 | - | fallback nothing_usable long none none 0
4 | t.6*100x3 ; t.6*100x2 t.25*1 | answered | rag reached_high long partial primary 2
4 | t.6*200x2 ; t.6*300 t.5*300 | answered | rag reached_high long partial primary 1
4 | t.52*150x2 ; t.52*1 t.25*299 | answered | hybrid gates_held long all primary 2
"""

RAW_DOT = """
4 | t.4 ; t.4+ ; t.4= ; t.7 ; t1 | answered | rag reached_high long all primary 1
4 | t.4- ; t.3 ; t.1 ; t0 ; t0+ | answered | hybrid gates_held long all primary 1
4 | t-0.01 ; t-0.1 ; t-0.2+ ; t-0.2 | - | fallback gate_failed long none none 0
4 | t-0.2- ; t-0.3 ; t-1 | - | fallback below_low long none none 0
3 | t.5 ; t.5+ ; t.9 | answered | rag reached_high short all primary 1
3 | t.5- ; t.45 ; t.4 ; t0 | answered | hybrid gates_held short all primary 1
3 | t-0.02 ; t-0.1 ; t-0.1+ | - | fallback gate_failed short none none 0
3 | t-0.1- ; t-0.2 | - | fallback below_low short none none 0
4 | f.9 t.1 ; f.9 t0 t-0.21 | answered | hybrid gates_held long partial primary 1
4 | f.9 | -/answered | fallback nothing_usable long none fallback 0
4 | t.7 | blank | fallback primary_blank long none none 0
4 | t.7 | -/answered reader | rag reached_high long all none 1
"""

RAW_COSINE = """
4 | t.6 ; t.6= ; t.6+ ; t1 | answered | rag reached_high long all primary 1
4 | t.6- ; t.55 ; t.5 | answered | hybrid gates_held long all primary 1
4 | t.5- ; t0 ; t-0.1 ; t-0.1+ | - | fallback gate_failed long none none 0
4 | t-0.1- ; t-0.5 | - | fallback below_low long none none 0
3 | t.65 ; t.7 | answered | rag reached_high short all primary 1
3 | t.65- ; t.6 | answered | hybrid gates_held short all primary 1
3 | t.2 ; t.49 | - | fallback gate_failed short none none 0
3 | t.2- ; t0 | - | fallback below_low short none none 0
"""

DOT_NORMALISED = """
4 | t.1 ; t.1= ; t.2 ; t1 | answered | rag reached_high long all primary 1
4 | t.0999 ; t.05 ; t0 | answered | hybrid gates_held long all primary 1
4 | t-0.01 ; t-0.4 ; t-0.5 | - | fallback gate_failed long none none 0
4 | t-0.51 ; t-1 | - | fallback below_low long none none 0
3 | t.16 ; t.16= ; t.5 | answered | rag reached_high short all primary 1
3 | t.1599 ; t.1 ; t0 | answered | hybrid gates_held short all primary 1
3 | t-0.44 ; t-0.44= ; t-0.1 | - | fallback gate_failed short none none 0
3 | t-0.4401 ; t-0.5 | - | fallback below_low short none none 0
"""

_FAMILIES: list[tuple[str, dict[str, Any], str]] = [
    ("long queries", {}, LONG_QUERIES),
    ("short queries", {}, SHORT_QUERIES),
    ("gates", {}, GATES),
    ("limits", {}, LIMITS),
    ("figures", {}, FIGURES),
    ("figures allowed", {"exclude_chunk_types_from_llm": ()}, FIGURES_ALLOWED),
    ("text excluded", {"exclude_chunk_types_from_llm": ("text",)}, TEXT_EXCLUDED),
    ("overlaps", {}, OVERLAPS),
    ("readers", {}, READERS),
    ("models", {}, MODELS),
    (
        "wider short queries",
        {
            "short_query_max_tokens": 5,
            "short_query_threshold_low": 0.4,
            "short_query_threshold_high": 0.7,
        },
        WIDER_SHORT,
    ),
    ("half looser short queries", {"threshold_low": 0.3}, HALF_LOOSER_SHORT),
    ("other half looser short queries", {"threshold_high": 0.6}, OTHER_HALF_LOOSER_SHORT),
    ("no short queries", {"short_query_max_tokens": 0}, NO_SHORT),
    ("nothing between", {"threshold_low": 0.5, "threshold_high": 0.5}, NO_BETWEEN),
    (
        "strict gates",
        {
            "min_similarity_for_hybrid": 0.52,
            "min_chunks_for_hybrid": 3,
            "min_total_context_chars": 400,
        },
        STRICT_GATES,
    ),
    (
        "open gates",
        {
            "min_similarity_for_hybrid": 0.0,
            "min_chunks_for_hybrid": 0,
            "min_total_context_chars": 0,
        },
        OPEN_GATES,
    ),
    ("small limits", {"max_chunks": 2, "max_context_chars": 300}, SMALL_LIMITS),
    (
        "raw dot products",
        {
            "score_mode": "raw", "distance": "dot", "raw_dot_low": -0.2, "raw_dot_high": 0.4,
            "short_query_threshold_low": 0.45, "short_query_threshold_high": 0.75,
        },
        RAW_DOT,
    ),
    (
        "raw cosines",
        {
            "score_mode": "raw", "raw_cosine_low": -0.1, "raw_cosine_high": 0.6,
            "short_query_threshold_low": 0.2, "short_query_threshold_high": 0.65,
        },
        RAW_COSINE,
    ),
    ("dot products as similarities", {"distance": "dot"}, DOT_NORMALISED),
]  # fmt: skip

ROWS = [row for name, settings, text in _FAMILIES for row in _rows(name, settings, text)]
