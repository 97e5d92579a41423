"""The proposal of a minimum evidence from golden queries."""

from collections.abc import Sequence

from truespan.extensions.quality.calibrate import (
    MIN_QUERIES,
    EvidenceReport,
    WeighedQuery,
    propose_evidence,
)


def propose(present: Sequence[float | None], absent: Sequence[float | None]) -> EvidenceReport:
    """Propose a threshold beside 0.46, for queries with this evidence."""
    kinds = ((True, present), (False, absent))
    return propose_evidence(
        [WeighedQuery(kind, score) for kind, scores in kinds for score in scores], 0.46
    )


def test_propose_evidence_names_a_clearly_better_threshold() -> None:
    found = propose([0.43] * 20 + [0.5] * 10, [0.3] * 25)

    assert (found.in_force, found.best, found.proposed) == (0.46, 0.42, 0.42)
    assert (found.present, found.absent) == (30, 25)
    assert found.p is not None
    assert found.p < 0.001
    assert found.message == (
        "0.42 instead of 0.46: 0.0% refused and 0.0% of the absent answered instead of 66.7% "
        "refused and 0.0% of the absent answered, p < 0.001."
    )
    errors = {point.threshold: (point.refused, point.answered) for point in found.points}
    assert errors[0.46] == (20 / 30, 0.0)
    assert errors[0.44] == (20 / 30, 0.0)


def test_propose_evidence_weighs_both_kinds_and_needs_a_clear_difference() -> None:
    assert propose([0.6] * 25, [0.49] * 20 + [None] * 5).proposed == 0.5
    assert propose([0.6] * 25, [0.3] * 25).message.startswith("Keep 0.46: no other threshold is")
    # 0.42 answers 8 of 200 more, which is fewer than 4 of the 20 absent ones that it answers too.
    found = propose([0.43] * 8 + [0.6] * 192, [0.43] * 4 + [0.3] * 16)
    assert (found.best, found.proposed) == (0.46, None)
    found = propose([0.45] * 2 + [0.6] * 28, [0.3] * 30)
    assert (found.best, found.proposed) == (0.44, None)
    assert found.message.startswith("Keep 0.46: no clear difference. The best is 0.44: 0.0% ")


def test_propose_evidence_needs_queries_of_both_kinds() -> None:
    enough = [0.43] * MIN_QUERIES
    few = [0.3] * (MIN_QUERIES - 1)
    for present, absent in ((enough, few), (few, enough)):
        found = propose(present, absent)
        assert (found.best, found.proposed, found.points) == (None, None, ())
        assert "too few, at least 20 of each" in found.message
    assert propose(enough, [0.3] * MIN_QUERIES).proposed == 0.42
