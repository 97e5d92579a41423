"""Signed receipts of results, and the keys of a library that sign them.

This is the only place that decides what a receipt says to whom. Anyone may list the public keys;
the owner changes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from truespan.core.clock import format_time
from truespan.engine.components import Components
from truespan.errors import NotAllowed, SigningKeyMissing
from truespan.proof.statement import (
    Asked,
    Operation,
    PlacedText,
    describe_passage,
    describe_request,
    describe_scope,
    digest_result,
    make_statement,
)
from truespan.protocols import SigningKeys
from truespan.retrieval.pipeline import with_stable_snapshot
from truespan.types.answer import Answer
from truespan.types.bundle import ContextBundle, Passage, SearchResult
from truespan.types.ids import hash_text
from truespan.types.receipt import PublicKeys, SignedReceipt
from truespan.types.request import FILTER_NAMES
from truespan.types.scope import OWNER, Authority, Scope, World

if TYPE_CHECKING:
    from truespan.engine.access import WorldAccess
    from truespan.maintenance.delete import Receipt
    from truespan.proof.statement import SigningKey

Result = TypeVar("Result", SearchResult, ContextBundle)


def sign_stable(
    access: WorldAccess, asked: Asked, run: Callable[[World], tuple[Result, Scope | None]]
) -> Result:
    """Return a result with its signed receipt, both from one state of the world.

    `run` returns the result and the scope that it comes from. It may be called again.
    """
    components, authority = access.components, access.authority
    signer = Signer(components, authority)
    signer.require_key()

    def attempt(world: World) -> Result:
        result, scope = run(world)
        receipt = signer.sign_result(world, scope, asked, result)
        return replace(result, signed_receipt=receipt)

    return with_stable_snapshot(components.store, authority, access.record(), attempt)


class Signer(Struct, frozen=True):
    """Signs results for the callers of an authority."""

    components: Components
    authority: Authority

    def require_key(self) -> SigningKey:
        """Return the key that signs; raises SigningKeyMissing."""
        keys = self.components.signing_keys
        key = keys.signing_key() if keys is not None else None
        if key is None:
            raise SigningKeyMissing
        return key

    def sign_result(
        self, world: World, scope: Scope | None, asked: Asked, result: SearchResult | ContextBundle
    ) -> SignedReceipt:
        """Return the receipt of a search or a retrieval.

        Args:
            world: The state of the world that the result comes from.
            scope: The scope of the request; with a position, the receipt depends on nothing after
                that position.
            asked: The request.
            result: The result.

        Raises:
            Restart: The world changed meanwhile.
        """
        metadata = result.metadata if isinstance(result, ContextBundle) else result
        claims = {
            "mode": str(metadata.mode),
            "defaults": str(metadata.defaults),
            "result": {"sha256": digest_result(result)},
        }
        return self._sign_passages(world, scope, asked, result.passages, claims)

    def sign_answer(
        self,
        world: World,
        scope: Scope | None,
        asked: Asked,
        answer: Answer,
        sources: Sequence[PlacedText],
    ) -> SignedReceipt:
        """Return the receipt of an answer and of the passages that it was made from."""
        explained = answer.decision_explain
        claims = {
            "defaults": str(world.defaults),
            "decision": {"mode": str(answer.mode), "sha256": _digest(explained)},
            "model": _answering_model(self.components, answer),
            "answer": {"sha256": hash_text(answer.answer)},
        }
        return self._sign_passages(world, scope, asked, sources, claims, answer.answer)

    def sign_content(self, world: str, operation: Operation, content: Any) -> SignedReceipt:
        """Return the receipt of content of a world without passages; its JSON is the text."""
        text = json.dumps(msgspec.to_builtins(content), ensure_ascii=False, sort_keys=True)
        claims = self._describe(operation) | {"world": world}
        return self._sign(claims, [operation.value], [text])

    def _sign_passages(
        self,
        world: World,
        scope: Scope | None,
        asked: Asked,
        passages: Sequence[PlacedText],
        claims: dict[str, Any],
        answer: str | None = None,
    ) -> SignedReceipt:
        claims = self._describe(asked.operation) | claims
        claims |= self._describe_question(world, scope, asked)
        claims["passages"] = [describe_passage(passage) for passage in passages]
        claims["documents"] = self._describe_documents(scope, passages)
        names = [f"passage {number}" for number in range(1, len(passages) + 1)]
        texts = [passage.text for passage in passages]
        if answer is not None:
            names.append("answer")
            texts.append(answer)
        return self._sign(claims, names, texts)

    def _describe(self, operation: Operation) -> dict[str, Any]:
        return {
            "operation": operation.value,
            "library": self.components.store.library_id(),
            "time": format_time(self.components.clock.now()),
            "version": _version(),
        }

    def _describe_question(self, world: World, scope: Scope | None, asked: Asked) -> dict[str, Any]:
        question: dict[str, str] | None = None
        if asked.question is not None:
            question = {"text": asked.question}
            if not self.components.signs_questions:
                marked = self.components.mark_query(world.id, asked.question)
                question = {"hash": marked}
        request = describe_request(asked.arguments)
        generation = world.generation
        fields: dict[str, Any] = {"generation": generation.number if generation else None}
        fields |= {name: request[name] for name in FILTER_NAMES if request.get(name)}
        claims: dict[str, Any] = {
            "world": world.id,
            "generation": fields["generation"],
            "profile": generation.profile.id if generation else None,
            "question": question,
            "request": request,
        }
        if scope is not None and scope.position is not None:
            fields |= {"document": _only(scope.documents), "read up to sentence": scope.position}
            claims["reading"] = {"document": _only(scope.documents), "position": scope.position}
        claims["scope"] = describe_scope(world.name, world.id, fields)
        return claims

    def _describe_documents(
        self, scope: Scope | None, passages: Sequence[PlacedText]
    ) -> list[dict[str, Any]]:
        """Return the claims about the documents of passages; none about a replaced revision."""
        # The hash of a source and the number of a revision depend on unread text.
        if scope is None or scope.position is not None:
            return []
        revisions = {passage.document: _revision_of(passage) for passage in passages}
        found = self.components.store.signed_documents(scope, revisions)
        return [
            msgspec.to_builtins(document)
            for document in found
            if document.revision == revisions[document.document]
        ]

    def _sign(
        self, claims: dict[str, Any], names: Sequence[str], texts: Sequence[str]
    ) -> SignedReceipt:
        envelope = self.require_key().sign(make_statement(claims, names, texts))
        return SignedReceipt(envelope, tuple(texts))


def _revision_of(passage: PlacedText) -> int | None:
    place = passage.receipt if isinstance(passage, Passage) else passage
    return getattr(place, "revision", None)


def _only(documents: object) -> int | None:
    found = [*documents] if isinstance(documents, frozenset) else []
    return found[0] if len(found) == 1 else None


def _answering_model(components: Components, answer: Answer) -> str | None:
    used = answer.decision_explain.get("used_llm")
    models = {"primary": components.chat.primary, "fallback": components.chat.fallback}
    model = models.get(str(used))
    return model.name if model is not None else None


def _digest(content: Any) -> str:
    return hash_text(json.dumps(msgspec.to_builtins(content), sort_keys=True))


# Shared by threads: a cache of a text.
@cache
def _version() -> str:
    return version("truespan")


def require_signing_key(components: Components) -> None:
    """Raise SigningKeyMissing unless the library can sign, before anything is deleted."""
    Signer(components, OWNER).require_key()


def sign_deletion(components: Components, receipt: Receipt) -> Receipt:
    """Return the receipt of a deletion with its signature."""
    signer = Signer(components, OWNER)
    signed = signer.sign_content(receipt.world_id, Operation.DELETION, receipt.to_json())
    return replace(receipt, signed_receipt=signed)


class LibraryKeys:
    """The keys that sign receipts. Private keys are never returned."""

    def __init__(self, components: Components, authority: Authority) -> None:
        self._components = components
        self._authority = authority

    def list(self) -> PublicKeys:
        """Return the public keys, the oldest first. The last one signs, unless it is retired."""
        keys = self._components.signing_keys
        public = keys.public_keys() if keys is not None else ()
        return PublicKeys(self._components.store.library_id(), public)

    def create(self) -> PublicKeys:
        """Create a signing key unless there is one.

        Raises:
            NotAllowed: The caller is not the owner.
        """
        keys = self._require_owner()
        if keys.signing_key() is None:
            keys.rotate(format_time(self._components.clock.now()))
        return self.list()

    def rotate(self) -> PublicKeys:
        """Replace the signing key by a new one. The old public key is kept, with its times.

        Raises:
            NotAllowed: The caller is not the owner.
            InvalidConfiguration: The key is configured, so that it is replaced there.
        """
        self._require_owner().rotate(format_time(self._components.clock.now()))
        return self.list()

    def _require_owner(self) -> SigningKeys:
        keys = self._components.signing_keys
        if self._authority != OWNER or keys is None:
            raise NotAllowed("change signing keys")
        return keys
