"""Which wrong sentences the support check marks, and which right ones it marks by mistake.

The sentences and their passages are in `bench/support_cases`, written by hand. Those of `choose`
chose the settings of the check, those of `held_out` did not. Run it with
`python -m bench.support_check`; `--full` lists every mistake, and precision and recall by floor.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import asdict

from bench.report import Figure, Options, run, say
from truespan.answers.checks import Comparison
from truespan.extensions.checks.support.check import check_support
from truespan.extensions.models.multilingual import MultilingualEmbedder
from truespan.providers.local import LocalEmbedder, LocalModel
from truespan.providers.onnx_embedder import OnnxEmbedder
from truespan.types.answer import Support
from truespan.types.chunk import ChunkKind, SourceLabels
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import support_floor
from truespan.types.trust import Visible
from truespan.types.vectors import Vector

CASES = Path(__file__).parent / "support_cases"
SETS = ("choose", "held_out")


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence about some passages, and whether they support it."""

    subject: str
    kind: str
    right: bool
    sentence: str
    passages: tuple[Visible, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A case, and what the check says of it."""

    case: Case
    support: Support

    @property
    def marked(self) -> bool:
        """Whether the sentence is marked as not supported."""
        return self.support.supported < self.support.claims


@dataclass(frozen=True, slots=True)
class Rates:
    """How many wrong and right sentences there are, and how many of each were marked."""

    wrong: int
    caught: int
    right: int
    blamed: int

    @property
    def precision(self) -> float:
        """Return the share of marked sentences that are wrong."""
        marked = self.caught + self.blamed
        return self.caught / marked if marked else 1.0

    @property
    def recall(self) -> float:
        """Return the share of wrong sentences that are marked."""
        return self.caught / self.wrong if self.wrong else 1.0

    @property
    def balance(self) -> float:
        """Return the harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def read_cases(name: str) -> list[Case]:
    """Return the cases of a set, `choose` or `held_out`."""
    subjects = tomllib.loads((CASES / f"{name}.toml").read_text("utf-8"))["subject"]
    return [
        Case(subject["name"], kind, right, sentence, _passages(subject))
        for subject in subjects
        for kind, right, sentence in subject["cases"]
    ]


def _passages(subject: dict[str, list[str]]) -> tuple[Visible, ...]:
    labels = SourceLabels(source_url="", address="", path="", language=None, version="1.0", tags=())
    return tuple(
        Visible(
            chunk_id=ChunkId(f"chunk {number}"),
            document=number,
            source="",
            title="",
            revision=1,
            index=0,
            start=0,
            end=len(text),
            first_sid=0,
            last_sid=0,
            chapter="",
            section="",
            kind=ChunkKind.TEXT,
            text=text,
            text_hash=TextHash(""),
            tokens=0,
            score=0.7,
            **asdict(labels),
        )
        for number, text in enumerate(subject["passages"], 1)
    )


class Similarity:
    """Embeds sentences with a model, each once."""

    def __init__(self, embedder: OnnxEmbedder) -> None:
        self.embedder = embedder
        self.known: dict[str, Vector] = {}

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of some texts."""
        new = [text for text in texts if text not in self.known]
        if new:
            self.known.update(zip(new, self.embedder.embed_documents(new), strict=True))
        return [self.known[text] for text in texts]

    def comparison(self, floor: float | None = None) -> Comparison:
        """Return a comparison for one answer, with the floor in use or another one."""
        measured = support_floor(self.embedder.profile) if floor is None else floor
        return Comparison(self.embed, 1.0 if measured is None else measured)


def check(
    cases: Iterable[Case], model: Similarity | None = None, floor: float | None = None
) -> list[Result]:
    """Return what the check says of each case, by words and, with a model, by similarity."""
    return [
        Result(
            case,
            check_support(
                case.sentence,
                case.passages,
                comparison=model.comparison(floor) if model else None,
            ),
        )
        for case in cases
    ]


def rates_of(results: Sequence[Result]) -> Rates:
    """Return how many sentences were marked, of the wrong and of the right ones."""
    wrong = [result.marked for result in results if not result.case.right]
    right = [result.marked for result in results if result.case.right]
    return Rates(len(wrong), sum(wrong), len(right), sum(right))


def print_rates(name: str, results: Sequence[Result]) -> None:
    """Print the share of marked sentences by kind, then precision and recall of the whole."""
    whole = rates_of(results)
    say(f"{name}: {len(results)} sentences")
    for right, heading in ((False, "wrong, marked"), (True, "right, marked by mistake")):
        kinds = dict.fromkeys(each.case.kind for each in results if each.case.right is right)
        say(f"  {heading}")
        for kind in kinds:
            own = [each.marked for each in results if each.case.kind == kind]
            say(f"    {kind:<12}{sum(own):>4} of {len(own)}")
    say(f"  precision {whole.precision:.3f}, recall {whole.recall:.3f}")


def print_mistakes(results: Sequence[Result]) -> None:
    """Print every sentence that is marked by mistake, or not marked and wrong."""
    for result in results:
        if result.marked == result.case.right:
            for part in result.support.sentences or (None,):
                why = "" if part is None else f"{[*map(str, part.reasons)]} {list(part.missing)}"
                case = result.case
                say(f"    {case.subject}, {case.kind}: {case.sentence} {why}")


def measure(options: Options) -> list[Figure]:
    """Return precision and recall of both sets, in per cent, by words and with similarity."""
    model = Similarity(LocalEmbedder(LocalModel()))
    other = Similarity(MultilingualEmbedder())
    figures: list[Figure] = []
    for label, chosen in (
        ("words", None),
        ("words and similarity", model),
        ("words and similarity of the multilingual model", other),
    ):
        for name in SETS:
            results = check(read_cases(name), chosen)
            print_rates(f"{name}, {label}", results)
            if options.full:
                print_mistakes(results)
            rates = rates_of(results)
            figures += [
                Figure(f"support, {name}, by {label}: precision", 100 * rates.precision, "%"),
                Figure(f"support, {name}, by {label}: recall", 100 * rates.recall, "%"),
            ]
    tried = [(model, place) for place in range(68, 81)]
    tried += [(other, place) for place in range(36, 61, 2)]
    for chosen, place in tried if options.full else ():
        found = rates_of(check(read_cases("choose"), chosen, place / 100))
        say(
            f"choose, {chosen.embedder.profile.provider}, floor {place / 100:.2f}: precision "
            f"{found.precision:.3f}, recall {found.recall:.3f}, both {found.balance:.3f}"
        )
    return figures


if __name__ == "__main__":
    run("bench.support_check", __doc__, measure)
