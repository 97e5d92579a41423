"""The sample book: part of the package, and the same as the example of the documentation."""

from pathlib import Path

from truespan.extensions.server.sources import SAMPLE_NAME, sample_book

EXAMPLE = Path(__file__).parents[2] / "examples" / SAMPLE_NAME


def test_sample_book_equals_the_example() -> None:
    assert sample_book().content == EXAMPLE.read_bytes()
