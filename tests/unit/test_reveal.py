"""Part of a verified chunk that a scope shows, for any reply of the index."""

from msgspec.structs import replace

from tests.contract.index_contract import new_scope
from tests.promises import proves
from truespan.retrieval.stages import reveal
from truespan.types.chunk import ChunkKind, DocumentLabel, StoredChunk
from truespan.types.ids import ChunkId, hash_text
from truespan.types.scope import Scope
from truespan.types.trust import Verified

TEXT = "The lamp went out. Nobody saw it."
CHUNK = StoredChunk(
    chunk_id=ChunkId("c"), index=0, start=0, end=len(TEXT), first_sid=4, last_sid=5, reach=6,
    kind=ChunkKind.TEXT, data=TEXT.encode(), text_hash=hash_text(TEXT), overlap_text="", tokens=7,
    chapter=None, section=None,
)  # fmt: skip
BOOK = DocumentLabel(
    number=1, doc_id="book.md", name="book.md", title="The Book", declared_title=None, revision=3
)
FOUND = Verified(CHUNK, BOOK, TEXT, 0.9)


def shown(found: Verified, scope: Scope) -> list[str]:
    return [part.text for part in reveal(found, scope)]


@proves("reading.never-past-position")
def test_reader_sees_chunks_of_its_revision_up_to_position():
    reader = new_scope().for_reader(1, 3, 6)

    assert shown(FOUND, reader) == [TEXT]
    hidden = {
        # A sentence number of one revision says nothing of another, however early it is.
        "an earlier revision": (replace(FOUND, document=replace(BOOK, revision=2)), reader),
        "a later revision": (replace(FOUND, document=replace(BOOK, revision=4)), reader),
        "another document": (replace(FOUND, document=replace(BOOK, number=2)), reader),
        "decided by what follows": (FOUND, new_scope().for_reader(1, 3, 5)),
        "past the position": (replace(FOUND, chunk=replace(CHUNK, last_sid=7, reach=6)), reader),
    }
    assert not [name for name, case in hidden.items() if shown(*case)]


def test_revision_and_position_matter_only_for_a_reader():
    assert shown(replace(FOUND, document=replace(BOOK, revision=4)), new_scope()) == [TEXT]


@proves("reading.non-interference")
def test_reader_sees_no_label_from_unread_text():
    detected = replace(BOOK, language="de", metadata={"ending": "sad"})
    declared = replace(detected, language_declared=True)
    owner, reader = new_scope(), new_scope().for_reader(1, 3, 6)

    def labels(book: DocumentLabel, scope: Scope) -> tuple[object, object]:
        [part] = reveal(replace(FOUND, document=book), scope)
        return part.language, part.metadata

    assert labels(detected, reader) == (None, None)
    assert labels(declared, reader) == ("de", None)
    assert labels(detected, owner) == ("de", {"ending": "sad"})
