"""Numbers beyond the range of floats and columns are refused as arguments."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.worlds import LibraryFixture
from truespan.errors import TruespanError
from truespan.types.decision import Candidate
from truespan.types.ids import ChunkId
from truespan.types.job import DoctorJob
from truespan.types.profile import Calibration

NUMBERS = {
    "more than a float": 10**400, "less than a float": -(10**400),
    "more than Python prints": 10 ** (sys.get_int_max_str_digits() + 1), "more than 64 bits": 2**63,
    "infinity": float("inf"), "not a number": float("nan"),
}  # fmt: skip

Call = Callable[[LibraryFixture, str, Any], object]
CALLS: dict[str, Call] = {
    "search top_k": lambda lib, _, n: world(lib).search("lamp", top_k=n),
    "search floor": lambda lib, _, n: world(lib).search("lamp", floor=n),
    "search max_tokens": lambda lib, _, n: world(lib).search("lamp", max_tokens=n),
    "search documents": lambda lib, _, n: world(lib).search("lamp", documents=[n]),
    "retrieve top_k": lambda lib, _, n: world(lib).retrieve("lamp", top_k=n),
    "retrieve max_tokens": lambda lib, _, n: world(lib).retrieve("lamp", max_tokens=n),
    "why_not": lambda lib, _, n: world(lib).why_not("x", "lamp", top_k=n),
    "answer": lambda lib, _, n: world(lib).answer("lamp", max_tokens=n),
    "usage": lambda lib, _, n: world(lib).usage(limit=n),
    "facets": lambda lib, _, n: world(lib).documents.facets(limit=n),
    "conversations limit": lambda lib, _, n: world(lib).conversations(limit=n),
    "conversations offset": lambda lib, _, n: world(lib).conversations(offset=n),
    "generation": lambda lib, _, n: lib.library.world("world", generation=n),
    "generations.get": lambda lib, _, n: world(lib).generations.get(n),
    "generations.reindex": lambda lib, _, n: world(lib).generations.reindex(generation=n),
    "generations.promote": lambda lib, _, n: world(lib).generations.promote(n),
    "generations.remove": lambda lib, _, n: world(lib).generations.remove(n),
    "allowed_drop": lambda lib, golden, n: world(lib).generations.promote(
        1, golden=golden, allowed_drop=n
    ),
    "min_hit_rate": lambda lib, golden, n: world(lib).generations.promote(
        1, golden=golden, min_hit_rate=n
    ),
    "evaluate": lambda lib, golden, n: world(lib).evaluation.run(golden, generation=n),
    "documents.get": lambda lib, _, n: world(lib).documents.get(n),
    "documents.find": lambda lib, _, n: world(lib).documents.find(offset=n),
    "documents.chunks": lambda lib, _, n: world(lib).documents.chunks("a.txt", offset=n),
    "documents.sentences": lambda lib, _, n: world(lib).documents.sentences("a.txt", limit=n),
    "documents.update": lambda lib, _, n: world(lib).documents.update("a.txt", metadata={"n": n}),
    "reader.set sid": lambda lib, _, n: world(lib).reader("ada").set_position("a.txt", sentence=n),
    "reader.set book": lambda lib, _, n: world(lib).reader("ada").set_position(n, sentence=0),
    "reader.at": lambda lib, _, n: (
        world(lib).reader("ada").at_position("a.txt", n).retrieve("lamp")
    ),
    "reader.retrieve": lambda lib, _, n: world(lib).reader("ada").retrieve("lamp", top_k=n),
    "reader.sentences": lambda lib, _, n: world(lib).reader("ada").sentences("a.txt", offset=n),
    "doctor": lambda lib, _, n: lib.library.doctor("world", embed_sample=n),
    "doctor job": lambda lib, _, n: world(lib).jobs.submit(DoctorJob(embed_sample=n)),
    "calibration": lambda *given: Calibration(*[given[-1]] * 7, measured_on="x"),
    "candidate": lambda *given: Candidate(ChunkId("x"), given[-1], 1),
}


def world(lib: LibraryFixture) -> Any:
    return lib.library.world("world")


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS.keys())
def test_huge_number_is_an_error_or_has_no_effect(lib: LibraryFixture, number: float) -> None:
    lib.world(a__txt="The lamp went out. Nobody lit it again. The harbour was quiet.")
    world(lib).reader("ada").set_position("a.txt", sentence=1)
    golden = lib.write("golden.jsonl", '{"query": "lamp", "expected": ["a.txt"]}\n')
    failed: list[str] = []
    for name, call in CALLS.items():
        try:
            call(lib, golden, number)
        except TruespanError as error:
            if error.code == "internal_error":
                failed.append(f"{name}: {error!r}")
        except Exception as error:
            failed.append(f"{name}: {error!r}")

    assert failed == []
