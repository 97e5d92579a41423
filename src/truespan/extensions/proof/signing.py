"""Signed receipts of results, and the keys of a library that sign them.

Only this module decides on the claims of a receipt for a caller. Anyone may list the public keys;
the owner changes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from truespan.core.clock import format_time
from truespan.engine.access import LibraryPart
from truespan.engine.components import Components
from truespan.engine.reader import Reader
from truespan.errors import InvalidArgument, InvalidConfiguration, NotAllowed
from truespan.extensions.proof.statement import (
    PlacedText,
    describe_passage,
    describe_request,
    describe_scope,
    digest_result,
    make_statement,
)
from truespan.extensions.proof.types import PublicKeys, SignedReceipt
from truespan.types.answer import Answer
from truespan.types.bundle import BundleMetadata, ContextBundle, Passage, SearchResult
from truespan.types.ids import hash_text
from truespan.types.origin import Asked, Origin, Result
from truespan.types.request import FILTER_NAMES
from truespan.types.scope import OWNER, Scope
from truespan.types.scope import World as WorldRecord

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World
    from truespan.extensions.proof.keys import SigningKeyFile
    from truespan.extensions.proof.statement import SigningKey


def require_key(world: World) -> None:
    """Raise InvalidConfiguration unless the library can sign, before anything is asked."""
    Signer(world.access.components).require_key()


def sign(owner: World | Reader, result: Result) -> SignedReceipt:
    """Return the signed receipt of a result; see `World.sign` and `Reader.sign`."""
    access = owner._access if isinstance(owner, Reader) else owner.access
    if result.origin is None or result.origin.world.id != access.record().id:
        raise InvalidArgument(
            "This is not a result as this world returned it, so it cannot be signed.",
            advice="Sign the result itself, in the process that got it, before it is changed.",
        )
    return Signer(access.components).sign(result)


class Signer(Struct, frozen=True):
    """Signs results with the key of a library."""

    components: Components

    def require_key(self) -> SigningKey:
        """Return the key that signs; raises InvalidConfiguration."""
        keys = self.components.signing_keys
        key = keys.signing_key() if keys is not None else None
        if key is None:
            raise InvalidConfiguration(code="signing_key_missing")
        return key

    def sign(self, result: Result) -> SignedReceipt:
        """Return the receipt of a result; for a reader it depends on nothing past the position.

        Raises:
            InvalidArgument: The result was changed.
            InvalidConfiguration: The library has no signing key.
        """
        key, origin = self.require_key(), result.origin
        if origin is None or origin.asked is None:
            raise InvalidArgument("A result that was changed cannot be signed.")
        passages: Sequence[PlacedText] = origin.sources
        answer: list[str] = []
        match result:
            case Answer():
                claims = _describe_answer(self.components, result)
                answer = [result.answer]
            case SearchResult():
                passages, claims = result.passages, _describe_result(result, result)
            case ContextBundle():
                passages = result.passages
                claims = _describe_result(result, result.metadata)
            case _:
                raise InvalidArgument(f"A {type(result).__name__} cannot be signed.")
        claims |= self._describe(origin, origin.asked)
        claims["passages"] = [describe_passage(passage) for passage in passages]
        claims["documents"] = self._describe_documents(origin.scope, passages)
        names = [f"passage {number}" for number in range(1, len(passages) + 1)]
        texts = [*(passage.text for passage in passages), *answer]
        statement = make_statement(claims, [*names, *["answer"] * len(answer)], texts)
        return SignedReceipt(key.sign(statement), tuple(texts))

    def _describe(self, origin: Origin, asked: Asked) -> dict[str, Any]:
        """Return the claims about the library and the request."""
        world, scope, generation = origin.world, origin.scope, origin.world.generation
        request, number = describe_request(asked.arguments), generation and generation.number
        fields: dict[str, Any] = {"generation": number}
        fields |= {name: request[name] for name in FILTER_NAMES if request.get(name)}
        reading: dict[str, Any] = {}
        if scope is not None and scope.position is not None:
            book = _only(scope.documents)
            fields |= {"document": book, "read up to sentence": scope.position}
            reading["reading"] = {"document": book, "position": scope.position}
        return {
            "operation": asked.operation.value,
            "library": self.components.store.worlds.library_id(),
            "time": format_time(self.components.clock.now()),
            "version": _version(),
            "world": world.id,
            "generation": number,
            "profile": generation.profile.id if generation else None,
            "defaults": str(world.defaults),
            "question": self._describe_question(world, asked.question),
            "request": request,
            "scope": describe_scope(world.name, world.id, fields),
            **reading,
        }

    def _describe_question(self, world: WorldRecord, question: str | None) -> dict[str, str] | None:
        if question is None:
            return None
        if self.components.signs_questions:
            return {"text": question}
        return {"hash": self.components.mark_query(world.id, question)}

    def _describe_documents(
        self, scope: Scope | None, passages: Sequence[PlacedText]
    ) -> list[dict[str, Any]]:
        """Return the claims about the documents of passages; none about a replaced revision."""
        # The hash of a source and the number of a revision depend on unread text.
        if scope is None or scope.position is not None:
            return []
        revisions = {passage.document: _revision_of(passage) for passage in passages}
        return [
            {
                "document": cells.document,
                "doc_id": cells.doc_id,
                "revision": cells.number,
                "source_hash": cells.source_hash,
            }
            for cells in self.components.store.catalogs.intact_revisions(scope, revisions)
            if cells.number == revisions[cells.document]
        ]


def _describe_result(
    result: SearchResult | ContextBundle, metadata: SearchResult | BundleMetadata
) -> dict[str, Any]:
    return {"mode": str(metadata.mode), "result": {"sha256": digest_result(result)}}


def _describe_answer(components: Components, answer: Answer) -> dict[str, Any]:
    explained = answer.decision_explain
    models = {"primary": components.chat.primary, "fallback": components.chat.fallback}
    model = models.get(str(explained.get("used_llm")))
    return {
        "decision": {"mode": str(answer.mode), "sha256": _digest(explained)},
        "model": None if model is None else model.name,
        "answer": {"sha256": hash_text(answer.answer)},
    }


def _revision_of(passage: PlacedText) -> int | None:
    place = passage.receipt if isinstance(passage, Passage) else passage
    return getattr(place, "revision", None)


def _only(documents: object) -> int | None:
    found = [*documents] if isinstance(documents, frozenset) else []
    return found[0] if len(found) == 1 else None


def _digest(content: Any) -> str:
    return hash_text(json.dumps(msgspec.to_builtins(content), sort_keys=True))


# Shared by threads: a cache of a text.
@cache
def _version() -> str:
    return version("truespan")


def keys_of(library: Library) -> LibraryKeys:
    """Return the keys of a library; see `Library.keys`."""
    return LibraryKeys(library._components, library._authority)


class LibraryKeys(LibraryPart, frozen=True):
    """The keys that sign receipts. Private keys are never returned."""

    def list(self) -> PublicKeys:
        """Return the public keys, the oldest first. The last one signs, unless it is retired."""
        keys = self._components.signing_keys
        public = keys.public_keys() if keys is not None else ()
        return PublicKeys(self._components.store.worlds.library_id(), public)

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

    def _require_owner(self) -> SigningKeyFile:
        keys = self._components.signing_keys
        if self._authority != OWNER or keys is None:
            raise NotAllowed("change signing keys")
        return keys
