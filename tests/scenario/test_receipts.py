"""Signed receipts of a whole library: claims, recipients and verification."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import truespan
from tests.promises import proves
from tests.support.answer_worlds import Scripted
from tests.support.failures import raises_code
from tests.support.receipts import GUIDE, as_json, claims_of, keys_of, signing_world
from tests.support.worlds import LibraryFixture
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed, ReceiptInvalid
from truespan.extensions.proof.types import SignedReceipt
from truespan.extensions.proof.verify import EXIT_CODES, verify
from truespan.protocols import ChatModels
from truespan.types.answer import Message
from truespan.types.bundle import SearchResult
from truespan.types.ids import hash_text
from truespan.types.scope import OWNER, Verb

QUERY = "Where did the brass key hang?"
VERIFIER = Path(__file__).parents[2] / "examples" / "truespan_verify.py"


@pytest.fixture
def signing(tmp_path: Path) -> tuple[LibraryFixture, World]:
    return signing_world(tmp_path)


@proves("proof.receipts")
def test_receipt_of_a_search_names_the_returned_texts(
    signing: tuple[LibraryFixture, World],
) -> None:
    lib, world = signing
    result = world.search(QUERY, top_k=3, language="en")

    verified = verify(as_json(world.sign(result)), keys_of(lib))
    claims = verified.claims
    document = world.documents.get("guide.md")
    assert verified.texts == tuple(passage.text for passage in result.passages)
    assert claims["question"] == {"text": QUERY}
    assert claims["request"] == {
        "top_k": 3, "floor": None, "highlight": False, "language": "en",
    }  # fmt: skip
    assert claims["scope"]["text"] == 'world "world", generation 1, language "en"'
    assert (claims["mode"], claims["defaults"]) == (result.mode, result.defaults)
    assert claims["profile"] == result.passages[0].receipt.profile
    for passage, said in zip(result.passages, claims["passages"], strict=True):
        assert said["text"] == hash_text(passage.text)
        assert (said["start"], said["end"]) == (passage.start, passage.end)
    signed = {item["doc_id"]: item for item in claims["documents"]}[document.doc_id]
    assert (signed["source_hash"], signed["revision"]) == (document.source_hash, document.active)
    assert signed["source_hash"] == hash_text(GUIDE)


@proves("proof.receipts")
def test_sign_refuses_results_that_the_world_did_not_return(signing: tuple[LibraryFixture, World]):
    lib, world = signing
    result, bundle = world.search(QUERY), world.retrieve(QUERY)
    other = lib.library.create_world("other")
    decoded = msgspec.json.decode(msgspec.json.encode(result), type=SearchResult)

    for refused in (replace(result, context="Another text."), decoded, replace(bundle)):
        with pytest.raises(InvalidArgument, match="cannot be signed"):
            world.sign(refused)
    with pytest.raises(InvalidArgument, match="cannot be signed"):
        other.sign(result)
    assert world.sign(result).texts == tuple(passage.text for passage in result.passages)


@proves("proof.receipts")
def test_sign_omits_documents_replaced_since_the_result(signing: tuple[LibraryFixture, World]):
    lib, world = signing
    result = world.search(QUERY, top_k=5, floor=0.0)
    world.ingest(lib.write("guide.md", GUIDE.replace("seventh", "eighth")))

    claims = claims_of(world.sign(result))
    assert {item["document"] for item in claims["documents"]} == {2}
    assert {item["document"] for item in claims["passages"]} == {1, 2}


@proves("proof.receipts")
def test_receipt_of_an_answer_has_model_decision_and_text(tmp_path: Path) -> None:
    lib, world = signing_world(tmp_path)
    chat = ChatModels(Scripted(["On the seventh hook [1]."]))
    asked = Library(replace(lib.library._components, chat=chat)).world(world.id)
    answer = asked.answer("Where did the key hang on the hook?")

    verified = verify(as_json(asked.sign(answer)), keys_of(lib))
    assert verified.texts[-1] == answer.answer
    assert verified.claims["answer"] == {"sha256": hash_text(answer.answer)}
    assert verified.claims["decision"]["mode"] == answer.mode
    used = answer.decision_explain["used_llm"]
    name = chat.primary.name if chat.primary and used == "primary" else None
    assert verified.claims["model"] == name
    assert len(verified.claims["passages"]) == len(verified.texts) - 1


@proves("proof.receipts")
def test_documents_replaced_during_an_answer_are_not_signed(tmp_path: Path) -> None:
    lib, world = signing_world(tmp_path)

    class Slow(Scripted):
        """A model during whose reply the guide is replaced by words of the same length."""

        def stream(self, messages: Sequence[Message]) -> Iterator[str]:
            assert len(changed) == len(GUIDE)
            world.ingest(lib.write("guide.md", changed))
            return super().stream(messages)

    changed = GUIDE.replace("seventh hook", "seventh nail")
    chat = ChatModels(Slow(["On the seventh hook [1]."]))

    asked = Library(replace(lib.library._components, chat=chat)).world(world.id)
    answer = asked.answer("Where did the key hang on the hook?")

    verified = verify(as_json(asked.sign(answer)), keys_of(lib))
    assert any("seventh hook" in text for text in verified.texts[:-1])
    assert [item["document"] for item in verified.claims["documents"]] == [2]


@proves("proof.receipts")
def test_question_is_a_keyed_hash_if_configured(tmp_path: Path) -> None:
    lib, world = signing_world(tmp_path)
    parts = replace(
        lib.library._components,
        signs_questions=False,
        mark_query=lambda _, text: f"mark{len(text)}",
    )
    asked = Library(parts).world(world.id)
    receipt = asked.sign(asked.search(QUERY))

    assert claims_of(receipt)["question"] == {"hash": f"mark{len(QUERY)}"}
    assert QUERY not in json.dumps(claims_of(receipt))


@proves("proof.keys")
def test_library_without_a_key_signs_nothing(lib: LibraryFixture, world: World) -> None:
    world.ingest(lib.write("guide.md", GUIDE))

    for result in (world.search(QUERY), world.retrieve(QUERY), world.answer(QUERY)):
        with raises_code("signing_key_missing", match="truespan keys create"):
            world.sign(result)


@proves("proof.keys")
def test_only_the_owner_changes_keys(signing: tuple[LibraryFixture, World]) -> None:
    lib, world = signing
    caller = OWNER.narrow(worlds=[lib.scope(world).world], verbs=[Verb.READ])
    library = lib.library.under(caller)

    assert library.keys.list() == lib.library.keys.list()
    for change in (library.keys.create, library.keys.rotate):
        with pytest.raises(NotAllowed):
            change()


@proves("proof.keys")
def test_receipt_of_a_retired_key_stays_valid(signing: tuple[LibraryFixture, World]) -> None:
    lib, world = signing
    receipt = as_json(world.sign(world.search(QUERY)))
    lib.clock.sleep(60)
    lib.library.keys.rotate()

    assert verify(receipt, keys_of(lib)).claims["operation"] == "search"
    lib.clock.sleep(60)
    later = as_json(world.sign(world.search(QUERY)))
    assert verify(later, keys_of(lib)).key_id == keys_of(lib)["keys"][-1]["key_id"]


@proves("proof.reader")
def test_receipt_of_a_reader_names_nothing_of_the_whole_book(signing: tuple[LibraryFixture, World]):
    lib, world = signing
    reader = world.reader("ann")
    reader.set_position("guide.md", sentence=3)
    bundle = reader.retrieve("porter and key")

    claims = verify(as_json(reader.sign(bundle)), keys_of(lib)).claims
    document = world.documents.get("guide.md")
    assert claims["documents"] == []
    said = json.dumps(claims)
    assert document.source_hash not in said
    assert "revision" not in said
    assert "ann" not in json.dumps(claims["scope"])


@proves("proof.non-interference")
def test_receipt_of_a_caller_with_an_audience_names_only_their_documents(
    signing: tuple[LibraryFixture, World],
) -> None:
    lib, world = signing
    limited = lib.library.under(OWNER.for_audience([])).world(world.id)
    before = claims_of(limited.sign(limited.search(QUERY)))

    world.ingest(lib.write("secret.md", "# A secret\n\nNobody may know of this.\n"))
    after = claims_of(limited.sign(limited.search(QUERY, top_k=2)))
    known = {item["document"]: item for item in before["documents"]}
    assert all(
        item == known[item["document"]] for item in after["documents"] if item["document"] < 3
    )


@proves("proof.verified")
def test_source_must_have_the_signed_bytes_and_text(
    signing: tuple[LibraryFixture, World], tmp_path: Path
) -> None:
    lib, world = signing
    receipt, keys = world.sign(world.search(QUERY)), lib.library.keys.list()
    assert isinstance(receipt, SignedReceipt)
    other = tmp_path / "changed.md"
    other.write_text(GUIDE.replace("seventh", "eighth"))

    found = truespan.verify_receipt(receipt, keys, source=_find(lib, "guide.md"))
    assert found.places
    assert {place.first_sentence for place in found.places} <= {*range(9)}
    with pytest.raises(ReceiptInvalid) as error:
        truespan.verify_receipt(receipt, keys, source=other)
    assert error.value.failure == "other_source"


@proves("proof.verified")
def test_file_read_with_other_settings_has_another_text(tmp_path: Path) -> None:
    file, folder = tmp_path / "guide.md", tmp_path / "library"
    file.write_text("Ask ann@example.org for the brass key. The key hung on the seventh hook.")
    folder.mkdir()
    (folder / "truespan.toml").write_text('[sanitize]\nenabled = "on"\n')
    with truespan.open(folder, create=True) as library:
        keys = library.keys.create()
        library.world().ingest(file)
        result = library.world().search(QUERY, floor=0.0)
        receipt = as_json(library.world().sign(result))
    assert "ann@" not in result.passages[0].text

    found = truespan.verify_receipt(receipt, keys, source=file, settings_folder=folder)
    assert len(found.places) == len(result.passages)
    with pytest.raises(ReceiptInvalid, match="at the place of passage 1") as error:
        truespan.verify_receipt(receipt, keys, source=file, settings_folder=tmp_path)
    assert error.value.failure == "source_text_differs"


@proves("proof.verified")
def test_program_in_one_file_verifies_without_truespan(
    signing: tuple[LibraryFixture, World], tmp_path: Path
) -> None:
    lib, world = signing
    receipt, keys = tmp_path / "receipt.json", tmp_path / "keys.json"
    receipt.write_bytes(as_json(world.sign(world.search(QUERY))))
    keys.write_text(json.dumps(keys_of(lib)))

    def run(*options: str) -> Any:
        # -I: neither the working folder nor the user's packages are on the path.
        command = [sys.executable, "-I", VERIFIER, receipt, "--keys", keys, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("--source", str(_find(lib, "guide.md")))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Valid. Signed: search of ")
    assert run("--source", str(keys)).returncode == EXIT_CODES["other_source"]
    for endless in ("/dev/zero", str(tmp_path)):
        assert run("--source", endless).returncode == 3
        with raises_code("source_unreadable"):
            truespan.verify_receipt(receipt.read_bytes(), keys_of(lib), source=endless)
    receipt.write_text(receipt.read_text().replace("quay", "key"))
    changed = run()
    assert changed.returncode == EXIT_CODES["text_differs"]
    assert "was changed" in changed.stderr


def _find(lib: LibraryFixture, name: str) -> Path:
    return next(lib.folder.rglob(name))


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
