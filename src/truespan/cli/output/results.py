"""Search results, answers, documents and tokens as text for a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from truespan.cli.terminal import echo, printable
from truespan.core.graphemes import shorten
from truespan.settings import SettingValue
from truespan.settings.catalogue import choices, descriptions
from truespan.types.answer import Answer, AnswerEvent, Citation, Finished, Piece, UsageRecord
from truespan.types.bundle import (
    ContextBundle,
    Notice,
    Passage,
    RerankReport,
    SearchResult,
    SourceNote,
)
from truespan.types.chunk import ChunkKind, ChunkRecord, ChunkState
from truespan.types.decision import Decision, DecisionReason, Refusal
from truespan.types.document import AuditEntry, Document, OutlineEntry, WorldStatus
from truespan.types.facet import Facet, Facets, FacetValue
from truespan.types.metadata import ValueKind, parse_value, read_metadata
from truespan.types.reading import ChunkPage, ReadingPosition
from truespan.types.request import Defaults
from truespan.types.scope import Verb, World
from truespan.types.source import display_path
from truespan.types.support import Support, SupportReason
from truespan.types.text import name_best, name_page, name_place, name_sources
from truespan.types.token import TokenRecord, TokenState
from truespan.types.trust import FusedScore, RerankScore
from truespan.wire.serialize import allowed_names, record_data, to_json

if TYPE_CHECKING:
    from truespan.answers.decide import Replay
    from truespan.maintenance.repair import RepairReport

BAR_WIDTH = 12
SCALE_WIDTH = 50
_QUOTE_SHOWN = 80
_CELL_SEPARATOR = " | "
_SAID_BY_DOCTOR = frozenset({"floor_does_not_discriminate"})

REASONS = {
    DecisionReason.NOTHING_FOUND: "nothing reached the low threshold",
    DecisionReason.NOTHING_USABLE: "no result can be given to a model",
    DecisionReason.BELOW_LOW: "the best passage is below the low threshold",
    DecisionReason.GATE_FAILED: "between the thresholds, and a check failed",
    DecisionReason.PRIMARY_BLANK: "the model returned no text",
    DecisionReason.PRIMARY_NO_CONTEXT: "the model found no answer in the passages",
    DecisionReason.REACHED_HIGH: "the best passage reached the high threshold",
    DecisionReason.GATES_HELD: "between the thresholds, and all checks passed",
}
REFUSALS = {
    Refusal.READING: "readers get no answer from the model's own knowledge",
    Refusal.NO_FALLBACK_MODEL: "no fallback model is configured",
    Refusal.FALLBACK_SILENT: "the fallback model had no answer",
}
_UNSUPPORTED = {
    SupportReason.NUMBER_NOT_FOUND: "number not found",
    SupportReason.NAME_NOT_FOUND: "name not found",
    SupportReason.WORDS_NOT_FOUND: "words not found",
    SupportReason.NEGATION_DIFFERS: "negation differs",
    SupportReason.NOT_SIMILAR: "not similar to any sentence",
    SupportReason.CITES_NOTHING: "cites nothing",
}


DEFAULTS_IN_WORDS = {
    Defaults.RECOMMENDED: "words and similarity, any language and version, and the thresholds "
    "measured for the model",
    Defaults.CONTRACT: "similarity alone, language 'en' and version '1.0' in 'retrieve', and the "
    "thresholds 0.25 and 0.55",
}


def print_search(result: SearchResult) -> None:
    """Print passages with score, place and receipt, then how the answer came about."""
    funnel = result.funnel
    lines = [
        f"{pluralize(funnel.in_scope, 'chunk')} in scope, {funnel.fetched} fetched at or "
        f"above {result.floor:g}, {funnel.verified} verified, {funnel.returned} shown "
        f"({result.processing_time_ms} ms).",
        *_explain_rerank(result.rerank),
        *(f"Skipped: {entry.count} x {entry.code}." for entry in result.skipped),
        *_notes(result.warnings),
    ]
    if not result.requested_k:
        lines = ["No results were requested (top_k is 0)."]
    elif not result.results and not result.warnings:
        lines.append(f"No passage reached a similarity of {result.floor:g}.")
    passages = (
        (
            passage.score,
            _explain_rank(passage.fused, passage.rerank),
            name_place((passage.title, passage.chapter, passage.section), passage.location)
            + name_best(passage.chapter, passage.section, passage.location, passage.best_sentence),
            passage.text,
            f"{passage.receipt.text_hash[:12]}  {passage.source_url}, "
            f"{_name_sentences(passage)}, revision {passage.receipt.revision}, "
            f"chunk {passage.chunk_id}{_name_others(passage)}",
        )
        for passage in result.results
    )
    _print_passages(passages, lines)


def print_bundle(bundle: ContextBundle) -> None:
    """Print a bundle's chunks with their places, then how it came about."""
    metadata = bundle.metadata
    funnel = metadata.funnel
    lines = [
        f"{bundle.status.value}: {funnel.in_scope} in scope, {funnel.fetched} fetched, "
        f"{funnel.verified} verified, {funnel.returned} of {metadata.original_top_k} returned, "
        f"{bundle.total_tokens} tokens ({metadata.processing_time_ms} ms).",
        *(
            f"Figure: {note.relevance_score:.3f}  {note.figure_id} in {note.source_url}, "
            f"{note.image_ref or 'no image kept'}"
            for note in metadata.figures
        ),
        *_explain_rerank(metadata.rerank),
        *(f"Left out: {entry.count} x {entry.code}." for entry in metadata.skipped),
        *_notes(metadata.warnings),
        *(
            f"Near miss: {miss.score:.3f}  {miss.path}, {miss.chapter}"
            for miss in metadata.near_misses
        ),
        *(
            f"The selection is in {found.path}, {found.chapter}, {_name_sentences(found)}."
            for found in metadata.located
        ),
    ]
    if bundle.error is not None:
        lines.append(f"Failed: {bundle.error.message}")
    passages = (
        (
            chunk.relevance_score,
            _explain_rank(note.fused, note.rerank),
            name_place((note.title, chunk.chapter, chunk.section), note.location)
            + name_best(chunk.chapter, chunk.section, note.location, note.best_sentence),
            chunk.content,
            f"{note.text_hash[:12]}  {note.source_url}, {_name_sentences(note)}, "
            f"{chunk.token_count} tokens{_name_others(note)}",
        )
        for chunk, note in zip(bundle.retrieved_chunks, metadata.sources, strict=True)
    )
    _print_passages(passages, lines)


def _join_lines(text: str) -> Iterator[str]:
    """Return running text as one line, and each row of a table as a line of its own."""
    for is_row, lines in groupby(text.split("\n"), lambda line: _CELL_SEPARATOR in line):
        words = [" ".join(line.split()) for line in lines]
        yield from words if is_row else filter(None, [" ".join(filter(None, words))])


def _print_passages(
    passages: Iterable[tuple[float, str, str, str, str]],
    lines: Iterable[str],
) -> None:
    """Print passages, each with score, rank, place, text and receipt, and then some lines."""
    rows = [
        (
            (f"{place}. ", _draw_bar(score), f" {score:.3f}  {rank}"),
            printable(name),
            printable(text),
            printable(f"✓ verified {receipt}"),
        )
        for place, (score, rank, name, text, receipt) in enumerate(passages, 1)
    ]
    if not sys.stdout.isatty():
        # For scripts and pipes: one line each, neither wrapped nor padded.
        for head, title, text, receipt in rows:
            one_line = " ".join(text.split())
            echo(f"{''.join(head)}{title}\n   {one_line}\n   {receipt}\n")
        echo("\n".join(lines))
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    for (place, bar, score), title, text, receipt in rows:
        console.print(Text.assemble((place, "bold"), (bar, "green"), score, (title, "bold")))
        console.print(Padding(Text("\n".join(_join_lines(text))), (0, 0, 0, 3)))
        console.print(Padding(Text(receipt, "dim"), (0, 0, 1, 3)))
    for line in lines:
        console.print(Text(printable(line), "dim"))


def _draw_bar(score: float) -> str:
    filled = round(score * BAR_WIDTH)
    return "█" * filled + "░" * (BAR_WIDTH - filled)


def _explain_rank(fused: FusedScore | None, rerank: RerankScore | None) -> str:
    """Return what ranked a passage besides its similarity; empty if nothing did."""
    parts: list[str] = []
    if fused is not None:
        rank = "after the blend" if fused.blend is None else f"blend {fused.blend:.3f}"
        parts.append(f"{rank}, words {fused.bm25:.2f}  ")
    if rerank is not None:
        parts.append(f"rerank {rerank.score:.3f}, was {rerank.before}  ")
    return "".join(parts)


def _explain_rerank(report: RerankReport | None) -> list[str]:
    if report is None or report.failure is not None:
        return []
    return [f"{report.model} reranked {report.candidates} candidates and moved {report.moved}."]


def _notes(notices: Iterable[Notice]) -> list[str]:
    """Return notices as lines, without what 'truespan doctor' says of the model once."""
    return [f"Note: {notice.message}" for notice in notices if notice.code not in _SAID_BY_DOCTOR]


def show_positions(positions: Sequence[ReadingPosition]) -> str:
    """Show how far a reader has come: chapters reached, last sentence, nothing ahead."""
    if not positions:
        return "No reading position is recorded, so nothing is readable."
    lines: list[str] = []
    for place in positions:
        mark = " (current)" if place.current else ""
        if place.sid < 0:
            lines.append(f"{place.title}{mark}: nothing read yet")
            continue
        chapter = f", {place.chapter}" if place.chapter else ""
        lines.append(f"{place.title}{mark}: read to sentence {place.sid}{chapter}")
        lines.append(f"  last read: {' '.join((place.last_sentence or '').split())}")
    return "\n".join(lines)


def show_readers(found: Mapping[str, Sequence[ReadingPosition]]) -> str:
    """Show readers with how far each has come, in a line per book."""
    if not found:
        return "No readers yet. 'truespan reader set BOOK --reader NAME' records a position."
    rows: list[tuple[object, ...]] = [("reader", "book", "read to sentence", "chapter")]
    for name, positions in found.items():
        for place in positions:
            mark = " (current)" if place.current else ""
            sid = place.sid if place.sid >= 0 else "-"
            rows.append((name, f"{place.title}{mark}", sid, place.chapter or ""))
    return "\n".join(table(rows))


def print_answer(events: Iterator[AnswerEvent], *, as_json: bool, stream: bool | None) -> None:
    """Print an answer: as JSON, as one JSON event per line, or for people as it comes."""
    answer: Answer | None = None
    for event in events:
        if as_json and stream:
            named = {"event": type(event).__name__.lower()}
            echo(msgspec.json.encode(named | msgspec.to_builtins(event)).decode())
        elif isinstance(event, Piece) and not as_json and stream is not False:
            echo(event.text, nl=False)
        if isinstance(event, Finished):
            answer = event.answer
    if answer is None or (as_json and stream):
        return
    if as_json:
        echo(to_json(answer))
        return
    echo(answer.answer if stream is False else "")
    echo(show_account(answer))


def show_account(answer: Answer, *, record: bool = True) -> str:
    """Show what an answer cites, what it quotes wrongly, and in one line how it was decided.

    A refusal has the closest passages instead.

    Without `record` the line about the usage log is left out.
    """
    lines: list[str] = []
    if answer.near_misses:
        lines += ["", "Closest:"]
    for note in answer.near_misses:
        place = name_place((note.source, note.chapter, note.section), note.location)
        lines += [f"  {note.similarity:.3f}  {place}", f"         {note.text}"]
    if answer.citations:
        lines += ["", "Sources:", *(f"  {cite(citation)}" for citation in answer.citations)]
    wrong = [quote.text for quote in answer.quotes if not quote.verified]
    if wrong:
        lines += ["", "Quotes not found verbatim in the sources:"]
    for text in wrong:
        lines.append(f"  ✗ {shorten(text, _QUOTE_SHOWN, '…')}")
    lines += show_support(answer.answer, answer.support, has_sources=bool(answer.used_chunks))
    explained = answer.decision_explain
    counts, refusal = explained["counts"], explained["refusal"]
    models = {"primary": "the model", "fallback": "the fallback model", "none": "no model"}
    decision = (
        f"{explained['mode']}: {REASONS[DecisionReason(explained['reason'])]}; "
        f"{counts['used']} of {pluralize(counts['retrieved'], 'passage')} used, "
        f"{models[explained['used_llm']]} was used"
    )
    lines += ["", f"{decision}; {REFUSALS[Refusal(refusal)]}." if refusal else f"{decision}."]
    lines += _notes(answer.warnings)
    if record:
        logged = f"Record {answer.record}." if answer.record else "Not in the usage log."
        lines.append(f"{logged} ({answer.processing_time_ms} ms)")
    return "\n".join(lines)


def show_support(answer: str, support: Support | None, *, has_sources: bool) -> list[str]:
    """Show which sentences the sources do not support, and why, then the figure for the whole."""
    if support is None or support.score is None:
        return []
    # Without sources there is nothing to compare with, and the line of the decision says so.
    doubted = [part for part in support.sentences if has_sources and not part.supported]
    lines = ["", "Sentences not supported by the sources:"] if doubted else [""]
    for sentence in doubted:
        text = " ".join(answer[sentence.start : sentence.end].split())
        reasons = "; ".join(_UNSUPPORTED[reason] for reason in sentence.reasons)
        lines.append(f"  ✗ {shorten(text, _QUOTE_SHOWN, '…')}")
        missing = ", ".join(sentence.missing)
        lines.append(
            f"    {reasons}" + (f": {shorten(missing, _QUOTE_SHOWN, '…')}" if missing else "")
        )
    count = f"{support.supported} of {pluralize(support.claims, 'sentence')}"
    return [*lines, f"support: {support.score:.2f} ({count})"]


def cite(citation: Citation) -> str:
    if citation.document is None:
        return f"[{citation.number}] ✗ no such source"
    # Turns of earlier versions have the page alone.
    location = name_page(citation.location, citation.page)
    place = name_place((citation.title, citation.chapter, citation.section), location)
    place += name_best(citation.chapter, citation.section, location, citation.best_sentence)
    source = f"{citation.source_url}, {_name_sentences(citation)}{_name_others(citation)}"
    return f"[{citation.number}] {place} ({source})"


def _name_others(part: Passage | SourceNote | Citation) -> str:
    """Return the documents that have the same text, to be put after the source of a passage."""
    return (
        f"; also in {name_sources(at.source_url for at in part.other_places)}"
        if part.other_places
        else ""
    )


def _name_span(chunk: Any) -> str:
    """Return the characters, the sentences and the location of a chunk."""
    location = f", {chunk.location}" if chunk.location else ""
    return f"characters {chunk.start}-{chunk.end}, {_name_sentences(chunk)}{location}"


def _name_sentences(part: Any) -> str:
    """Return the numbers of the sentences of a passage in words."""
    if part.first_sid == part.last_sid:
        return f"sentence {part.first_sid}"
    return f"sentences {part.first_sid}-{part.last_sid}"


def show_usage(records: Sequence[UsageRecord]) -> str:
    if not records:
        return "The usage log is empty."
    head = ("record", "when (UTC)", "mode", "reason", "best", "used", "ms", "models")
    rows: list[tuple[object, ...]] = [head]
    for record in records:
        explained = record.decision_explain
        try:
            best, counts = explained["max_similarity"], explained["counts"]
            decision = (
                record.mode.value,
                str(explained["reason"]),
                "-" if best is None else f"{best:.3f}",
                f"{counts['used']}/{counts['retrieved']}",
            )
        except (KeyError, TypeError, ValueError):
            decision = "-", "✗ damaged record", "-", "-"
        when = datetime.fromtimestamp(record.created_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        models = [name for name in (record.primary_model, record.fallback_model) if name]
        rows.append((record.id, when, *decision, record.milliseconds, ", ".join(models) or "-"))
    return "\n".join(table(rows))


def show_explanation(replay: Replay) -> str:
    """Show a decision in words: thresholds on a scale, gates, counts, reasons."""
    decision, evidence = replay.decision, replay.decision.evidence
    counts, settings = decision.counts, evidence.settings
    lines = [f"{decision.mode.value}: {REASONS[decision.reason]} ({decision.reason.value})."]
    if decision.refusal:
        lines.append(f"Refused: {REFUSALS[decision.refusal]}.")
    lines += ["", *_draw_scale(decision)]
    lines.append(f"  scores: {settings.score_mode.value}, {settings.distance.value}")
    if decision.thresholds.short_query_active:
        lines.append("  tightened because the query is short")
    if decision.gates:
        lines.append("Gates:")
    else:
        lines.append("Gates: not evaluated, because the best score is not between the thresholds.")
    for gate in decision.gates:
        shown, mark = gate.to_json(), "✓" if gate.held else "✗"
        lines.append(
            f"  {mark} {shown['name']}: {shown['found']:g} found, {shown['needed']:g} needed"
        )
    lines.append(
        f"Passages: {counts['retrieved']} retrieved, {counts['chosen']} chosen, "
        f"{counts['used']} used ({counts['context_characters']} characters chosen); "
        f"sources used: {decision.sources_used.value}."
    )
    if decision.left_out:
        left_out = ", ".join(f"{count} x {code}" for code, count in decision.left_out.items())
        lines.append(f"Left out: {left_out}.")
    verdicts = {
        None: "This is the decision that the evidence leads to.",
        True: "Made again from its record, the decision is the same.",
        False: "✗ Made again from its record, the decision is ANOTHER than the one recorded.",
    }
    return "\n".join(
        [
            *lines,
            f"Models: primary {evidence.primary.value}, fallback {evidence.fallback.value}; "
            f"used: {decision.used_llm.value}.",
            f"Asked: {evidence.retrieval_target}{', as a reader' if evidence.reading else ''}; "
            f"query {evidence.effective_query or '-'}.",
            "",
            verdicts[replay.same],
        ]
    )


def _draw_scale(decision: Decision) -> list[str]:
    """Draw the thresholds and the best score on one line, with what they are below it."""
    explained = decision.to_json()
    least = -1.0 if explained["score_mode"] == "raw" else 0.0
    marks = {"low": explained["thresholds"]["low"], "high": explained["thresholds"]["high"]}
    if decision.max_score is not None:
        marks["best"] = explained["max_score"]
    line = ["─"] * (SCALE_WIDTH + 1)
    for name, value in marks.items():
        place = round((min(max(value, least), 1.0) - least) / (1.0 - least) * SCALE_WIDTH)
        line[place] = "●" if name == "best" else "┼"
    named = ", ".join(f"{name} {value:.3f}" for name, value in marks.items())
    best = "● best" if "best" in marks else "nothing was found"
    return [f"  {least:g} {''.join(line)} 1", f"    ┼ thresholds, {best}: {named}"]


def show_chunk(record: ChunkRecord) -> str:
    """Show a chunk row and whether its bytes still match their hash."""
    document, chunk = record.document, record.chunk
    head = [
        f"document {document.number} ({display_path(document.path)}), revision {document.revision}",
        f"state {record.state}, {'active' if record.live else 'not active'}",
    ]
    if chunk is None:
        return "\n".join([*head, "The chunk row is missing; 'truespan repair' rebuilds it."])
    intact = record.is_intact()
    verdict = "✓ bytes match their hash" if intact else "✗ bytes do not match their hash"
    return "\n".join(
        [
            *head,
            f"{_name_span(chunk)}, {chunk.tokens} tokens",
            f"{verdict} {chunk.text_hash}",
            "",
            chunk.data.decode(errors="replace") if intact else "(not shown)",
        ]
    )


_CHUNK_REASONS = {
    "damaged_text": "its text does not match its hash",
    "too_long": "longer than the model reads",
    "index_lost": "the index was empty",
    "vector_lost": "its vector was lost",
    "stale": "changed since it was embedded",
    "missing": "missing in the index",
}


def show_chunks(page: ChunkPage) -> str:
    """Show where each chunk of a document begins and ends, its state, and the start of its text."""
    lines = [
        f"{page.title}  (document {page.document}, {page.doc_id})",
        f"{pluralize(page.total, 'chunk')} by {page.chunking!r}, revision {page.revision}, "
        f"generation {page.generation}",
        f"text {page.text_hash}",
    ]
    past = 0
    for chunk in page.chunks:
        shared = max(past - chunk.start, chunk.start - chunk.context_start, 0)
        past = max(past, chunk.end)
        marks = [str(chunk.chunk_type)] if chunk.chunk_type is not ChunkKind.TEXT else []
        marks += [f"overlap {shared}"] if shared and chunk.chunk_type is ChunkKind.TEXT else []
        if chunk.state is not ChunkState.EMBEDDED:
            reason = chunk.reason and _CHUNK_REASONS.get(chunk.reason, chunk.reason)
            marks.append(f"{chunk.state}{f': {reason}' if reason else ''}")
        marks += [] if chunk.intact else ["✗ bytes do not match their hash"]
        lines += [
            "",
            f"{chunk.index}  {chunk.chunk_id}",
            f"   {_name_span(chunk)}, " + ", ".join([pluralize(chunk.tokens, "token"), *marks]),
            f"   {shorten(' '.join(chunk.text.split()), _QUOTE_SHOWN) if chunk.text else '-'}",
        ]
    return "\n".join(lines)


def show_labels(document: Document) -> str:
    """Return the labels of a document that can be changed without its file."""
    lines = [
        f"{document.title}  (document {document.number}, {document.doc_id})",
        f"version {document.version}, language {document.language}",
    ]
    return "\n".join([*lines, *_label_lines(document)])


def _label_lines(document: Document) -> list[str]:
    lines = [f"source: {document.source_url or display_path(document.path)}"]
    if document.tags:
        lines.append(f"tags: {', '.join(document.tags)}")
    if document.damaged:
        lines.append("labels or metadata do not match their checksum; run 'truespan doctor'")
    members = read_metadata(document.metadata)
    return lines + [
        f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in members.items()
    ]


def _short_metadata(document: Document) -> str:
    members = read_metadata(document.metadata)
    return ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in members.items()
    )


def show_document(
    document: Document,
    outline: Sequence[OutlineEntry],
    metadata: Mapping[str, Any],
    audit: Sequence[AuditEntry],
) -> str:
    origin = f", from {document.source_url}" if document.source_url else ""
    lines = [
        f"{document.title}  (document {document.number}, {document.doc_id})",
        f"{document.shown_path}{origin}",
        f"{document.kind}, version {document.version}, language {document.language}, "
        f"revision {document.active or document.staged}",
        f"{document.characters} characters, {document.sentences} sentences, "
        f"{pluralize(document.chunks, 'chunk')} by '{document.chunking}', "
        f"{document.embedded} embedded",
        *_label_lines(document),
    ]
    lines += [
        f"{label}: {', '.join(metadata[label])}"
        for label in ("authors", "keywords")
        if metadata.get(label)
    ]
    lines += [
        f"sanitiser: {entry.count} x {entry.label} ({entry.rule}), "
        f"{'replaced' if entry.redacted else 'counted only'}"
        for entry in audit
    ]
    for entry in outline:
        label = " › ".join(part for part in (entry.chapter, entry.section) if part)
        # Only the lists of what lies ahead begin at a place without labels.
        label = label or "(contents and similar lists)"
        lines.append(f"  from sentence {entry.first_sid:>5}  {label}")
    return "\n".join(lines)


def show_facets(found: Facets) -> str:
    """Return a table of the values of each label and key, with how often they occur."""
    documents, chunks = pluralize(found.documents, "document"), pluralize(found.chunks, "chunk")
    lines = [f"{documents}, {chunks} that can be searched"]
    for facet in found.facets:
        spread = "" if facet.least is None else f", from {facet.least} to {facet.greatest}"
        name = f"metadata {facet.key}" if facet.metadata else facet.key
        lines += ["", f"{name}: {pluralize(facet.documents, 'document')}{spread}"]
        rows = [
            (f"  {value.documents}", _show_value(value, facet), pluralize(value.chunks, "chunk"))
            for value in facet.values
        ]
        lines += table(rows) if rows else []
        if facet.more_values:
            lines.append(f"  and {pluralize(facet.more_values, 'further value')}; see --limit")
    if found.more_keys:
        lines += ["", f"and {pluralize(found.more_keys, 'further key')}; name those to count"]
    lines += [f"Note: {notice.message}" for notice in found.warnings]
    return "\n".join(lines)


def _show_value(value: FacetValue, facet: Facet) -> str:
    # A text that a command line would read as something else is quoted, as there.
    if value.kind is not ValueKind.TEXT:
        return json.dumps(value.value) if value.kind is ValueKind.BOOLEAN else str(value.value)
    text = str(value.value)
    shown = shorten(text, 60)
    plain = not facet.metadata or (bool(text.strip()) and parse_value(text) == text)
    return shown if plain and text.isprintable() else json.dumps(shown, ensure_ascii=False)


def show_defaults(name: str, defaults: Defaults) -> str:
    """Return the defaults of a world, and what they mean."""
    return f"{name}: {defaults}, that is {DEFAULTS_IN_WORDS[defaults]}."


def show_world(
    world: World, numbers: WorldStatus, documents: Sequence[Document], reranker: str | None
) -> str:
    # Columns for labels only where documents have them.
    labels: dict[str, Callable[[Document], str]] = {
        "tags": lambda entry: shorten(", ".join(entry.tags), 40),
        "metadata": lambda entry: shorten(_short_metadata(entry), 60),
        "source": lambda entry: entry.source_url or "",
    }
    shown = {name: make for name, make in labels.items() if any(map(make, documents))}
    rows: list[tuple[object, ...]] = [
        ("no", "title", "kind", "rev", "chunks", "embedded", *shown, "file")
    ]
    for entry in documents:
        counts = (entry.active or "-", entry.chunks, entry.embedded)
        own = [make(entry) for make in shown.values()]
        title, kind = shorten(entry.title, 40), entry.kind.value
        rows.append((entry.number, title, kind, *counts, *own, entry.shown_path))
    used = "in every request" if world.defaults is Defaults.RECOMMENDED else "on request"
    lines = [] if reranker is None else [f"reranked {used} by {reranker}"]
    return "\n".join([_summary(world, numbers), *lines, "", *table(rows)])


def show_worlds(listed: Sequence[tuple[World, WorldStatus]]) -> str:
    if not listed:
        return "No worlds yet. Create one with 'truespan init --world NAME'."
    return "\n".join(_summary(world, numbers) for world, numbers in listed)


def _summary(world: World, numbers: WorldStatus) -> str:
    documents = pluralize(numbers.documents, "document")
    chunks = f"{numbers.embedded} of {pluralize(numbers.chunks, 'chunk')}"
    line = f"{world.name}: {documents}, {chunks} embedded"
    line += f", {numbers.pending} pending" if numbers.pending else ""
    line += f", {numbers.quarantined} quarantined" if numbers.quarantined else ""
    line += f", {numbers.missing} missing in the index" if numbers.missing else ""
    line += ", the index could not be counted" if numbers.missing is None else ""
    line += f", {numbers.repairs} repairs queued" if numbers.repairs else ""
    return f"{line}; {world.defaults} defaults"


def show_repairs(reports: Mapping[str, RepairReport]) -> str:
    return "\n".join(
        f"{name}: {report.deleted_points} stale points deleted, {report.restored_texts} texts "
        f"restored, {len(report.quarantined)} quarantined, {report.reembedded} points written"
        for name, report in reports.items()
    )


def token_data(record: TokenRecord, state: TokenState) -> dict[str, Any]:
    names = {name: allowed_names(getattr(record, name)) for name in ("worlds", "verbs", "readers")}
    return record_data(record) | names | {"state": state}


def describe_token(record: TokenRecord, worlds: Iterable[World]) -> str:
    """Return what a token allows, in words."""
    ids, readers = allowed_names(record.worlds), allowed_names(record.readers)
    if record.verbs == {Verb.OBSERVE}:
        return f"observe, the metrics only; {_describe_expiry(record)}"
    where = "every world"
    if not isinstance(ids, str):
        names: dict[str, str] = {world.id: world.name for world in worlds}
        where = ", ".join(sorted(names.get(id, id) for id in ids)) or "no world"
    whom = "" if isinstance(readers, str) else f" as {', '.join(readers) or 'no reader'}"
    verbs = ", ".join(sorted(record.verbs))
    return f"{verbs}{whom} in {where}; {_describe_expiry(record)}"


def _describe_expiry(record: TokenRecord) -> str:
    if record.expires_at is None:
        return "does not expire"
    return f"expires {datetime.fromtimestamp(record.expires_at, UTC):%Y-%m-%d %H:%M} UTC"


def show_settings(
    file: str, settings: Sequence[SettingValue], keys: Sequence[Mapping[str, str]]
) -> str:
    """Show settings as a table, then the provider keys by name and what does not count."""
    rows: list[tuple[object, ...]] = [("setting", "value", "from")]
    rows += [
        (entry.name, _plain_setting(entry.value), entry.place or "default") for entry in settings
    ]
    lines = [f"File: {file}", "", *table(rows), ""]
    lines += [f"key for {key['provider']}: {key['name']}" for key in keys]
    lines += [
        f"{entry.name}: {place} is given too; {entry.place} wins"
        for entry in settings
        for place in entry.overridden
    ]
    return "\n".join(lines).rstrip()


def show_setting(entry: SettingValue) -> str:
    """Show one setting with its meaning, its choices and its variable."""
    lines = [
        f"{entry.name} = {_plain_setting(entry.value)}  ({entry.place or 'default'})",
        descriptions()[entry.name],
        f"Default: {_plain_setting(entry.default)}. Variable: TRUESPAN_{entry.name.upper()}.",
    ]
    if allowed := [choice for choice in choices(entry.name) if choice]:
        lines.append(f"One of: {', '.join(allowed)}.")
    lines += [f"{place} is given too; {entry.place} wins." for place in entry.overridden]
    return "\n".join(lines)


def _plain_setting(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "(not set)" if value is None else str(value) or '""'


def pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(rows: Sequence[Sequence[object]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]
