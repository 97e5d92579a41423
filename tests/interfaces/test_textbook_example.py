"""The example application for textbooks: it serves, uploads, and answers about a marked passage."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "textbook_assistant.py"


def test_textbook_assistant_finds_marked_passage_and_question(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "library")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    marked, asked, chapter = ran.stdout.split("]\n")[1:]
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 100
    for part in (marked, asked):
        assert part.startswith("  marked in optics.md, Chapter 3: The eye, Near and far\n")
    assert "a ring of muscle lets the lens bulge" in marked
    assert asked.splitlines()[1].startswith("  Chapter 3: The eye: With age the lens stiffens")
    assert chapter
    assert all(line.startswith("  Chapter 2: Lenses: ") for line in chapter.splitlines())
