"""Evaluations as run and qrels files, which trec_eval and its relatives read."""

from __future__ import annotations

import re

from truespan.upkeep.evaluate import Evaluation, QueryResult

_MICRO = 1_000_000


def trec_run(evaluation: Evaluation, tag: str = "truespan") -> str:
    """Return the rankings, one document a line: query, Q0, document, rank, score, tag.

    Readers of such files rank by score and break ties in their own way. So each score is made a
    little less than the one before where it is not already, and our order survives.
    """
    lines = []
    for result in evaluation.results:
        above: int | None = None
        for rank, one in enumerate(result.documents, start=1):
            micro = round(one.score * _MICRO)
            above = micro if above is None else min(micro, above - 1)
            score = f"{above / _MICRO:.6f}"
            lines.append(_line(result.id, "Q0", one.document, str(rank), score, tag))
    return "".join(lines)


def trec_qrels(evaluation: Evaluation) -> str:
    """Return which documents are relevant: query, 0, document, grade."""
    return "".join(map(_judgements, evaluation.results))


def _judgements(result: QueryResult) -> str:
    return "".join(_line(result.id, "0", one.document, str(one.grade)) for one in result.expected)


def _line(*columns: str) -> str:
    return " ".join(map(trec_word, columns)) + "\n"


def trec_word(text: str) -> str:
    """Return a text as one word: white space, control and percent signs as their bytes in hex."""
    return re.sub(
        r"[\s\x00-\x1f\x7f-\x9f%]",
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()),
        text,
    )
