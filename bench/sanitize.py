"""How fast sanitising is: on prose, on a mailbox full of values, and on texts made to slow it down.

Timed is the call for each paragraph, as documents come in blocks, with all rules and without those
for phone numbers. Run it with `python -m bench.sanitize`.
"""

from __future__ import annotations

from bench.material import books
from bench.measure import cpu_seconds, medians
from bench.report import Figure, Options, Target, at_least, run, say
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.profile import Profile
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer

ROUNDS = 5
LETTER = (
    "Dear Ann, write to ann.lee{0}@example.com or call +49 30 9018{1:02} before the 14th. The card "
    "4111 1111 1111 1111 was charged 20.00 EUR from 192.168.{1}.7, and DE89 3704 0044 0532 0130 00 "
    "is the account. The order number is 12345{0}. Yours, Bob"
)
HOSTILE = ("a@", "a", "1", "1 ", ".", "-", "+1", "0f", "QUJD", "1.1.1.1.", "password:", "1.2.3.4 ")
HOSTILE_SIZE = 200_000


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return the speeds; the one on prose without phone numbers has a target."""
    texts, what = books()
    prose = [paragraph for text in texts for paragraph in text.split("\n\n")]
    letters = [LETTER.format(number, number % 100) for number in range(3000)]
    plain, full = (
        Sanitizer(Mode.ON, profile=Profile(without=frozenset({"PHONE"}))),
        Sanitizer(Mode.ON),
    )
    seconds = medians(
        {
            "prose": lambda: sanitise(plain, prose),
            "prose, phones": lambda: sanitise(full, prose),
            "whole": lambda: sanitise(plain, texts),
            "letters": lambda: sanitise(plain, letters),
            "letters, phones": lambda: sanitise(full, letters),
        },
        ROUNDS,
    )
    sizes = {"prose": megabytes(prose), "whole": megabytes(texts), "letters": megabytes(letters)}
    say(f"{what}, {sizes['prose']:.1f} MB in {len(prose)} paragraphs, CPU time, {ROUNDS} rounds")
    say(f"{sum(sanitise(full, prose))} findings in it, {sum(sanitise(full, letters))} in letters")
    speed = {name: sizes[name.split(",")[0]] / taken for name, taken in seconds.items()}
    return [
        figure("prose without phone numbers", speed["prose"], at_least(5.0)),
        figure("prose", speed["prose, phones"], None),
        figure("whole books without phone numbers", speed["whole"], None),
        figure("letters full of values, without phone numbers", speed["letters"], None),
        figure("letters full of values", speed["letters, phones"], None),
        figure("the slowest of the hostile texts", slowest(full), None),
    ]


def sanitise(sanitizer: Sanitizer, texts: list[str]) -> list[int]:
    """Sanitise each text, and return how much was found in each."""
    return [sanitizer.apply(text).counts.total() for text in texts]


def slowest(sanitizer: Sanitizer) -> float:
    """Return the speed on the hostile text that takes longest."""
    texts = {unit: unit * (HOSTILE_SIZE // len(unit)) for unit in HOSTILE}
    taken = {unit: cpu_seconds(lambda t=text: sanitizer.apply(t)) for unit, text in texts.items()}
    unit = max(taken, key=lambda unit: taken[unit])
    say(f"of {len(HOSTILE)} hostile texts, {unit!r} again and again is the slowest")
    return HOSTILE_SIZE / 1e6 / taken[unit]


def megabytes(texts: list[str]) -> float:
    """Return how much text there is."""
    return sum(len(text.encode()) for text in texts) / 1e6


def figure(what: str, speed: float, target: Target | None) -> Figure:
    """Return one speed."""
    return Figure(f"sanitising {what}", speed, "MB/s", target=target)


if __name__ == "__main__":
    run("bench.sanitize", __doc__, measure)
