"""Checks of a model's reply, which extensions add: what they get, and what they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from truespan.answers.quotes import Locate, Quotes
from truespan.tables import import_member, tables
from truespan.types.answer import Citation, Support
from truespan.types.bundle import Notice
from truespan.types.profile import Distance
from truespan.types.trust import Visible
from truespan.types.vectors import Vector, similarity_of

MAX_EMBEDDED = 96
"""Maximum number of texts that are embedded for one answer; others count as not similar."""
UNCHECKED = Notice(
    "reply_not_checked",
    "Whether the sources support the answer was not checked: no support check is installed.",
)
_SPACE = re.compile(r" (?=[.,;:!?])")
"""Space that a removed citation leaves before punctuation."""


class Comparison(Struct, frozen=True):
    """Comparison of sentences by similarity; from `floor` on, two sentences say the same.

    One comparison serves one answer, because it keeps the vectors.
    """

    embed: Callable[[Sequence[str]], Sequence[Vector]]
    floor: float
    distance: Distance = Distance.COSINE
    vectors: dict[str, Vector] = field(default_factory=dict)

    def similarity(self, text: str, others: Sequence[str]) -> float:
        """Return the similarity of a text to the most similar of others; 0 past `MAX_EMBEDDED`."""
        wanted = [_SPACE.sub("", " ".join(each.split())) for each in (text, *others)]
        new = [each for each in dict.fromkeys(wanted) if each not in self.vectors]
        if len(self.vectors) + len(new) > MAX_EMBEDDED:
            return 0.0
        if new:
            self.vectors.update(zip(new, self.embed(new), strict=True))
        own, *rest = (self.vectors[each] for each in wanted)
        return max((similarity_of(own, other, self.distance) for other in rest), default=0.0)


class CheckedReply(Struct, frozen=True):
    """A model's reply, with its sources, citations and quotes."""

    text: str
    sources: Sequence[Visible]
    citations: Sequence[Citation]
    quotes: Quotes
    question: str
    locate: Locate
    comparison: Comparison | None = None
    """Comparison of sentences by similarity; None compares words only."""


class CheckResult(Struct, frozen=True):
    """Result of one check of a reply."""

    warnings: tuple[Notice, ...] = ()
    support: Support | None = None


def check_reply(reply: CheckedReply) -> CheckResult:
    """Run all installed checks; a reply without a support check gets a warning."""
    results = [import_member(path)(reply) for path in tables().answer_checks.values()]
    warnings = tuple(warning for result in results for warning in result.warnings)
    support = next((result.support for result in results if result.support is not None), None)
    return CheckResult(warnings if support is not None else (*warnings, UNCHECKED), support)
