"""The language of a text, told from its beginning.

Only the first characters are looked at. What follows them cannot change the answer, and a long
document costs no more than a short one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

SAMPLE = 2000
"""How many characters from the beginning of a text are looked at."""

_RULES = 1
"""Raised whenever this module would answer otherwise with the same detector."""
_FEWEST_LETTERS = 20
_LEAST_SHARE = 0.3
"""The share of all probability that the most likely language must have."""
_DENSE = "\u2e80"
"""From here on lie the scripts of East Asia, of which a letter says about as much as three."""

_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id "
    "is it ja ka kk km kn ko ky la lo lt lv mk ml mn mr ms mt my ne nl nn no or pa pl ps pt ro ru "
    "si sk sl so sq sr sv sw ta te tg th tl tr uk ur uz vi xh yo zh zu zxx"
)
_LANGUAGES = frozenset(_CODES.split())
"""What a text can be found to be. The rare ones that the detector knows besides are so close to
these that short texts are often taken for them."""
_NO_LANGUAGE = "zxx"


@cache
def detector() -> str:
    """Return the name of the detector and its rules; another name may mean another language."""
    from importlib.metadata import version

    return f"py3langid-{version('py3langid')}/{_RULES}"


def detect_language(text: str) -> str | None:
    """Return the code of the language that a text begins in; None when that cannot be told.

    It cannot be told from fewer than 20 letters (of Chinese, Japanese or Korean, from fewer than
    7), nor where no language is clearly the likeliest, as in tables and programs.
    """
    sample = text[:SAMPLE]
    if _letters(sample) < _FEWEST_LETTERS:
        return None
    language, share = _classifier()(sample)
    # Rounded, for the last digits of a sum of floats are those of a machine.
    known = language != _NO_LANGUAGE and round(share, 3) >= _LEAST_SHARE
    return language if known else None


def normal_language(code: str) -> str:
    """Return the language of a code alone, in lower case: "en" for "en-GB", "EN" and "en_US"."""
    return code.strip().replace("_", "-").split("-")[0].lower()


def _letters(sample: str) -> int:
    return sum(3 if char >= _DENSE else 1 for char in sample if char.isalpha())


@cache
def _classifier() -> Callable[[str], tuple[str, float]]:
    """Return the detector, made when it is first needed: that takes half a second and 70 MB.

    It is made anew with the languages that are wanted: one told to leave out the others would keep
    them in memory.
    """
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    whole = LanguageIdentifier.from_model_file(MODEL_FILE)
    wanted = [place for place, code in enumerate(whole.nb_classes) if code in _LANGUAGES]
    return LanguageIdentifier(
        whole.nb_ptc[:, wanted],
        whole.nb_pc[wanted],
        [whole.nb_classes[place] for place in wanted],
        whole.tk_nextmove,
        whole.tk_output,
        norm_probs=True,
        tk_row=whole.tk_row,
    ).classify
