"""What can be asked of a world whose right answers are known: the part of `World` for that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from truespan.engine.evaluation import Golden, WorldEvaluation
from truespan.engine.held import HeldWorld
from truespan.errors import InvalidSettings
from truespan.evaluation.calibrate import CalibrationReport
from truespan.evaluation.compare import SEED, Comparison, compare
from truespan.evaluation.evaluate import Evaluation
from truespan.evaluation.golden import GOLDEN_TOP_K, Expected, GoldenQuery
from truespan.types.ids import WorldId
from truespan.types.profile import Calibration
from truespan.types.scope import GenerationSelector


class JudgedWorld(HeldWorld):
    """Golden queries, as the holder of a world may use them."""

    def evaluate(
        self,
        golden: Golden,
        *,
        generation: int | None = None,
        domain: str | None = None,
        name: str | None = None,
        fused: bool = False,
    ) -> Evaluation:
        """Ask golden queries of the default generation, or of another, and judge what is found.

        `golden` is a file's path, its bytes, or the queries themselves. A query that fails counts
        as failed and the others are still asked. No floor applies. With `fused`, the words of a
        query count for the order as well.

        Raises:
            GoldenInvalid: with every line that cannot be used; then nothing was asked.
            GenerationNotFound, DomainNotFound: the world has none such.
            NotAllowed: the caller may not read without a bound.
        """
        judge = self._judge(_aim(generation, domain, self.aim))
        return judge.evaluate(golden, name, fused=fused)

    def compare(
        self,
        golden: Golden,
        *,
        old: GenerationSelector = None,
        new: GenerationSelector = None,
        seed: int = SEED,
    ) -> Comparison:
        """Ask the same golden queries of two generations, by number or domain, and compare.

        What is left out is the world's default, or what this world aims at.
        """
        queries = self._judge(self.aim).queries(golden)
        first, second = (
            self._judge(self.aim if aim is None else aim).evaluate(queries) for aim in (old, new)
        )
        return compare(first, second, seed=seed)

    def calibrate(
        self, golden: Golden, *, generation: int | None = None, keep: bool = False
    ) -> CalibrationReport:
        """Propose a floor and thresholds for a generation's embedding profile.

        With `keep`, what is proposed counts from now on for whoever may read the whole world.
        Readers always get what is shipped.
        """
        return self._judge(_aim(generation, None, self.aim)).calibrate(golden, keep=keep)

    def calibration(self) -> Calibration | None:
        """Return the calibration that counts here: kept, or shipped with the profile, or none."""
        return self._judge(self.aim).calibration()

    def forget_calibration(self) -> bool:
        """Go back to what is shipped; say whether anything was kept."""
        return self._judge(self.aim).forget_calibration()

    def golden_add(
        self,
        path: str | PurePath,
        query: str,
        *,
        documents: Sequence[str | int] = (),
        phrases: Sequence[str] = (),
        chunks: Sequence[str] = (),
        top_k: int = GOLDEN_TOP_K,
        id: str | None = None,
    ) -> GoldenQuery:
        """Keep a good answer as a golden query, at the end of a YAML or JSON Lines file.

        `documents` are numbers, doc ids or names; `chunks` are ids of chunks that a good answer
        used, whose documents are then expected.

        Raises:
            DocumentNotFound, ChunkNotFound: the world has none such.
            GoldenInvalid: the query, or the file as it stands, cannot be used.
            InvalidSettings: the file asks the same already, or nothing is expected.
        """
        for name, given in (("documents", documents), ("phrases", phrases), ("chunks", chunks)):
            if isinstance(given, str):
                raise InvalidSettings(f"{name} must be a list.")
        wanted = GoldenQuery(
            id=id or "",
            query=query,
            expected=tuple(Expected(str(document)) for document in documents),
            phrases=tuple(phrases),
            top_k=top_k,
        )
        return self._judge(self.aim).add(path, wanted, chunks)

    def golden_queries(self, golden: Golden) -> tuple[GoldenQuery, ...]:
        """Return golden queries, read and checked."""
        return tuple(self._judge(self.aim).queries(golden))

    def golden_absent(self, golden: Golden) -> dict[str, tuple[str, ...]]:
        """Return, by query id, the expected documents that are not in this world."""
        return self._judge(self.aim).absent(golden)

    def _judge(self, aim: GenerationSelector) -> WorldEvaluation:
        return WorldEvaluation(
            self._parts, self._authority, self._repairs.submit, WorldId(self.id), aim
        )


def _aim(
    generation: int | None, domain: str | None, otherwise: GenerationSelector
) -> GenerationSelector:
    if generation is not None and domain is not None:
        raise InvalidSettings("Give a generation or a domain, one of the two.")
    chosen = domain if generation is None else generation
    return otherwise if chosen is None else chosen
