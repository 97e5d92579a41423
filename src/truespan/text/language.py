"""The language of a text.

Only the first characters are read. Later text cannot change the result, and a long document costs
no more than a short one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLE = 2000
"""Characters that are read."""

_LANGUAGE_RULES = 1
"""Increase it if this module gives other results with the same detector."""
_FEWEST_LETTERS = 20
_MIN_SHARE = 0.3
"""The least probability that the most likely language must have."""
_DENSE = "\u2e80"
"""The first code point of East Asian scripts, whose letters count as three."""

_MAX_ROUNDS = 32
"""Rounds in which the features of a text are found; the longest have fewer bytes."""

_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id "
    "is it ja ka kk km kn ko ky la lo lt lv mk ml mn mr ms mt my ne nl nn no or pa pl ps pt ro ru "
    "si sk sl so sq sr sv sw ta te tg th tl tr uk ur uz vi xh yo zh zu zxx"
)
_LANGUAGES = frozenset(_CODES.split())
"""The languages that can be detected. The detector knows more, but short texts are often mistaken
for those rare ones."""
_NO_LANGUAGE = "zxx"


# Shared by threads: caches of texts.
@cache
def detector_name() -> str:
    """Return the name of the detector and its rules; another name makes a new revision."""
    from importlib.metadata import version

    return f"py3langid-{version('py3langid')}/{_LANGUAGE_RULES}"


def detect_language(text: str) -> str | None:
    """Return the code of the language that a text begins in; None if it is unclear."""
    # It is unclear with fewer than 20 letters (7 of Chinese, Japanese or Korean), or if no language
    # is clearly the most likely, as in tables and programs.
    sample = text[:SAMPLE]
    weights = (3 if char >= _DENSE else 1 for char in sample if char.isalpha())
    # Most texts have enough letters in their first words.
    if all(letters < _FEWEST_LETTERS for letters in accumulate(weights)):
        return None
    language, share = _classifier()(sample)
    # Rounded, because the last digits of a sum of floats depend on the machine.
    known = language != _NO_LANGUAGE and round(share, 3) >= _MIN_SHARE
    return language if known else None


def normal_language(code: str) -> str:
    """Return the language of a code in lower case: "en" for "en-GB", "EN" and "en_US"."""
    return code.strip().replace("_", "-").split("-")[0].lower()


# Shared by threads: a cache of one detector, whose tables are only read; a text's features are in
# variables of the call.
@cache
def _classifier() -> Callable[[str], tuple[str, float]]:
    """Return the detector, created when first needed: that takes half a second and 70 MB."""
    import numpy as np
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    whole = LanguageIdentifier.from_model_file(MODEL_FILE)
    moves = np.asarray(whole.tk_nextmove)
    rows = np.asarray(whole.tk_row).astype(np.int64) << 8
    features = np.array(whole.tk_output, np.int32)

    class Identifier(LanguageIdentifier):
        """Walks through a text with arrays, which takes less than half the time of a loop."""

        def _raw_score(self, text: bytes) -> NDArray[np.float32]:
            letters = np.frombuffer(text, np.uint8)
            before = np.zeros(len(letters), np.int64)
            # The state after each byte, first as if it were the only one, then from the state
            # before it. Nothing changes any more after as many rounds as the longest feature has
            # bytes; then each state is the one that follows from those before it.
            for _ in range(_MAX_ROUNDS):
                after = moves.take(rows.take(before) + letters)
                if (before[1:] == after[:-1]).all():
                    break
                before[1:] = after[:-1]
            else:
                return super()._raw_score(text)
            found = features.take(after)
            own, first, counts = np.unique(found[found >= 0], return_index=True, return_counts=True)
            if not len(own):
                return super()._raw_score(b"")
            # In the order of the text, in which the other way adds them up: every digit is equal.
            order = np.argsort(first)
            weights = np.log1p(counts[order].astype(np.float32))
            return weights @ self.nb_ptc.take(own[order], 0) + self.nb_pc

    # It is built with the wanted languages only; filtering them would keep all in memory.
    wanted = [place for place, code in enumerate(whole.nb_classes) if code in _LANGUAGES]
    identifier = Identifier(
        # In the order in which a text needs it: the numbers of one feature next to each other.
        np.ascontiguousarray(whole.nb_ptc[:, wanted]),
        whole.nb_pc[wanted],
        [whole.nb_classes[place] for place in wanted],
        whole.tk_nextmove,
        array("i", whole.tk_output),
        norm_probs=True,
        tk_row=whole.tk_row,
    )
    # Not as lists: each garbage collection would look at hundreds of thousands of numbers.
    setattr(identifier, "_rowbase", array("q", identifier._rowbase))  # noqa: B010
    return identifier.classify
