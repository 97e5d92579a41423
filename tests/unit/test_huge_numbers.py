"""Numbers beyond the range of floats and columns are refused as arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.worlds import Place, place
from truespan.errors import TruespanError
from truespan.types.decision import Candidate
from truespan.types.ids import ChunkId
from truespan.types.profile import Calibration

NUMBERS = {
    "more than a float": 10**400,
    "less than a float": -(10**400),
    "more than Python prints": 10 ** (sys.get_int_max_str_digits() + 1),
    "more than 64 bits": 2**63,
    "infinity": float("inf"),
    "not a number": float("nan"),
}

Call = Callable[[Place, str, Any], object]
CALLS: dict[str, Call] = {
    "search top_k": lambda here, _, n: world(here).search("lamp", top_k=n),
    "search floor": lambda here, _, n: world(here).search("lamp", floor=n),
    "search max_tokens": lambda here, _, n: world(here).search("lamp", max_tokens=n),
    "search documents": lambda here, _, n: world(here).search("lamp", documents=[n]),
    "retrieve top_k": lambda here, _, n: world(here).retrieve("lamp", top_k=n),
    "retrieve max_tokens": lambda here, _, n: world(here).retrieve("lamp", max_tokens=n),
    "why_not": lambda here, _, n: world(here).why_not("x", "lamp", top_k=n),
    "answer": lambda here, _, n: world(here).answer("lamp", max_tokens=n),
    "usage": lambda here, _, n: world(here).usage(limit=n),
    "facets": lambda here, _, n: world(here).facets(limit=n),
    "conversations limit": lambda here, _, n: world(here).conversations(limit=n),
    "conversations offset": lambda here, _, n: world(here).conversations(offset=n),
    "generation": lambda here, _, n: here.library.world("world", generation=n),
    "generations.get": lambda here, _, n: world(here).generations.get(n),
    "generations.reindex": lambda here, _, n: world(here).generations.reindex(generation=n),
    "generations.promote": lambda here, _, n: world(here).generations.promote(n),
    "generations.remove": lambda here, _, n: world(here).generations.remove(n),
    "allowed_drop": lambda here, golden, n: world(here).generations.promote(
        1, golden=golden, allowed_drop=n
    ),
    "least_hit_rate": lambda here, golden, n: world(here).generations.promote(
        1, golden=golden, least_hit_rate=n
    ),
    "evaluate": lambda here, golden, n: world(here).evaluate(golden, generation=n),
    "compare": lambda here, golden, n: world(here).evaluation.compare(golden, new=n),
    "add_query top_k": lambda here, golden, n: world(here).evaluation.add_query(
        golden, "lamp", documents=["a.txt"], top_k=n
    ),
    "add_query documents": lambda here, golden, n: world(here).evaluation.add_query(
        golden, "lamp", documents=[n]
    ),
    "documents.get": lambda here, _, n: world(here).documents.get(n),
    "documents.find": lambda here, _, n: world(here).documents.find(first=n),
    "documents.chunks": lambda here, _, n: world(here).documents.chunks("a.txt", first=n),
    "documents.sentences": lambda here, _, n: world(here).documents.sentences("a.txt", count=n),
    "documents.update": lambda here, _, n: world(here).documents.update("a.txt", metadata={"n": n}),
    "reader.set sid": lambda here, _, n: world(here).reader("ada").set("a.txt", sid=n),
    "reader.set book": lambda here, _, n: world(here).reader("ada").set(n, sid=0),
    "reader.at": lambda here, _, n: world(here).reader("ada").at("a.txt", n).retrieve("lamp"),
    "reader.retrieve": lambda here, _, n: world(here).reader("ada").retrieve("lamp", top_k=n),
    "reader.sentences": lambda here, _, n: world(here).reader("ada").sentences("a.txt", first=n),
    "doctor": lambda here, _, n: here.library.doctor("world", embed_sample=n),
    "submit_doctor": lambda here, _, n: world(here).submit_doctor(embed_sample=n),
    "calibration": lambda *given: Calibration(*[given[-1]] * 7, measured_on="x"),
    "candidate": lambda *given: Candidate(ChunkId("x"), given[-1], 1),
}


def world(here: Place) -> Any:
    return here.library.world("world")


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS.keys())
def test_huge_number_is_an_error_or_has_no_effect(tmp_path: Path, number: float) -> None:
    here = place(tmp_path)
    here.world(a__txt="The lamp went out. Nobody lit it again. The harbour was quiet.")
    world(here).reader("ada").set("a.txt", sid=1)
    golden = here.write("golden.jsonl", '{"query": "lamp", "expected": ["a.txt"]}\n')
    failed: list[str] = []
    for name, call in CALLS.items():
        try:
            call(here, golden, number)
        except TruespanError as error:
            if error.code == "internal_error":
                failed.append(f"{name}: {error!r}")
        except Exception as error:
            failed.append(f"{name}: {error!r}")

    assert failed == []
