"""Filters see the same world with cached counts and with fresh ones."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from truespan.errors import DocumentAmbiguous
from truespan.retrieval.filters import hidden_documents, name_defaults, narrow_scope
from truespan.types.catalog import CatalogEntry, DocumentCatalog
from truespan.types.ids import WorldId
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.request import Filters
from truespan.types.scope import OWNER, UNLIMITED, DocumentSubset, Generation, Scope

ENGLISH = Filters(language="en", version="1.0")
PROFILE = EmbeddingProfile("local", "m", "r", 4, Distance.COSINE, "document", "query", 510)
SCOPE = Scope(OWNER, WorldId("0" * 8), Generation(1, PROFILE))


def entry(
    number: int,
    language: str = "en",
    version: str = "1.0",
    tags: tuple[str, ...] = (),
    embedded: int = 1,
    pending: int = 0,
) -> CatalogEntry:
    return CatalogEntry(
        number=number, doc_id=f"doc-{number}", name=f"{number % 2}.txt", language=language,
        language_declared=True, version=version, tags=tags, embedded=embedded, pending=pending,
        path=f"{number % 2}.txt",
    )  # fmt: skip


def chosen(shelf: DocumentCatalog, **asked: object) -> list[int] | None:
    """Return the documents that a request is limited to; None for all."""
    documents = narrow_scope(SCOPE, shelf, ENGLISH.with_arguments(asked)).documents  # type: ignore[arg-type]
    return sorted(documents) if isinstance(documents, frozenset) else None


def test_request_that_matches_every_document_has_no_filter():
    assert chosen(DocumentCatalog([entry(1), entry(2, "en-GB")])) is None
    assert chosen(DocumentCatalog([])) is None


def test_labels_and_names_narrow_together():
    shelf = DocumentCatalog(
        [entry(1), entry(2, tags=("a", "b")), entry(3, "de", tags=("a",)), entry(4)]
    )

    assert chosen(shelf) == [1, 2, 4]
    assert chosen(shelf, language="de") == [3]
    assert chosen(shelf, language=None, tags=("a",)) == [2, 3]
    assert chosen(shelf, documents=("doc-1", "3", "4")) == [1, 4]
    with pytest.raises(DocumentAmbiguous, match=r"2 documents match '0\.txt'"):
        chosen(shelf, documents=("0.txt",))
    assert chosen(shelf, language=None, documents=("3", "nobody")) == [3]
    assert chosen(shelf, language=None, documents=()) == []
    assert chosen(shelf, language="fr") == []


def test_documents_excluded_by_a_default_are_counted_by_value():
    shelf = DocumentCatalog([entry(1, "de"), entry(2), entry(3, "de"), entry(4, "fr")])
    scope = narrow_scope(SCOPE, shelf, ENGLISH)
    relaxed = narrow_scope(SCOPE, shelf, replace(ENGLISH, language=None))
    hidden = hidden_documents(scope, relaxed, shelf)
    assert hidden == {1, 3, 4}
    assert hidden_documents(relaxed, relaxed, shelf) == set()
    named = name_defaults(shelf.among(hidden), ENGLISH, frozenset({"language"}))
    assert named == "the default language 'en': de (2), fr (1)"


@pytest.mark.parametrize("numbers", [[], [1], [2, 3], [1, 2, 3], [9]])
def test_counts_cover_the_documents_in_scope(numbers: list[int]):
    held = [entry(1, embedded=3), entry(2, embedded=5, pending=2), entry(3, pending=7)]
    shelf = DocumentCatalog(held)
    chosen = [document for document in held if document.number in numbers]
    assert shelf.count_chunks(frozenset(numbers)) == (
        sum(document.embedded for document in chosen),
        sum(document.pending for document in chosen),
    )
    assert shelf.count_chunks(UNLIMITED) == (9, 9)
    assert shelf.count_chunks(DocumentSubset.of(frozenset({1, 3}), shelf.numbers)) == (4, 7)


LABELS = st.tuples(
    st.sampled_from(["en", "de", "en-GB"]),
    st.sampled_from(["1.0", "2.0"]),
    st.sampled_from([(), ("a",), ("a", "b")]),
)


@given(st.lists(LABELS, max_size=12))
def test_documents_with_equal_labels_match_together(labels: list):
    shelf = DocumentCatalog(entry(number, *one) for number, one in enumerate(labels, 1))
    for language, version, tags in product(("en", "de", None), ("1.0", None), ((), ("a",))):
        asked = {"language": language, "version": version, "tags": tags}
        each = [one.number for one in shelf if chosen(DocumentCatalog([one]), **asked) is None]
        assert chosen(shelf, **asked) == (None if len(each) == len(shelf) else each)
