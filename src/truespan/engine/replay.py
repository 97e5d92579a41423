"""Repeat the request of a receipt, and say passage by passage what has changed since."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from truespan import errors
from truespan.proof.statement import Operation, digest_result, restore_request
from truespan.proof.verify import ReceiptError, verify
from truespan.types.ids import hash_text
from truespan.types.receipt import (
    PassageChange,
    PublicKeys,
    ReplayedPassage,
    ReplayReport,
    SignedReceipt,
    StateChange,
)

if TYPE_CHECKING:
    from truespan.engine.components import Components
    from truespan.engine.signing import DocumentTree
    from truespan.engine.world import World
    from truespan.types.bundle import ContextBundle, SearchResult


def replay(
    components: Components,
    keys: PublicKeys,
    open_world: Callable[[str, int | None], World],
    receipt: SignedReceipt | bytes | str,
    query: str | None,
) -> ReplayReport:
    """Repeat the request of a receipt; see `Library.replay`."""
    data = msgspec.json.encode(receipt) if isinstance(receipt, SignedReceipt) else receipt
    try:
        claims = verify(data, msgspec.to_builtins(keys)).claims
    except ReceiptError as error:
        raise errors.ReceiptInvalid(error.failure, str(error)) from None
    operation = Operation(claims["operation"])
    if "passages" not in claims:
        raise errors.InvalidArgument(f"A receipt of {operation.value} has no request to repeat.")
    question = _question(components, claims, query)
    try:
        world = open_world(claims["world"], claims["generation"])
        documents = _documents(world)
    except (errors.WorldNotFound, errors.GenerationNotFound):
        gone = tuple(
            ReplayedPassage(number, PassageChange.DELETED)
            for number in range(1, len(claims["passages"]) + 1)
        )
        return ReplayReport(StateChange.GONE, None, gone)
    result = _repeat(world, operation, claims, question)
    same = None if result is None else digest_result(result) == claims["result"]["sha256"]
    shown = () if result is None else result.passages
    returned: dict[str, str] = {item.chunk_id: item.text for item in shown}
    passages = tuple(
        ReplayedPassage(number, _compare(world, documents, claims, passage, returned, result))
        for number, passage in enumerate(claims["passages"], 1)
    )
    return ReplayReport(_compare_state(world, documents, claims), same, passages)


def _question(components: Components, claims: dict[str, Any], query: str | None) -> str | None:
    """Return the question of a receipt; one that has only its hash must be given."""
    signed = claims["question"]
    if signed is None:
        return None
    if "text" in signed:
        return signed["text"]
    if query is None:
        raise errors.InvalidArgument(
            "The receipt has only a keyed hash of the question.", advice="Give the question."
        )
    if components.mark_query(claims["world"], query) != signed["hash"]:
        raise errors.InvalidArgument("The question differs from the question of the receipt.")
    return query


def _documents(world: World) -> DocumentTree | None:
    """Return the documents of the present state; None while the world has none."""
    from truespan.engine.signing import Signer

    record = world.access.record()
    scope = world.access.scope_in(record)
    signer = Signer(world.access.components, world.authority)
    return signer.document_tree(record, scope) if scope is not None else None


def _repeat(
    world: World, operation: Operation, claims: dict[str, Any], question: str | None
) -> SearchResult | ContextBundle | None:
    """Return the result of the same request now; None if it cannot be repeated.

    An answer is not repeated: a model need not say the same again. Its passages are compared.
    """
    arguments = restore_request(claims["request"])
    reading = claims.get("reading")
    try:
        if operation is Operation.SEARCH and question is not None:
            return world.search(question, **arguments)
        if operation is Operation.RETRIEVE and reading is None:
            return None if "book" in arguments else world.retrieve(question, **arguments)
        if operation is Operation.RETRIEVE and question is not None and reading is not None:
            book = arguments["book"] = str(reading["document"])
            reader = world.reader("replay").at_position(book, reading["position"])
            return reader.retrieve(question, **arguments)
    except (errors.ProfileMismatch, errors.DocumentNotFound):
        pass
    return None


def _compare_state(
    world: World, documents: DocumentTree | None, claims: dict[str, Any]
) -> StateChange:
    generation = world.access.record().generation
    if generation is None or documents is None:
        return StateChange.GONE
    if generation.profile.id != claims["profile"]:
        return StateChange.OTHER_MODEL
    if "state" not in claims:
        return StateChange.UNKNOWN
    same = documents.tree.root().hex() == claims["state"]["root"]
    return StateChange.SAME if same else StateChange.CHANGED


def _compare(
    world: World,
    documents: DocumentTree | None,
    claims: dict[str, Any],
    passage: dict[str, Any],
    returned: dict[str, str],
    result: object | None,
) -> PassageChange:
    """Return what became of a signed passage."""
    number = passage["document"]
    if documents is None or number not in documents.documents:
        listed = [item for item in world.documents.list() if item.number == number]
        return PassageChange.DAMAGED if listed else PassageChange.DELETED
    text = returned.get(passage["chunk_id"])
    if text is not None and hash_text(text) == passage["text"]:
        return PassageChange.SAME
    try:
        stored = world.documents.text(number)[passage["start"] : passage["end"]]
    except errors.StoreDamaged:
        return PassageChange.DAMAGED
    signed = {item["document"]: item for item in claims["documents"]}.get(number, {})
    revision = documents.documents[number][1].revision
    if passage["kind"] == "text" and hash_text(stored) != passage["text"]:
        return PassageChange.REPLACED
    if signed.get("revision", revision) != revision:
        return PassageChange.REPLACED
    return PassageChange.SAME if result is None else PassageChange.NOT_RETURNED
