"""Detection of novels in plain text."""

from tests.support.novels import CHAPTER_NAMES, PROSE, STORY, make_text
from truespan.parsing import load
from truespan.text.novel import Likeness, classify

RULES = "Every member pays the fee in the month that follows the vote. " * 12
STEPS = "Press the button marked OK and wait until the lamp is green. " * 30


def likeness_of(text: str) -> Likeness:
    return classify(load("a.txt", text.encode()).blocks)


def test_texts_with_chapters_that_tell_a_story_are_novels() -> None:
    dashes = STORY.replace("“", "").replace("”", "").replace("\n\nNo", "\n\n— No")
    files = {name: make_text(names) for name, names in CHAPTER_NAMES.items()}
    files |= {
        "with a list of contents": "CONTENTS\n\n"
        + "\n".join(f"Chapter {n}" for n in range(1, 5))
        + "\n\n\n\n"
        + make_text(["Chapter 1", "Chapter 2", "Chapter 3"]),
        "with a preface": f"PREFACE\n\n{PROSE}" + make_text(["I", "II", "III"]),
        "with dashes for speech": make_text(["Capítulo 1", "Capítulo 2", "Capítulo 3"], dashes),
        "with straight quotes": make_text(
            ["CHAPTER 1", "CHAPTER 2", "CHAPTER 3"], STORY.replace("“", '"').replace("”", '"')
        ),
        "with titles after a blank line": make_text(
            ["CHAPTER I\n\nThe Lamp", "CHAPTER II\n\nThe Boat", "CHAPTER III\n\nThe Inn"]
        ),
    }  # fmt: skip
    wrong = {name: found for name, text in files.items() if (found := likeness_of(text)) != "novel"}
    assert not wrong


def test_other_texts_with_numbers_are_not_novels() -> None:
    chapters = ["Chapter 1", "Chapter 2", "Chapter 3"]
    files = {
        "numbered sections": make_text(["1. Introduction", "2. Method", "3. Results"]),
        "numbered sections with letters": make_text(["A. Aim", "B. Method", "C. Results"]),
        "two chapters": make_text(chapters[:2]),
        "chapters that do not begin with one": make_text(["Chapter 4", "Chapter 5", "Chapter 6"]),
        "chapters in disorder": make_text(["Chapter 1", "Chapter 3", "Chapter 2", "Chapter 4"]),
        "short chapters": make_text(chapters, "“No,” she said."),
        "a syllabus": "\n\n".join(f"Chapter {n}\n\nRead pages {n}0 to {n}9." for n in range(1, 9)),
        "a list of chapters alone": "\n".join(f"Chapter {n}: The Boat" for n in range(1, 30)),
        "a law": make_text(
            ["CHAPTER I GENERAL PROVISIONS", "CHAPTER II FEES", "CHAPTER III PENALTIES"],
            "\n\n".join(f"Article {n}\n\n{RULES}" for n in range(1, 6)),
        ),
        "a law with paragraphs": make_text(
            ["PART I", "PART II", "PART III"], "\n\n".join(f"({n}) {RULES}" for n in range(1, 6))
        ),
        "rules": make_text(chapters, "\n\n".join(f"{n}. {RULES}" for n in range(1, 6))),
        "a manual": make_text(chapters, "\n\n".join(f"Step {n}\n\n{STEPS}" for n in range(1, 6))),
        "a manual with lists": make_text(chapters, f"{STEPS}\n\n- {STEPS}\n\n- {STEPS}\n\n{STEPS}"),
        "a report with figures": make_text(
            chapters, "In 2021 the fee rose by 4.5% to 120 crowns, in 2022 by 3%. " * 40
        ),
        "a paper": make_text(
            ["I. INTRODUCTION", "II. METHOD", "III. RESULTS"],
            "As Lee [3] and Berg [7, 8] have shown, the ice is thin, see Fig. 2. " * 40,
        ),
        "tables": make_text(chapters, "\n\n".join(["lamp     brass     three"] * 200)),
        "minutes": make_text(["I", "II", "III"], "\n\n".join(["The fee was agreed."] * 120)),
        "plain text": STORY * 4,
        "nothing": "A line.",
    }  # fmt: skip
    wrong = {name: found for name, text in files.items() if (found := likeness_of(text)) == "novel"}
    assert not wrong


def test_novel_needs_speech_and_is_decided_by_three_headings() -> None:
    text = make_text(["Chapter 1", "Chapter 2", "Chapter 3"], PROSE)
    assert likeness_of(text) is Likeness.CHAPTERS
    head = make_text(["Chapter 1", "Chapter 2", "Chapter 3"])
    tails = [
        "", "1. A list.\n\n2. Of 1999 and 2001.\n\n" * 400, make_text(["Chapter 9"]),
        "\n\nPART I\n\n",
    ]  # fmt: skip
    assert {likeness_of(f"{head}\n\n{tail}") for tail in tails} == {Likeness.NOVEL}
