"""Edge, the Qdrant server and brute force return the same hits in the same order."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tools.compare_indexes import Agreement, agree, difference

from tests.promises import proves
from truespan.types.ids import ChunkId, TextHash
from truespan.types.trust import Hit

pytestmark = pytest.mark.filterwarnings("ignore:.*[Ll]ocal:UserWarning")


@proves("search.floor-inclusive", "search.one-world")
def test_every_index_agrees_with_brute_force(tmp_path: Path):
    assert agree(tmp_path, queries=300) == []


def test_agreement_detects_an_index_with_a_wrong_floor(tmp_path: Path):
    indexes = Agreement(tmp_path)
    honest = indexes.local.search_with

    def strict(scope, vector, *, limit, floor, ids):
        hits, named = honest(scope, vector, limit=limit, floor=floor, ids=ids)
        return [hit for hit in hits if floor is None or hit.score > floor], named

    indexes.local.search_with = strict  # type: ignore[method-assign]
    findings = indexes.findings(1, 100)
    indexes.close()

    assert findings
    assert all("local mode" in one for one in findings)


def test_agreement_compares_scores_order_and_points():
    one, two, three = (Hit(ChunkId(name), score, TextHash("")) for name, score in _SCORED)
    true = {hit.chunk_id: hit.score for hit in (one, two, three)}

    assert difference([one, two], true, 2) == difference([one, three], true, 2) == ""
    assert difference([two, one], true, 2)
    assert difference([two, three], true, 2)
    assert difference([one, two, two], true, 3)
    assert difference([one, replace(two, chunk_id=ChunkId("z")), three], true, 3)


_SCORED = (("a", 0.75), ("b", 0.5), ("c", 0.5))
