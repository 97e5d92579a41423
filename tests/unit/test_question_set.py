"""Hand-written questions: enough of them, and each answer is one sentence of its book."""

import pytest
from bench.question_set import NOVELS, QUESTIONS, locate, read_books, read_questions

pytestmark = pytest.mark.needs_extension


def test_every_answer_is_one_sentence_of_its_book() -> None:
    books = read_books()
    assert books[0].name == "ferry"
    for book in books:
        answers = [number for question in book.questions for number in question.answers]
        assert len(book.questions) >= 45
        assert min(answers) < book.sentences * 0.1
        assert max(answers) > book.sentences * 0.9
        assert [question.number for question in book.questions] == list(
            range(1, len(book.questions) + 1)
        )


def test_questions_differ_and_quotes_are_located_once() -> None:
    names = sorted(path.stem for path in QUESTIONS.glob("*.yaml"))
    assert names == sorted(["ferry", *NOVELS])
    queries = [query for name in names for query in read_questions(name)]
    assert len(queries) >= 150
    assert len({query.query.casefold() for query in queries}) == len(queries)
    assert sum(query.id.endswith("-late") for query in queries) >= 40

    sentences = ["the lamp went out.", "the lamp was lit again.", "lit by whom? lit by her."]
    assert locate(sentences, "Lamp  went", "q") == 0
    for phrase in ("the lamp", "lit by", "the bell", "out. the lamp"):
        with pytest.raises(ValueError, match="not in one"):
            locate(sentences, phrase, "q")
