"""Language detection.

Only the first characters are read, so later text cannot change the result, and the cost does not
grow with the length of a document. Ordinary English is recognised by its most frequent words, which
saves loading the detector.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache
from itertools import accumulate

SAMPLE = 2000
"""Number of characters that are read."""

_LANGUAGE_RULES = 4
"""Increase it if documents get another language with the same detector."""
_MIN_LETTERS = 20
_MIN_SHARE = 0.3
"""Minimum probability of the most likely language."""
_DENSE = "\u2e80"
"""The first code point of East Asian scripts, whose letters count as three."""

_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id "
    "is it ja ka kk km kn ko ky la lo lt lv mk ml mn mr ms mt my ne nl nn no or pa pl ps pt ro ru "
    "si sk sl so sq sr sv sw ta te tg th tl tr uk ur uz vi xh yo zh zu zxx"
)
_LANGUAGES = frozenset(_CODES.split())
"""Languages that can be detected. The detector knows more, but it often assigns short texts to
those rare languages."""
_NO_LANGUAGE = "zxx"

_ENGLISH = frozenset(
    """a all an and are as at be been but by can for from had has have he her his i if in is it its
    my not of on or she that the their there they this to was we were when which who will with
    would you""".split()  # noqa: SIM905 -- a list of quoted words is no list of words
)
"""The most frequent English words."""
_MIN_ENGLISH = 0.25
"""Minimum share of these words in an English text. With the share in its quarters, 199 in 200
passages of novels have it, and three in four abstracts of articles."""
_MIN_IN_QUARTER = 0.2
"""Minimum share in each quarter. Of 633 texts of sentences in English and another language that
have both shares, the detector took one for Turkish and the others for English."""
_MIN_WORDS = 32
_LAST_LATIN = "\u024f"


# Shared by threads: caches of texts.
@cache
def detector_name() -> str:
    """Return the name of the detector and its rules; another name makes a new revision."""
    from importlib.metadata import version

    return f"py3langid-{version('py3langid')}/{_LANGUAGE_RULES}"


def detect_language(text: str) -> str | None:
    """Return the language code of the beginning of a text; None if it is unclear.

    It is unclear with fewer than 20 letters (7 of Chinese, Japanese or Korean), or if no language
    is clearly the most likely, as in tables and source code.
    """
    sample = text[:SAMPLE]
    weights = (3 if char >= _DENSE else 1 for char in sample if char.isalpha())
    # Lazy: most texts have enough letters in their first words.
    if all(letters < _MIN_LETTERS for letters in accumulate(weights)):
        return None
    if _is_ordinary_english(sample):
        return "en"
    language, share = _classifier()(sample)
    # Rounded, because the last digits of a sum depend on the machine.
    known = language != _NO_LANGUAGE and round(share, 3) >= _MIN_SHARE
    return language if known else None


def _is_ordinary_english(text: str) -> bool:
    """Return whether a text is English beyond doubt; False if only the detector can tell."""
    if not text.isascii() and any(char > _LAST_LATIN and char.isalpha() for char in text):
        return False
    common = [word in _ENGLISH for word in text.lower().split()]
    size = len(common) // 4
    if 4 * size < _MIN_WORDS or sum(common) < _MIN_ENGLISH * len(common):
        return False
    quarters = (common[start : start + size] for start in range(0, 4 * size, size))
    return all(sum(part) >= _MIN_IN_QUARTER * size for part in quarters)


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
    # Built with the supported languages only, to save memory.
    wanted = [place for place, code in enumerate(whole.nb_classes) if code in _LANGUAGES]
    identifier = LanguageIdentifier(
        np.ascontiguousarray(whole.nb_ptc[:, wanted]),
        whole.nb_pc[wanted],
        [whole.nb_classes[place] for place in wanted],
        whole.tk_nextmove,
        array("i", whole.tk_output),
        norm_probs=True,
        tk_row=whole.tk_row,
    )
    # An array instead of a list, so that garbage collections need not scan it.
    setattr(identifier, "_rowbase", array("q", identifier._rowbase))  # noqa: B010
    return identifier.classify
