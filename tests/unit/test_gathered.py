"""The number of examined chunks does not depend on the number of fetched ones."""

from truespan.retrieval.stages import Fetched
from truespan.types.ids import ChunkId, TextHash
from truespan.types.trust import FailureKind, VerificationFailure


def flaw(score: float) -> VerificationFailure:
    return VerificationFailure(FailureKind.STALE, ChunkId(str(score)), TextHash("0"), None, score)


def test_examined_chunks_are_counted_up_to_the_last_result() -> None:
    found = Fetched([], [flaw(0.9), flaw(0.5000004), flaw(0.5), flaw(0.4)])
    assert [one.score for one in found.down_to(0.5).failures] == [0.9, 0.5000004, 0.5]
    assert found.down_to(None) == found
