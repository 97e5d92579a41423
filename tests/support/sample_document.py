"""One text with every kind of content, from which real programs make files for the tests.

Every word of a note, a box or a picture's description occurs only there, so that it can be
distinguished from other text at any place. Numbers of the text have more than one digit: single
ones are the marks of lists and notes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.support.word_diff import words_of


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is a chapter."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph. Stars set words apart, and `^` is where the mark of its note stands."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    """A quotation of another author."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that must stay unchanged."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list; an item may have items."""

    items: Sequence[tuple[str, Sequence[str]]]
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first row is the head."""

    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture between two paragraphs."""

    alt: str


@dataclass(frozen=True, slots=True)
class Box:
    """A text box attached to the paragraph before it. Only some programs can make one."""

    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A paragraph under review: `kept`, words put in, `kept`, words struck out, `kept`."""

    parts: tuple[str, str, str, str, str]

    @property
    def accepted(self) -> str:
        """Return the paragraph with its changes accepted."""
        first, put_in, second, _, last = self.parts
        return first + put_in + second + last


Piece = Heading | Paragraph | Quote | Code | Items | Table | Picture | Box | Change

TITLE = "Handbook for the Keepers of Vael Rock"
AUTHOR = "Orla Tamsin"

PIECES: tuple[Piece, ...] = (
    Heading(1, "The Lamp"),
    Paragraph(
        "The lamp on Vael Rock was lit for the first time in the winter of 1871, when forty-two"
        " fishing boats lay in the bay and none of them dared to leave it. Since then the light has"
        " failed on eleven nights. Each of those nights has a page of its own in the book of the"
        " watch,^ and whoever reads them in one sitting will understand why this handbook exists.",
        note="Volumes until 1903 perished; transcripts survive upstairs.",
    ),
    Paragraph(
        "A keeper does three things: he trims the wick, he winds the clockwork, and he writes down"
        " what he has seen. None of this is *difficult*. All of it is difficult at four in the"
        " morning, in fog, after a week with*out* sleep, and that is the hour for which these pages"
        " were written. Read them by day; at night you will only remember what your hands know."
    ),
    Heading(2, "Trimming the wick"),
    Paragraph(
        "Cut the charred edge straight across, never at an angle, because a slanting flame blackens"
        " one side of the glass. Before each lighting, see to these:"
    ),
    Items(
        (
            ("the oil stands above the brass line", ()),
            (
                "the chimney is dry",
                ("wipe it with linen", "hold it against daylight and look for cracks"),
            ),
            ("the spare wick lies within reach", ()),
        )
    ),
    Paragraph("Then light it in this order and in no other:"),
    Items(
        (
            ("open the damper by a quarter", ()),
            ("touch the flame to the windward side", ()),
            ("close the damper once the flame has settled", ()),
        ),
        numbered=True,
    ),
    Heading(2, "Winding the clockwork"),
    Paragraph(
        "The weight needs three hundred and ten minutes to sink from the gallery to the floor. Wind"
        " it every five hours, even when it seems a waste of effort: the last turns before the"
        " floor are slower than they should be, and a captain who counts the seconds between two"
        " flashes will take us for another rock.^",
        note="Gannet Skerry blinks likewise, though northwards.",
    ),
    Picture("Sketched cogwheels beneath pendulum housing"),
    Paragraph("After the winding, let go of the handle slowly and listen for the click."),
    Heading(1, "The Watch"),
    Quote(
        "The sea does not lie, but it says many things at the same time, and it never says them"
        " again. Write first, and think about it afterwards."
    ),
    Paragraph(
        "So wrote the second keeper on the inside of a cupboard door, where it may still be read."
        " The following table shows what is written down, and how often."
    ),
    Heading(2, "What is written down"),
    Table(
        (
            ("Observation", "Every", "Unit"),
            ("Height of the tide", "30 minutes", "centimetres"),
            ("Wind", "60 minutes", "knots and compass point"),
            ("Ships in sight", "at each change", "name, course, lights shown"),
            ("Oil burned", "12 hours", "litres"),
        )
    ),
    Paragraph(
        "Where a number cannot be read, leave the field empty. A guess looks like knowledge to"
        " whoever comes after you, and it is the empty field that will make him ask."
    ),
    Heading(2, "The machine in the store room"),
    Paragraph("Since 1998 a small machine adds up the columns. Its whole program is this:"),
    Code(
        'def burned(readings):\n    """Litres since the last filling."""\n'
        "    total = 0.0\n    for reading in readings:\n"
        "        total += max(0.0, reading)\n    return total"
    ),
    Paragraph("It has never been wrong, and it has never noticed anything either."),
    Heading(1, "Visitors"),
    Paragraph(
        "Boats from abroad call at the rock every summer. The following notices hang at the landing"
        " stage; they all say the same, and they were written by people who spoke the language at"
        " home."
    ),
    Heading(2, "Deutsch"),
    Paragraph(
        "Bitte betreten Sie den Leuchtturm nur mit Wärterin oder Wärter. Die Stufen sind naß und"
        " größtenteils älter als unsere Großväter; für verlorene Hüte übernehmen wir keine Haftung."
    ),
    Heading(2, "Français"),
    Paragraph(
        "Défense d’entrer sans le gardien. Les marches sont glissantes, l’été comme l’hiver, et"
        " l’œil du phare n’aime pas qu’on le réveille : « Ne touchez à rien », a dit ma grand-mère."
    ),
    Heading(2, "Ελληνικά"),
    Paragraph(
        "Παρακαλούμε μην ανεβαίνετε στον φάρο χωρίς τον φύλακα. Τα σκαλοπάτια γλιστρούν και η θέα"
        " μπορεί να περιμένει λίγο ακόμη."
    ),
    Heading(2, "Русский"),
    Paragraph(
        "Просим не подниматься на маяк без смотрителя. Ступени скользкие, ёлки растут далеко, а"
        " берег виден только в ясную погоду."
    ),
    Heading(2, "中文"),
    Paragraph("没有守塔人的陪同，请勿登上灯塔。台阶湿滑，请扶好栏杆。从塔顶可以看见整个海湾。"),
    Heading(2, "العربية"),
    Paragraph(
        "يرجى عدم الصعود إلى المنارة دون الحارس."
        " الدرجات زلقة والبحر عميق، والمنظر جميل من الأسفل أيضا."
    ),
    Heading(1, "Leaving the Rock"),
    Paragraph(
        "A keeper leaves when the next one has lit the lamp three times without help. He hands over"
        " the keys, the book and the cat, in that order, and he does not look back before the boat"
        " has passed the outer buoy."
    ),
)
"""What every program is given."""

REVIEWED: tuple[Piece, ...] = (
    Heading(1, "Amendments"),
    Change(
        (
            "The stores are counted on the first of each month",
            " and once more before the autumn gales", "; what is missing is ordered",
            " from the mainland by pigeon", " by the next boat.",
        )
    ),
    Paragraph("Beside the door of the engine room hangs a plate of enamel."),
    Box("Mind thy fingers, apprentice: unguarded flywheel!"),
    Paragraph("It has been there for longer than the engine."),
)  # fmt: skip
"""What only a word processor can make."""

_NOTE_MARK = re.compile(r"\[[0-9]\]|(?<=[a-z][.,])[0-9](?!\S)|(?<!\S)[0-9](?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Told:
    """The expected words of pieces: the running text, and words that may be elsewhere."""

    body: list[str]
    notes: list[str] = field(default_factory=list)
    boxes: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)


def told(pieces: Sequence[Piece]) -> Told:
    """Return the words of a title page and of pieces in reading order."""
    words = Told(body=words_of(f"{TITLE} {AUTHOR}"))
    for piece in pieces:
        words.body.extend(words_of(" ".join(_running(piece))))
        if isinstance(piece, Paragraph):
            words.notes.extend(words_of(piece.note))
        elif isinstance(piece, Box):
            words.boxes.extend(words_of(piece.text))
        elif isinstance(piece, Change):
            words.struck.extend(words_of(piece.parts[3]))
    return words


def shown_words(text: str) -> list[str]:
    """Return the words that a loader found, without the marks of items and notes.

    Most formats put the mark of a note against the word before it, some against the one after it.
    """
    words = words_of(_NOTE_MARK.sub(" ", text))
    return [word for word in words if not re.fullmatch("[0-9]", word)]


def _running(piece: Piece) -> Iterator[str]:
    match piece:
        case Paragraph(text):
            yield text.replace("*", "").replace("^", "")
        case Items(items):
            for item, inner in items:
                yield item
                yield from inner
        case Table(rows):
            for row in rows:
                yield from row
        case Change():
            yield piece.accepted
        case Heading(_, text) | Quote(text) | Code(text):
            yield text
