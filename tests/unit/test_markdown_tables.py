"""Markdown tables for models, without changing the verified text."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.rows import each_row
from tests.unit.sources import source
from truespan.answers.prompt import grounded_messages
from truespan.answers.quotes import check_quotes
from truespan.extensions.server.mcp.passages import TextPassage, render_passages
from truespan.text.tables import added_characters, added_tokens, format_tables, unformat_rows
from truespan.types.conversation import Question
from truespan.types.decision import AnswerMode
from truespan.types.text import SentenceRange

MEALS = "Meal | Limit\nBreakfast | 15 EUR\nLunch | 40 EUR"
MARKDOWN = "| Meal | Limit |\n|---|---|\n| Breakfast | 15 EUR |\n| Lunch | 40 EUR |"


@each_row("text, expected", [
    (MEALS, MARKDOWN),
    (f"Before it.\n\n{MEALS}\n\nAfter it.", f"Before it.\n\n{MARKDOWN}\n\nAfter it."),
    # The parts of one table, and another table.
    (f"{MEALS}\n\nMeal | Limit\nDinner | 60 EUR", f"{MARKDOWN}\n| Dinner | 60 EUR |"),
    (
        f"{MEALS}\n\nRoom | Limit\nSingle | 120 EUR",
        f"{MARKDOWN}\n\n| Room | Limit |\n|---|---|\n| Single | 120 EUR |",
    ),
    (f"{MEALS}\n\nOr:\n\n{MEALS}", f"{MARKDOWN}\n\nOr:\n\n{MARKDOWN}"),
    (f"{MEALS}\n\n{MEALS}", f"{MARKDOWN}\n\n{MARKDOWN}"),
    # Cells that are empty or missing, and rows of one cell.
    ("a | b | c\n1 |\n| 2 | 3", "| a | b | c |\n|---|---|---|\n| 1 |  |  |\n|  | 2 | 3 |"),
    ("a | b\n | 1\n2 |", "| a | b |\n|---|---|\n|  | 1 |\n| 2 |  |"),
    ("a | b\n|\n1 | 2", "| a | b |\n|---|---|\n|  |  |\n| 1 | 2 |"),
    ("a | b\nEurope\n1 | 2", "| a | b |\n|---|---|\n| Europe |  |\n| 1 | 2 |"),
    ("Limits\na | b\n1 | 2", "Limits\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
    ("a|b | c\n1 | 2", "| a\\|b | c |\n|---|---|\n| 1 | 2 |"),
])  # fmt: skip
def test_rows_become_a_markdown_table(text: str, expected: str):
    assert format_tables(text) == expected


@each_row("text", [
    "", "No table at all.", "One line | alone", "Prose with a bar | in it.\nIt goes on,\nand on.",
    "  cat a | sort\n  cat b | sort", "$ cat a | sort\n$ cat b | sort",
    "Name = str | None\nSize = int | None", MARKDOWN,
])  # fmt: skip
def test_other_text_is_unchanged(text: str):
    assert format_tables(text) == text


@given(st.lists(st.lists(st.text("ab1|", max_size=4), min_size=1, max_size=3), max_size=6))
def test_markdown_tables_keep_all_cells(cells: list[list[str]]):
    text = "\n".join(" | ".join(row) for row in cells)
    # A blank line ends a table, and a header that the next part repeats is written once.
    assume("\n\n" not in text)

    formatted = format_tables(text)

    letters = [char for char in text if char.isalnum()]
    assert [char for char in formatted if char.isalnum()] == letters
    signs = sum(formatted.count(sign) - text.count(sign) for sign in "|-\\")
    assert added_tokens(text) == max(signs, 0)
    assert len(formatted) <= len(text) + added_characters(text)
    if "\\" not in formatted and formatted != text:
        assert [row.split() for row in unformat_rows(formatted).split("\n") if row]


@each_row("quote", [
    '"| Lunch | 40 EUR |"', '"Lunch | 40 EUR"', '"| Breakfast | 15 EUR |\n| Lunch | 40 EUR |"',
    '"| Meal | Limit |\n|---|---|\n| Breakfast | 15 EUR |"',
    "> | Meal | Limit |\n> |---|---|\n> | Breakfast | 15 EUR |", '"| 40 EUR |"',
    '"| a\\|b | c |  |"', '"| Tea |  |\n|  | 5 EUR |\n|  |  |\n| a\\|b | c |"',
])  # fmt: skip
def test_quote_of_a_markdown_row_is_verified(quote: str):
    text = f"{MEALS}\nTea |\n| 5 EUR\n|\na|b | c"
    found = check_quotes(quote, [source(text)], lambda *_: SentenceRange(0, 0)).found
    assert [one.verified for one in found] == [True]


@each_row("quote", ['"| Lunch | 15 EUR |"', '"| Lunch | 40 |  | EUR |"', '"| Lunch | 4 |"'])
def test_quote_of_a_missing_markdown_row_is_not_verified(quote: str):
    found = check_quotes(quote, [source(MEALS)], lambda *_: SentenceRange(0, 0)).found
    assert [one.verified for one in found] == [False]


def test_prompts_have_markdown_tables_if_requested():
    asked = Question("lunch?", "lunch?")
    passage = TextPassage(1, "Travel", "t.md", (), None, 0, 2, 0, len(MEALS), MEALS)
    for tables, shown in ((True, MARKDOWN), (False, MEALS)):
        mode = AnswerMode.RAG
        messages = grounded_messages(
            asked, [source(MEALS)], mode=mode, reading=False, tables=tables
        )
        assert f"Text:\n{shown}\n" in messages[1].text
        assert f"\n{shown}\n~" in render_passages([passage], tables=tables)
