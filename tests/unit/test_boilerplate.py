"""Detection of boilerplate."""

from tests.promises import proves
from truespan.text.boilerplate import is_boilerplate

LICENCE = [
    "The Project Gutenberg eBook of The Quay\n\nTitle: The Quay\n\nAuthor: Ann Other",
    "Title: The Quay\n\n*** START OF THIS PROJECT GUTENBERG EBOOK THE QUAY ***",
    "*** END OF THE PROJECT GUTENBERG EBOOK THE QUAY ***\n\nNew editions replace this one.",
    "*** START: FULL LICENSE ***\n\nTHE FULL PROJECT GUTENBERG LICENSE\n\nPlease read this.",
    "1.B. “Project Gutenberg” is a registered trademark. See paragraph 1.C below.",
    "People who paid for a Project\nGutenberg-tm electronic work may ask for their money.",
    "1.F.4. Beyond the refund of paragraph 1.F.3 there are no warranties of any kind.",
    "Gifts to the Project Gutenberg Literary Archive Foundation.\n\nDonations and copyright.",
]
CONTENTS = [
    "CONTENTS\n\nThe Quay\n\nThe Boat\n\nThe Door\n\nThe End",
    "CHAPTER I. The Quay\n\nCHAPTER II. The Boat\n\nCHAPTER III. The Door",
    "The Quay ........ 3\nThe Boat ........ 17\nThe Door ........ 29",
]
PAGES = ["12", "- 12 -", "Page 3 of 40", "iv\n\nv\n\nvi"]
TEXT = [
    "",
    "The porter swept the long quay. A brass key hung on the seventh hook.",
    "Project Gutenberg was founded in 1971 and has more than 70,000 books. Most are novels.",
    "All warranties are disclaimed. For a defect no refund is given, but a replacement copy.",
    "Chapter 1 was short.\nIt rained all day.\nNobody came to the quay.\nThen it was night.",
    "Anna Smith\nBob Jones\nCarla Brown\nDan White",
    "1. Open the lid.\n2. Fill in water.\n3. Close it again.",
    "Sales 2020\nSales 2021\nSales 2022",
    "3.14159 is near enough.",
    "So it went on, and on. " * 40 + "\n\nEnd of Project Gutenberg’s The Quay, by Ann Other",
    "It was dark.\n\n*** START OF THE PROJECT GUTENBERG EBOOK THE QUAY ***\n\n"
    + "Rain fell. " * 40,
]


@proves("retrieval.boilerplate-last")
def test_boilerplate_is_detected_from_the_text_alone() -> None:
    missed = [text for text in (*LICENCE, *CONTENTS, *PAGES) if not is_boilerplate(text)]
    taken = [text for text in TEXT if is_boilerplate(text)]
    assert (missed, taken) == ([], [])


def test_boilerplate_detection_takes_linear_time() -> None:
    # Patterns that go back and forth would not end on these.
    for text in ("project gutenberg " * 50_000, "1.A. " * 100_000, "\n" * 200_000, "x" * 10**6):
        is_boilerplate(text)
