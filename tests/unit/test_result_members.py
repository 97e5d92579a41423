"""Each member of a result has the value that belongs there: no two values here are equal."""

from msgspec.structs import asdict, replace

from tests.contract.index_contract import new_scope
from tests.unit.sources import source
from truespan.retrieval.pack import _retrieved_chunk, _source_note
from truespan.retrieval.repeats import place_of
from truespan.retrieval.search import _passage
from truespan.retrieval.stages import reveal
from truespan.types.bundle import Receipt
from truespan.types.chunk import ChunkKind, DocumentLabel, FigureMark, ParentChunk, StoredChunk
from truespan.types.ids import ChunkId, TextHash, chunk_id
from truespan.types.request import Defaults
from truespan.types.text import SentencePlace
from truespan.types.trust import FusedScore, Match, RerankScore, Verified

PARENT = ParentChunk(17, 901, 902, 903, TextHash("hash of the parent"))
CHUNK = StoredChunk(
    chunk_id=ChunkId("id of the chunk"), index=3, start=100, end=104, first_sid=11, last_sid=12,
    reach=13, kind=ChunkKind.FIGURE, data=b"text", text_hash=TextHash("hash"),
    overlap_text="overlap", tokens=5, chapter="chapter", section="section", page=6,
    location="pages 6-7", figure=FigureMark("figure", "image", PARENT), sentence_ends=b"ends",
)  # fmt: skip
DOCUMENT = DocumentLabel(
    number=21, doc_id="doc id", name="name", title="title", declared_title="declared", revision=22,
    tags=("tag",), language="en", version="2.0", path="path", source_url="url", metadata={"key": 1},
)  # fmt: skip
SCOPE = new_scope(generation=31)
FUSED, RERANK, MATCH = FusedScore(0.7, 0.8), RerankScore("model", 0.9, 2, 1), Match(11, 1, 3)
BEST = SentencePlace(14, "best chapter", "best section", 7, "page 7")
OTHERS = (place_of(source("copy")),)
FOUND = Verified(CHUNK, DOCUMENT, "text", 0.123456789, FUSED, language="de")
LABELS = {
    "source_url": "url", "address": f"truespan://{SCOPE.world}/21", "path": "path",
    "language": "en", "version": "2.0", "tags": ("tag",), "metadata": {"key": 1},
}  # fmt: skip
SHOWN = replace(
    reveal(FOUND, SCOPE)[0], rerank=RERANK, match=MATCH, best_sentence=BEST, other_places=OTHERS
)
PARENT_ID = chunk_id(SCOPE.world, 31, 21, 22, 17)


def test_each_member_of_a_visible_chunk_has_its_own_value() -> None:
    assert asdict(reveal(FOUND, SCOPE)[0]) == {
        **LABELS, "chunk_id": "id of the chunk", "document": 21, "source": "name", "title": "title",
        "revision": 22, "index": 3, "start": 100, "end": 104, "first_sid": 11, "last_sid": 12,
        "chapter": "chapter", "section": "section", "kind": ChunkKind.FIGURE, "text": "text",
        "text_hash": "hash", "tokens": 5, "score": 0.123456789, "page": 6, "location": "pages 6-7",
        "figure": CHUNK.figure, "parent_id": PARENT_ID, "fused": FUSED, "rerank": None,
        "match": None, "embedded_hash": None, "compared_language": "de", "sentence_ends": b"ends",
        "best_sentence": None, "other_places": (),
    }  # fmt: skip


def test_each_member_of_a_passage_has_its_own_value() -> None:
    assert asdict(_passage(SHOWN, FOUND, SCOPE, contract=True)) == {
        "chunk_id": "id of the chunk", "score": 0.123457, "document": 21, "doc_id": "doc id",
        "source": "name", "title": "title", "chapter": "chapter", "section": "section", "index": 3,
        "start": 100, "end": 104, "first_sid": 11, "last_sid": 12, "chunk_type": ChunkKind.FIGURE,
        "text": "text", "overlap_text": "overlap", "token_count": 5,
        "receipt": Receipt(TextHash("hash"), SCOPE.profile.id, 31, 22), "page": 6,
        "location": "pages 6-7", "figure_id": "figure", "image_ref": "image",
        "parent_chunk_id": PARENT_ID, "parent_chunk_local_index": 17, "fused": FUSED,
        "rerank": RERANK, "match": MATCH, "content": "text", "start_char": 100, "end_char": 104,
        "space_id": SCOPE.world, "best_sentence": BEST, "text_language": "de",
        "other_places": OTHERS, **LABELS,
    }  # fmt: skip


def test_each_member_of_a_note_has_its_own_value() -> None:
    assert asdict(_source_note(SHOWN, SCOPE, Defaults.CONTRACT.values)) == {
        "chunk_id": "id of the chunk", "document": 21, "source": "name", "title": "title",
        "first_sid": 11, "last_sid": 12, "start": 100, "end": 104, "text_hash": "hash",
        "profile": SCOPE.profile.id, "generation": 31, "revision": 22, "page": 6,
        "location": "pages 6-7", "fused": FUSED, "rerank": RERANK, "chunk_type": ChunkKind.FIGURE,
        "match": MATCH, "best_sentence": BEST, "text_language": "de", "other_places": OTHERS,
        **LABELS,
    }  # fmt: skip


def test_each_member_of_a_retrieved_chunk_has_its_own_value() -> None:
    assert asdict(_retrieved_chunk(SHOWN, contract=False)) == {
        "content": "text", "source_url": "url", "chapter": "chapter", "section": "section",
        "chunk_id": "id of the chunk", "relevance_score": 0.123457, "token_count": 5,
    }  # fmt: skip


def test_each_member_of_another_place_has_its_own_value() -> None:
    assert asdict(place_of(SHOWN)) == {
        "chunk_id": "id of the chunk", "document": 21, "source": "name", "title": "title",
        "chapter": "chapter", "section": "section", "first_sid": 11, "last_sid": 12, "start": 100,
        "end": 104, "source_url": "url", "path": "path", "page": 6, "location": "pages 6-7",
    }  # fmt: skip
