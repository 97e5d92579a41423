"""Documents that contradict each other, asked as a user does."""

from __future__ import annotations

from pathlib import Path

import truespan
from tests.promises import proves
from truespan.cli.output.ask import show_turns

OLD = (
    "Rules of 2021.\n\nThe rent of the boathouse is 950 crowns a month. Boats are painted in May.\n"
)
NEW = "Rules of 2023.\n\nThe rent of the boathouse is 1,050 crowns a month. Nets dry on the quay.\n"


@proves("answer.disagreement")
def test_answer_names_documents_that_disagree(tmp_path: Path) -> None:
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.world(create=True)
        world.add_text(OLD, id="old", title="Schedule 2021")
        world.add_text(NEW, id="new", title="Schedule 2023")

        answer = world.answer("What is the rent of the boathouse?")

        [found] = answer.disagreements
        assert sorted(one.value for one in found.statements) == ["1,050", "950"]
        for one in found.statements:
            assert one.quote.text in OLD + NEW
            assert answer.citations[one.number - 1].chunk_id == one.quote.chunk_id
        [notice] = [each for each in answer.warnings if each.code == "sources_disagree"]
        assert (
            "Schedule 2021 says “The rent of the boathouse is 950 crowns a month.”"
            in notice.message
        )

        world.documents.delete(found.statements[0].quote.document, erase=False)
        assert world.answer("What is the rent of the boathouse?").disagreements == ()


@proves("answer.disagreement")
def test_turn_of_a_conversation_keeps_its_disagreements(tmp_path: Path) -> None:
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.world(create=True)
        world.add_text(OLD, id="old", title="Schedule 2021")
        world.add_text(NEW, id="new", title="Schedule 2023")
        begun = world.conversation()
        answer = begun.ask("What is the rent of the boathouse?")

        [turn] = world.conversation(begun.id).turns()
        assert turn.disagreements == answer.disagreements != ()
        [notice] = [each for each in answer.warnings if each.code == "sources_disagree"]
        for shown in (show_turns([turn]), begun.to_markdown()):
            assert notice.message in shown
        assert begun.export()["turns"][0]["disagreements"][0]["kind"] == "number"
