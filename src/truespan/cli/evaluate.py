"""Commands for golden queries: how well a world answers, and which numbers suit its model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truespan.cli.app import (
    AsJson,
    LibraryPath,
    MaybeWorld,
    WorldName,
    app,
    echo,
    named_world,
    open_at,
    require_target,
)
from truespan.errors import InvalidSettings
from truespan.serialize import EXIT_PARTIAL, EXIT_UNHEALTHY, to_json

if TYPE_CHECKING:
    from truespan.evaluation.compare import Comparison, Verdict
    from truespan.evaluation.evaluate import Evaluation

golden_app = typer.Typer(help="Golden queries: questions whose right answers are known.")
app.add_typer(golden_app, name="golden")

GoldenFile = Annotated[str, typer.Argument(help="A .yaml or .jsonl file.", metavar="GOLDEN")]
GenerationNumber = Annotated[
    int | None, typer.Option("--generation", "-g", help="Ask this generation, not the default.")
]


@app.command()
def evaluate(
    golden: GoldenFile,
    world: MaybeWorld = None,
    library: LibraryPath = None,
    generation: GenerationNumber = None,
    domain: Annotated[
        str | None, typer.Option(help="Ask the generation that this domain names.")
    ] = None,
    against: Annotated[
        int | None, typer.Option(help="Compare with this generation, taken as the old one.")
    ] = None,
    allowed_drop: Annotated[
        float, typer.Option(help="How far a mean may fall below the old one.")
    ] = 0.01,
    fused: Annotated[
        bool, typer.Option("--fused", help="Let the words of a query count as well.")
    ] = False,
    per_query: Annotated[bool, typer.Option("--per-query", help="Show every query.")] = False,
    trec_run: Annotated[
        Path | None, typer.Option(help="Write the rankings to this file, for trec_eval.")
    ] = None,
    trec_qrels: Annotated[
        Path | None, typer.Option(help="Write what is relevant to this file, for trec_eval.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write one page with plots here.")] = None,
    as_json: AsJson = False,
) -> int:
    """Ask golden queries of a world and judge what is found: hit rate, MRR, recall, nDCG."""
    from truespan.evaluation.compare import compare, gate

    require_target(world, domain)
    if generation is not None and domain is not None:
        raise InvalidSettings("Name a generation or a domain, not both.")
    with open_at(library) as opened:
        chosen = named_world(opened, world, domain)
        found = chosen.evaluate(golden, generation=generation, domain=domain, fused=fused)
        old = None
        if against is not None:
            old = chosen.evaluate(golden, generation=against, fused=fused)
    comparison = compare(old, found) if old else None
    verdict = gate(comparison, allowed_drop) if comparison else None
    _write_trec(found, trec_run, trec_qrels)
    if html is not None:
        _write_page(html, found, comparison, verdict)
    _show(found, comparison, verdict, as_json=as_json, per_query=per_query)
    if verdict is not None and not verdict.passed:
        return EXIT_UNHEALTHY
    return EXIT_PARTIAL if found.totals.failed else 0


@app.command()
def calibrate(
    golden: GoldenFile,
    world: WorldName,
    library: LibraryPath = None,
    generation: GenerationNumber = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Let the proposal count for this world.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Propose a floor and thresholds for a world's embedding model, and show the curve."""
    from truespan.evaluation.tables import calibration_table

    with open_at(library) as opened:
        report = opened.world(world).evaluation.calibrate(golden, generation=generation, keep=keep)
    echo(to_json(report) if as_json else calibration_table(report).rstrip("\n"))


@golden_app.callback(invoke_without_command=True)
def _bare(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise InvalidSettings(
            "Say what about golden queries: add or check.", advice="See 'truespan golden --help'."
        )


@golden_app.command("add")
def add(
    file: GoldenFile,
    query: Annotated[str, typer.Argument(help="The question.")],
    world: WorldName,
    library: LibraryPath = None,
    document: Annotated[
        list[str] | None,
        typer.Option("--document", "-d", help="A document that ought to be found; repeatable."),
    ] = None,
    phrase: Annotated[
        list[str] | None,
        typer.Option("--phrase", "-p", help="Words that a passage ought to hold; repeatable."),
    ] = None,
    chunk: Annotated[
        list[str] | None,
        typer.Option(help="A chunk of a good answer: its document is expected; repeatable."),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Among so many results.")] = 10,
    name: Annotated[str | None, typer.Option("--id", help="Id; made up if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a good answer as a golden query, at the end of a file that is made if need be."""
    with open_at(library) as opened:
        added = opened.world(world).evaluation.add_query(
            file,
            query,
            documents=document or (),
            phrases=phrase or (),
            chunks=chunk or (),
            top_k=top_k,
            id=name,
        )
    echo(to_json({"file": file, "added": added}) if as_json else f"Added {added.id} to {file}.")


@golden_app.command("check")
def check(
    file: GoldenFile, world: WorldName, library: LibraryPath = None, as_json: AsJson = False
) -> int:
    """Read a file of golden queries and say which documents it names are not in the world."""
    with open_at(library) as opened:
        chosen = opened.world(world)
        queries, absent = chosen.evaluation.queries(file), chosen.evaluation.missing_documents(file)
    result: dict[str, Any] = {"file": file, "queries": len(queries), "absent": absent}
    echo(to_json(result) if as_json else _checked(len(queries), absent))
    return EXIT_PARTIAL if absent else 0


def _checked(queries: int, absent: dict[str, tuple[str, ...]]) -> str:
    lines = [f"{id}: not in this world: {', '.join(names)}" for id, names in absent.items()]
    good = "" if lines else " Every document they name is in this world."
    return "\n".join([*lines, f"{queries} golden {'query' if queries == 1 else 'queries'}.{good}"])


def _show(
    found: Evaluation,
    comparison: Comparison | None,
    verdict: Verdict | None,
    *,
    as_json: bool,
    per_query: bool,
) -> None:
    from truespan.evaluation.tables import comparison_table, evaluation_table, summary_table

    if as_json:
        result = {"evaluation": found, "comparison": comparison, "verdict": verdict}
        echo(to_json(result if comparison else {"evaluation": found}))
        return
    echo((evaluation_table(found) if per_query else summary_table(found)).rstrip("\n"))
    if comparison is not None:
        echo("\n" + comparison_table(comparison, verdict).rstrip("\n"))


def _write_trec(found: Evaluation, run: Path | None, qrels: Path | None) -> None:
    from truespan.evaluation import evaluate as trec

    if run is not None:
        _write(run, trec.trec_run(found))
    if qrels is not None:
        _write(qrels, trec.trec_qrels(found))


def _write_page(
    path: Path, found: Evaluation, comparison: Comparison | None, verdict: Verdict | None
) -> None:
    from truespan.evaluation.calibrate import calibrate as curve_of_hits
    from truespan.evaluation.evaluate import scored_hits
    from truespan.evaluation.report import report_page

    curve = curve_of_hits(scored_hits(found))
    page = report_page(found, comparison=comparison, verdict=verdict, calibration=curve)
    _write(path, page)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it cannot be written"
        raise InvalidSettings(f"{path}: {reason}.", advice="Check the folder.") from None
