"""Golden queries asked of one world: how well it answers, and which numbers suit its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import PurePath
from typing import TypeAlias

from truespan.engine.parts import Components
from truespan.errors import ChunkNotFound, InvalidSettings, NotAllowed, TruespanError
from truespan.evaluation.calibrate import (
    CalibrationReport,
    Unrelated,
    curves_of,
    propose,
    unrelated,
)
from truespan.evaluation.evaluate import Evaluation, Found, evaluate
from truespan.evaluation.golden import (
    DocumentNames,
    Expected,
    GoldenQuery,
    checked_golden,
    parse_golden,
    with_golden,
)
from truespan.evaluation.metrics import NDCG_CUT
from truespan.retrieval.pipeline import APPROXIMATE, Pipeline
from truespan.retrieval.query_vector import calibration_of, round_score, similarity_of
from truespan.retrieval.search import search_documents
from truespan.retrieval.snapshot import require_world
from truespan.types.bundle import Notice
from truespan.types.chunk import Vector
from truespan.types.document import Document
from truespan.types.ids import ChunkId, WorldId
from truespan.types.profile import Calibration
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb
from truespan.types.trust import Verified

Golden: TypeAlias = str | PurePath | bytes | Sequence[GoldenQuery]
"""Golden queries: a file's path, its bytes, or the queries themselves."""

PAUSES = (0.5, 2.0)
"""Seconds to wait before a query that failed for a passing reason is asked again."""
SAMPLED_PASSAGES = 200
SAMPLED_QUERIES = 100
"""So many passages are held against so many queries to see how unrelated pairs score."""


class WorldEvaluation:
    """Golden queries for one generation of a world, as its holder may ask them."""

    def __init__(
        self,
        parts: Components,
        authority: Authority,
        on_flaws: Callable[[Scope], None],
        world: WorldId,
        aim: GenerationSelector = None,
    ) -> None:
        self._parts = parts
        self._authority = authority
        self._world = world
        self._aim: GenerationSelector = aim
        deps = parts.retrieval_deps(on_flaws)
        self._pipeline = Pipeline(deps, authority, world, aim)

    def evaluate(
        self, golden: Golden, name: str | None = None, *, fused: bool = False
    ) -> Evaluation:
        """Ask every golden query and judge what comes back; with `fused`, words count as well."""
        queries = self.queries(golden)
        scope = self._scope()
        found = evaluate(
            name or self._label(scope, fused),
            queries,
            partial(self._found, fused=fused),
            identify=self._names(scope).key_of,
            clock=self._parts.clock.monotonic,
        )
        inexact = self._parts.index.approximate(scope)
        return replace(found, warnings=(APPROXIMATE,) if inexact else ())

    def calibrate(self, golden: Golden, *, keep: bool = False) -> CalibrationReport:
        """Propose a floor and thresholds for the profile of the generation that is asked.

        With `keep`, what is proposed is kept for the world's holder.
        """
        scope, evaluation = self._scope(), self.evaluate(golden)
        if keep and not self._authority.may(Verb.WRITE, scope.world):
            raise NotAllowed("keep a calibration")
        passages, by_query = curves_of(evaluation)
        distribution = self._unrelated(scope, self.queries(golden))
        proposed, notes = None, (_NOTHING_UNRELATED,)
        if distribution is not None:
            told = f"{evaluation.totals.judged} golden queries of the world itself"
            proposed, notes = propose(passages, by_query, distribution, told)
        report = CalibrationReport(
            profile=str(scope.profile),
            passages=passages,
            queries=by_query,
            unrelated=distribution,
            proposed=proposed,
            in_force=calibration_of(self._parts.store, scope),
            notes=(*notes, *evaluation.warnings),
        )
        if not keep or proposed is None:
            return report
        self._parts.store.keep_calibration(scope, proposed)
        return replace(report, kept=True)

    def calibration(self) -> Calibration | None:
        """Return what counts for this caller: kept by the world's holder, or shipped."""
        record = require_world(self._parts.store, self._authority, self._world, self._aim)
        if record.generation is None:
            return None
        scope = Scope(self._authority, record.id, record.generation)
        return calibration_of(self._parts.store, scope)

    def forget_calibration(self) -> bool:
        """Go back to what is shipped; say whether anything was kept."""
        scope = self._scope()
        if not self._authority.may(Verb.WRITE, scope.world):
            raise NotAllowed("forget a calibration")
        return self._parts.store.forget_calibration(scope)

    def add(
        self,
        path: str | PurePath,
        query: GoldenQuery,
        chunks: Sequence[str] = (),
    ) -> GoldenQuery:
        """Add a query to a file, which is made if it is not there.

        The documents it expects, and those of the chunks that were used for a good answer, must be
        in the world; they are written down by name where that says which.

        Raises:
            DocumentNotFound, ChunkNotFound: the world has none such.
            GoldenInvalid: the query, or the file as it stands, cannot be used.
            InvalidSettings: the file asks the same already.
        """
        scope, name = self._scope(), PurePath(path).name
        names = self._names(scope)
        given = [(one.document, one.grade) for one in query.expected]
        given += [(number, 1) for number in self._documents_of(scope, chunks)]
        grades = {names.written(reference): grade for reference, grade in reversed(given)}
        expected = tuple(Expected(one, grade) for one, grade in reversed(grades.items()))
        if not expected and not query.phrases:
            raise InvalidSettings("Say which documents or phrases a good answer has.")
        wanted = checked_golden(name, replace(query, expected=expected))
        self._parts.golden.change(str(path), lambda content: with_golden(name, content, wanted))
        return wanted

    def absent(self, golden: Golden) -> dict[str, tuple[str, ...]]:
        """Return, by query id, the expected documents that name none or several of the world."""
        names = self._names(self._scope())
        missing = {
            query.id: tuple(
                one.document for one in query.expected if names.key_of(one.document) is None
            )
            for query in self.queries(golden)
        }
        return {id: documents for id, documents in missing.items() if documents}

    def queries(self, golden: Golden) -> Sequence[GoldenQuery]:
        """Return golden queries, read if they are not yet."""
        if isinstance(golden, str | PurePath):
            return parse_golden(PurePath(golden).name, self._parts.golden.read(str(golden)))
        if isinstance(golden, bytes):
            # An object begins with a brace and an entry of a list with a dash.
            jsonl = golden.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
            return parse_golden("golden.jsonl" if jsonl else "golden.yaml", golden)
        return golden

    def _scope(self) -> Scope:
        record = require_world(self._parts.store, self._authority, self._world, self._aim)
        if not self._authority.may(Verb.READ, record.id):
            raise NotAllowed("evaluate without a reader")
        if record.generation is None:
            raise InvalidSettings("The world holds nothing to ask.", advice="Ingest into it first.")
        return Scope(self._authority, record.id, record.generation)

    def _label(self, scope: Scope, fused: bool) -> str:
        record = require_world(self._parts.store, self._authority, self._world, self._aim)
        how = ", fused" if fused else ""
        return f"{record.name}, generation {scope.generation.number}{how}"

    def _found(self, query: GoldenQuery, *, fused: bool) -> list[Found]:
        search = partial(
            search_documents,
            self._pipeline,
            query.query,
            query.filters,
            passages=query.top_k,
            documents=max(query.top_k, NDCG_CUT),
            fused=fused,
        )
        return [
            Found(chunk.document.doc_id, chunk.document.name, round_score(chunk.score), chunk.text)
            for chunk in self._retry(search)
        ]

    def _retry(self, search: Callable[[], list[Verified]]) -> list[Verified]:
        """Search, and try again what may pass: one hiccup should not spoil a long evaluation."""
        for pause in PAUSES:
            try:
                return search()
            except TruespanError as error:
                if not error.retryable:
                    raise
                self._parts.clock.sleep(pause)
        return search()

    def _names(self, scope: Scope) -> DocumentNames:
        return DocumentNames(self._in_force(scope).values())

    def _in_force(self, scope: Scope) -> Mapping[int, Document]:
        found = self._parts.store.documents(scope)
        return {one.number: one for one in found if one.active is not None}

    def _documents_of(self, scope: Scope, chunks: Sequence[str]) -> list[str]:
        ids = [ChunkId(chunk) for chunk in chunks]
        records = self._parts.store.read_chunks(scope, ids) if ids else {}
        for chunk in ids:
            if chunk not in records or not records[chunk].live:
                raise ChunkNotFound(chunk)
        return list(dict.fromkeys(str(records[chunk].document.number) for chunk in ids))

    def _unrelated(self, scope: Scope, golden: Sequence[GoldenQuery]) -> Unrelated | None:
        """Return how passages of documents that no query expects score, from kept vectors."""
        names, documents = self._names(scope), self._in_force(scope)
        sampled = self._sampled(scope)
        scores = []
        for query in _spread(golden, SAMPLED_QUERIES):
            expected = {names.key_of(one.document) for one in query.expected if one.grade}
            others = [
                vector for number, vector in sampled if documents[number].doc_id not in expected
            ]
            [vector] = self._pipeline.vectors(scope, query.query.strip())
            distance = scope.profile.distance
            # Where only phrases are expected, most passages are still about something else.
            scores.extend(similarity_of(vector, other, distance) for other in others)
        return unrelated(scores) if scores else None

    def _sampled(self, scope: Scope) -> list[tuple[int, Vector]]:
        """Return passages spread evenly over the generation, always the same ones."""
        total = self._parts.store.status(scope).embedded
        step = max(1, total // SAMPLED_PASSAGES)
        live = self._in_force(scope)
        embedded = (
            (chunk.document, chunk.vector)
            for page in self._parts.store.expected(scope)
            for chunk in page
            if chunk.vector is not None
            and chunk.document in live
            and chunk.revision == live[chunk.document].active
        )
        return list(islice(embedded, 0, None, step))


def _spread(golden: Sequence[GoldenQuery], most: int) -> Sequence[GoldenQuery]:
    return golden[:: max(1, -(-len(golden) // most))]


_NOTHING_UNRELATED = Notice(
    "nothing_unrelated",
    "Every document is expected by every query, so that nothing tells how unrelated text scores.",
)
