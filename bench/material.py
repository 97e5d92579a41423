"""What is measured on: public-domain books where they are at hand, else prose made up by seed."""

from __future__ import annotations

import random
from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = 3000
SENTENCES_PER_PARAGRAPH = 5


def shared_data(name: str) -> Path | None:
    """Return `shared/data/<name>` beside a folder that the project lies in; None if absent."""
    for folder in Path(__file__).resolve().parents:
        found = folder / "shared" / "data" / name
        if found.is_dir():
            return found
    return None


def books() -> tuple[list[str], str]:
    """Return whole books, and what they are."""
    folder = shared_data("books")
    if folder is None:
        prose = Prose(seed=3)
        return [prose.text(paragraphs=1000) for _ in range(6)], "made-up prose"
    paths = sorted(folder.glob("*.txt"))
    return [path.read_text(encoding="utf-8") for path in paths], f"{len(paths)} novels"


class Prose:
    """Sentences of words that mean nothing; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = [self._word() for _ in range(WORDS)]

    @property
    def vocabulary(self) -> list[str]:
        """Return the words that sentences are made of."""
        return list(self._words)

    def sentence(self) -> str:
        """Return one sentence of 6 to 20 words."""
        words = self._random.choices(self._words, k=self._random.randint(6, 20))
        return " ".join(words).capitalize() + "."

    def paragraph(self) -> str:
        """Return sentences in a row."""
        return " ".join(self.sentence() for _ in range(SENTENCES_PER_PARAGRAPH))

    def text(self, paragraphs: int) -> str:
        """Return paragraphs with empty lines between them."""
        return "\n\n".join(self.paragraph() for _ in range(paragraphs))

    def write_files(self, folder: Path, files: int, paragraphs: int) -> None:
        """Fill a new folder with text files."""
        folder.mkdir()
        for number in range(files):
            (folder / f"{number:05}.txt").write_text(self.text(paragraphs))

    def _word(self) -> str:
        return "".join(self._random.choices(LETTERS, k=self._random.randint(2, 9)))
