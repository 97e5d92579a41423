"""Search results, bundles, answers and conversations as text for a terminal."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from truespan.cli.terminal import (
    WrappedText,
    echo,
    echo_wrapped,
    name_others,
    name_sentences,
    pluralize,
    printable,
    show_notices,
    table,
)
from truespan.core.graphemes import shorten
from truespan.text.tables import BAR
from truespan.types.answer import (
    Answer,
    AnswerEvent,
    Citation,
    Finished,
    Piece,
    Quote,
    QuoteVerdict,
    Support,
    SupportReason,
)
from truespan.types.bundle import ContextBundle, Passage, RerankReport, SearchResult, WhyNot
from truespan.types.conversation import ConversationInfo, Turn
from truespan.types.decision import AnswerMode, DecisionReason, Refusal, RewrittenBy
from truespan.types.text import name_best, name_place
from truespan.types.trust import FusedScore, RerankScore
from truespan.wire.serialize import to_json

if TYPE_CHECKING:
    from truespan.maintenance.delete import Receipt

Words = Sequence[tuple[int, int]]
"""The spans of words in a text, in order."""
BAR_WIDTH = 12
_QUOTE_SHOWN = 80
MODES = {
    AnswerMode.RAG: "Answered from the documents",
    AnswerMode.HYBRID: "Answered from documents between the thresholds",
    AnswerMode.FALLBACK: "Not answered from the documents",
}
REASONS = {
    DecisionReason.NOTHING_FOUND: "no passage is close enough to the question",
    DecisionReason.NOTHING_USABLE: "no result can be given to a model",
    DecisionReason.BELOW_LOW: "the best passage is below the low threshold",
    DecisionReason.GATE_FAILED: "between the thresholds, and a check failed",
    DecisionReason.TOO_LITTLE_EVIDENCE: "no passage has enough evidence of an answer",
    DecisionReason.PRIMARY_BLANK: "the model returned no text",
    DecisionReason.PRIMARY_NO_CONTEXT: "the model found no answer in the passages",
    DecisionReason.REACHED_HIGH: "the best passage reached the high threshold",
    DecisionReason.GATES_HELD: "between the thresholds, and all checks passed",
    DecisionReason.ENOUGH_EVIDENCE: "a passage has enough evidence of an answer",
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
_INDENTED = re.compile(r"^(?:\t| {2})", re.MULTILINE)
"""The beginning of an indented line, as code and nested lists have it."""
_TITLE_SHOWN = 60
_BEGINNING_SHOWN = 160
_SHORT_TABLE = 6
"""Maximum number of lines of a passage with a table that is printed whole."""


def print_search(result: SearchResult, query: str, *, full: bool) -> None:
    """Print passages with score, place and receipt, then the funnel of the search.

    Of a passage, the sentence with most words of the query is printed, with one before and one
    after it; with `full`, the whole passage.
    """
    funnel = result.funnel
    lines = [
        f"{pluralize(funnel.in_scope, 'chunk')} in scope, {funnel.fetched} fetched at or "
        f"above {result.floor:g}, {funnel.verified} verified, {funnel.returned} shown "
        f"({result.processing_time_ms} ms).",
        *_explain_rerank(result.rerank),
        *(f"Skipped: {entry.count} x {entry.code}." for entry in result.skipped),
        *show_notices(result.warnings),
    ]
    if not result.requested_k:
        lines = ["No results were requested (top_k is 0)."]
    elif not result.passages and not result.warnings:
        lines.append(f"No passage reached a similarity of {result.floor:g}.")
    passages = (
        (
            passage.score,
            _explain_rank(passage.fused, passage.rerank),
            name_place((passage.title, passage.chapter, passage.section), passage.location)
            + name_best(passage.chapter, passage.section, passage.location, passage.best_sentence),
            _show_match(passage, query, full=full),
            f"{passage.receipt.text_hash[:12]}  {passage.source_url}, "
            f"{name_sentences(passage)}, revision {passage.receipt.revision}, "
            f"chunk {passage.chunk_id}{name_others(passage)}",
        )
        for passage in result.passages
    )
    _print_passages(passages, lines)


def print_bundle(bundle: ContextBundle) -> None:
    """Print a bundle's chunks with their places, then the funnel of the retrieval."""
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
        *show_notices(metadata.warnings),
        *(
            f"Near miss: {miss.score:.3f}  {miss.path}, {miss.chapter}"
            for miss in metadata.near_misses
        ),
        *(
            f"The selection is in {found.path}, {found.chapter}, {name_sentences(found)}."
            for found in metadata.located
        ),
    ]
    if bundle.notes is not UNSET:
        lines += (f"Note at sentence {note.sid}: {note.text}" for note in bundle.notes)
    if bundle.error is not None:
        lines.append(f"Failed: {bundle.error.message}")
    passages = (
        (
            chunk.relevance_score,
            _explain_rank(note.fused, note.rerank),
            name_place((note.title, chunk.chapter, chunk.section), note.location)
            + name_best(chunk.chapter, chunk.section, note.location, note.best_sentence),
            (chunk.content, ()),
            f"{note.text_hash[:12]}  {note.source_url}, {name_sentences(note)}, "
            f"{chunk.token_count} tokens{name_others(note)}",
        )
        for chunk, note in zip(bundle.retrieved_chunks, metadata.sources, strict=True)
    )
    _print_passages(passages, lines)


def _show_match(passage: Passage, query: str, *, full: bool) -> tuple[str, Words]:
    """Return the printed text of a passage, and the spans of the words that the search marked.

    Unless `full`, that is the sentence or row with most of the words, one before and one after, and
    the header of a table. Code is printed whole.
    """
    from truespan.text.sentences import sentence_spans
    from truespan.words.searched import SearchedWords

    text, match = passage.text, passage.match
    words = match.words if match else ()
    is_table = BAR.search(text) is not None
    if full or (_INDENTED.search(text) and not is_table):
        return text, words
    language = passage.text_language or passage.language or "en"
    spans = [*sentence_spans(text, language)]
    if is_table:
        spans = [found.span() for found in re.finditer(r".+", text)]
    if match and match.start is not None:
        best = max(sum(start <= match.start for start, _ in spans) - 1, 0)
    else:
        best = SearchedWords(query).find_best(text, language, spans) or 0
    shown = spans[max(best - 1, 0) : best + 2]
    if len(shown) == len(spans) or (is_table and len(spans) <= _SHORT_TABLE):
        return text, words
    start, end = shown[0][0], shown[-1][1]
    before = "" if shown[0] == spans[0] else "… "
    after = "" if shown[-1] == spans[-1] else " …"
    header = _header_of(text, start) if is_table else ""
    before = f"{header}\n{before}" if header else before
    moved = len(before) - start
    inside = tuple((a + moved, b + moved) for a, b in words if start <= a and b <= end)
    return before + text[start:end] + after, inside


def _header_of(text: str, start: int) -> str:
    """Return the first row of the table that is shown from `start` on; blank if shown itself."""
    first = text.rfind("\n\n", 0, start) + 2 if "\n\n" in text[:start] else 0
    header = text[first:start].split("\n")[0]
    return header if BAR.search(header) else ""


def _print_passages(
    passages: Iterable[tuple[float, str, str, tuple[str, Words], str]], lines: Iterable[str]
) -> None:
    """Print passages, each with score, rank, place, text and receipt, and then some lines.

    A text comes with the spans of its words that match the query.
    """
    rows = [
        (
            (f"{place}. ", _draw_bar(score), f" {score:.3f}  {rank}"),
            printable(name),
            [*_join_lines(*text)],
            printable(f"✓ verified {receipt}"),
        )
        for place, (score, rank, name, text, receipt) in enumerate(passages, 1)
    ]
    if not sys.stdout.isatty():
        # For scripts and pipes: neither wrapped nor padded.
        for head, title, texts, receipt in rows:
            shown = "".join(f"   {printable(text)}\n" for text, _ in texts)
            echo(f"{''.join(head)}{title}\n{shown}   {receipt}\n")
        echo("\n".join(lines))
        return
    for (place, bar, score), title, texts, receipt in rows:
        echo_wrapped((place, "bold"), (bar, "green"), (score, ""), (title, "bold"))
        for text, words in texts:
            parts = [(part, "bold" if is_word else "") for part, is_word in _split(text, words)]
            echo_wrapped(*parts, indent=3)
        echo_wrapped((receipt, "dim"), indent=3)
        echo()
    for line in lines:
        echo_wrapped((line, "dim"))


def _join_lines(text: str, words: Words) -> Iterator[tuple[str, Words]]:
    """Yield each paragraph, line of code and row of a table as one line.

    Each line comes with the spans of its own words.
    """
    is_code = _INDENTED.search(text) is not None

    def kind(line: str) -> str:
        if not line.strip():
            return "blank"
        return "alone" if is_code or BAR.search(line) else "running"

    start = 0
    for found, group in groupby(text.split("\n"), kind):
        for line in [" ".join(group)] if found == "running" else group:
            end = start + len(line)
            if found != "blank":
                own = tuple((a - start, b - start) for a, b in words if start <= a and b <= end)
                yield line.rstrip(), own
            start = end + 1


def _split(text: str, words: Words) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text in order, and whether each is one of these words."""
    end = 0
    for first, last in words:
        yield text[end:first], False
        yield text[first:last], True
        end = last
    yield text[end:], False


def _draw_bar(score: float) -> str:
    return ("█" * round(score * BAR_WIDTH)).ljust(BAR_WIDTH, "░")


def _explain_rank(fused: FusedScore | None, rerank: RerankScore | None) -> str:
    """Return the scores that ranked a passage besides its similarity; empty without any."""
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


def print_answer(
    events: Iterator[AnswerEvent], *, as_json: bool, stream: bool | None
) -> Answer | None:
    """Print an answer: as JSON, as one JSON event per line, or for people as it comes."""
    answer: Answer | None = None
    text = WrappedText()
    for event in events:
        if as_json and stream:
            named = {"event": type(event).__name__.lower()}
            echo(msgspec.json.encode(named | msgspec.to_builtins(event)).decode())
        elif isinstance(event, Piece) and not as_json and stream is not False:
            text.write(event.text)
        if isinstance(event, Finished):
            answer = event.answer
    if answer is None or (as_json and stream):
        return answer
    if as_json:
        echo(to_json(answer))
        return answer
    if stream is False:
        text.write(answer.answer)
    text.finish()
    print_account(show_account(answer))
    return answer


def print_account(account: str) -> None:
    """Print the account of an answer; at a terminal with wrapped lines and colours."""
    if not sys.stdout.isatty():
        echo(account)
        return
    for line in account.split("\n"):
        shown = line.lstrip(" ")
        is_heading = shown.endswith(":")
        style = "bold" if is_heading else "red" if "✗" in shown else "" if shown != line else "dim"
        echo_wrapped((shown, style), indent=len(line) - len(shown))


def show_account(answer: Answer, *, record: bool = True) -> str:
    """Show citations, wrong quotes and unsupported sentences of an answer, and its decision.

    A refusal has the closest passages instead. `record` adds the line about the usage log.
    """
    lines: list[str] = []
    if answer.near_misses:
        lines += ["", "Closest:"]
    for note in answer.near_misses:
        place = name_place((note.source, note.chapter, note.section), note.location)
        lines += [f"  {note.similarity:.3f}  {place}", f"         {note.text}"]
    explained = answer.decision_explain
    # Without a model, the answer itself names the place of each quote.
    if answer.citations and explained["used_llm"] != "none":
        lines += ["", "Sources:", *(f"  {cite(citation)}" for citation in answer.citations)]
    wrong = [quote for quote in answer.quotes if quote.verdict is not QuoteVerdict.VERBATIM]
    if wrong:
        lines += ["", "Quotes not found verbatim in the cited sources:"]
    for quote in wrong:
        lines += [f"  ✗ {shorten(quote.text, _QUOTE_SHOWN, '…')}", *_explain_quote(quote)]
    lines += show_support(answer.answer, answer.support, has_sources=bool(answer.used_chunks))
    counts, refusal = explained["counts"], explained["refusal"]
    models = {"primary": "the model", "fallback": "the fallback model", "none": "no model"}
    used = f"{counts['used']} of {pluralize(counts['retrieved'], 'passage')} used, "
    if answer.citations and explained["used_llm"] == "none":
        quoted = len({citation.chunk_id for citation in answer.citations})
        used = f"{quoted} of {pluralize(counts['retrieved'], 'passage')} quoted, "
    decision = (
        f"{MODES[AnswerMode(explained['mode'])]}: {REASONS[DecisionReason(explained['reason'])]}; "
        f"{used if counts['retrieved'] else ''}{models[explained['used_llm']]} was used"
    )
    lines += ["", f"{decision}; {REFUSALS[Refusal(refusal)]}." if refusal else f"{decision}."]
    lines += show_notices(answer.warnings)
    if record:
        logged = f"Record {answer.record}." if answer.record else "Not in the usage log."
        lines.append(f"{logged} ({answer.processing_time_ms} ms)")
    return "\n".join(lines)


def _explain_quote(quote: Quote) -> Iterator[str]:
    """Yield the line with the words of the sources instead of a quote."""
    if quote.verdict is QuoteVerdict.CHANGED:
        words = " ".join(part.text for part in quote.difference if part.only_in != "quote")
        sentences = name_sentences(quote)
        yield f"      changed; {sentences} has: {shorten(words, _QUOTE_SHOWN, '…')}"
    elif quote.verdict is QuoteVerdict.STITCHED:
        places = "; ".join(name_sentences(part) for part in quote.parts)
        yield f"      joined from several places: {places}"
    elif quote.verdict is QuoteVerdict.MISATTRIBUTED:
        sentences = name_sentences(quote)
        yield f"      is in another source than the cited one: {sentences}"


def show_support(answer: str, support: Support | None, *, has_sources: bool) -> list[str]:
    """Show the unsupported sentences of an answer with their reasons, then its support score."""
    if support is None or support.score is None:
        return []
    # Without sources there is nothing to compare with, which the line of the decision states.
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
    return [*lines, f"{support.supported} of {pluralize(support.claims, 'sentence')} supported."]


def cite(citation: Citation) -> str:
    if citation.document is None:
        return f"[{citation.number}] ✗ no such source"
    location = citation.location
    place = name_place((citation.title, citation.chapter, citation.section), location)
    place += name_best(citation.chapter, citation.section, location, citation.best_sentence)
    source = f"{citation.source_url}, {name_sentences(citation)}{name_others(citation)}"
    return f"[{citation.number}] {place} ({source})"


def show_answer_in_conversation(answer: Answer) -> str:
    """Show the account of an answer, and the query if it was rewritten."""
    lines = show_account(answer, record=False).split("\n")
    note = answer.conversation
    if note is not None and note.rewritten_by is not RewrittenBy.NONE:
        lines += [f"Searched for: {note.standalone}"]
    return "\n".join(lines)


def show_found(answer: Answer | None) -> str:
    """Show the passages of the last answer, and the number of others that were found."""
    if answer is None:
        return "Nothing was asked yet."
    notes = answer.retrieved_chunks_metadata
    used = [note for note in notes if note.verdict is WhyNot.RETURNED]
    lines: list[str] = []
    for note in used:
        place = name_place((note.source, note.chapter, note.section), note.location)
        lines.append(f"{note.similarity:.3f}  {place}")
        lines.append(f"       {shorten(' '.join(note.text.split()), _BEGINNING_SHOWN, '…')}")
    found = pluralize(len(notes), "passage")
    return "\n".join([*lines, f"{found} found, {len(used)} used for the answer."])


def show_turns(turns: Sequence[Turn]) -> str:
    """Show the questions and answers of a conversation."""
    shown = [_show_turn(number, turn) for number, turn in enumerate(turns, 1)]
    return "\n\n".join(shown) or "No turns yet."


def _show_turn(number: int, turn: Turn) -> str:
    if turn.damaged:
        return f"{number}. ✗ This turn is damaged, so nothing of it is shown."
    lines = [f"{number}. {' '.join(turn.question.split())}", turn.answer]
    if turn.rewritten_by is not RewrittenBy.NONE:
        lines.insert(1, f"(searched for: {' '.join(turn.standalone.split())})")
    if turn.citations:
        lines += ["", "Sources:", *(f"  {cite(citation)}" for citation in turn.citations)]
    has_sources = turn.mode is not AnswerMode.FALLBACK
    lines += show_support(turn.answer, turn.support, has_sources=has_sources)
    return "\n".join(lines)


def show_with_turns(info: ConversationInfo, turns: Sequence[Turn]) -> str:
    """Show a conversation with its turns."""
    reader = f", reader {info.reader}" if info.reader is not None else ""
    head = (
        f"{info.title}\n{info.id}{reader}, {pluralize(info.turns, 'turn')}, begun "
        f"{_time(info.created_at)} UTC"
    )
    return f"{head}\n\n{show_turns(turns)}"


def show_conversations(found: Sequence[ConversationInfo], reader: str | None) -> str:
    """Show conversations of the world, or of a reader, as a table."""
    if not found:
        own = "" if reader is None else f" --reader {shlex.quote(reader)}"
        return f"No conversations yet. 'truespan chat{own}' begins one."
    rows: list[tuple[object, ...]] = [("conversation", "last question (UTC)", "turns", "title")]
    for info in found:
        title = shorten(" ".join(info.title.split()), _TITLE_SHOWN, "…")
        if info.damaged:
            title = "✗ damaged"
        rows.append((info.id, _time(info.updated_at), info.turns, title))
    return "\n".join(table(rows))


def show_deleted(receipt: Receipt) -> str:
    """Show the result of deleting conversations, and data left to erase."""
    from truespan.cli.output.documents import show_erasure

    rows = receipt.rows
    conversations = pluralize(rows.get("conversations", 0), "conversation")
    turns = pluralize(rows.get("turns", 0), "turn")
    return "\n".join([f"Deleted {conversations} with {turns}.", *show_erasure(receipt)])


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
