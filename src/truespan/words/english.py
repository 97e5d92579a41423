"""English words: frequent ones, and irregular forms of verbs and nouns.

No stemmer brings irregular forms together. A query for one of them also finds the others. Texts
keep their words, so that a form that is also another word, such as "found" in "founded", is still
found as that word.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from truespan.words.terms import stem_function

_VERBS = """
    arise arose arisen, awake awoke awoken, bear bore, become became, beget begot begotten,
    begin began begun, behold beheld, bend bent, bind bound, bite bitten, bleed bled,
    blow blew blown, break broke broken, breed bred, bring brought, build built, burn burnt,
    buy bought, catch caught, choose chose chosen, cling clung, come came, creep crept,
    deal dealt, dig dug, draw drew drawn, dream dreamt, drink drank drunk, drive drove driven,
    dwell dwelt, eat ate eaten, fall fell fallen, feed fed, feel felt, fight fought, find found,
    flee fled, fling flung, fly flew flown, forbid forbade forbidden, foresee foresaw foreseen,
    forget forgot forgotten, forgive forgave forgiven, forsake forsook forsaken,
    freeze froze frozen, get got gotten, give gave given, go goes went gone, grow grew grown,
    hang hung, hear heard, hew hewn, hide hid hidden, hold held, keep kept, kneel knelt,
    know knew known, lay laid, lead led, leap leapt, learn learnt, leave left, lend lent,
    lie lain, light lit, lose lost, make made, mean meant, meet met, mistake mistook mistaken,
    overcome overcame, oversee oversaw overseen, overtake overtook overtaken,
    overthrow overthrew overthrown, pay paid, prove proven, rebuild rebuilt,
    rewrite rewrote rewritten, ride rode ridden, ring rang rung, rise rose risen, run ran,
    say said, see saw seen, seek sought, sell sold, send sent, sew sewn, shake shook shaken,
    shear shorn, shine shone, shoot shot, show shown, shrink shrank shrunk, sing sang sung,
    sink sank sunk, sit sat, slay slew slain, sleep slept, slide slid, sling slung, smell smelt,
    smite smote smitten, sow sown, speak spoke spoken, speed sped, spell spelt, spend spent,
    spill spilt, spin spun, spit spat, spoil spoilt, spring sprang sprung, stand stood,
    steal stole stolen, stick stuck, sting stung, stink stank stunk, strew strewn,
    stride strode stridden, strike struck stricken, string strung, strive strove striven,
    swear swore sworn, sweep swept, swell swollen, swim swam swum, swing swung, take took taken,
    teach taught, tear tore torn, tell told, think thought, throw threw thrown,
    tread trod trodden, undergo underwent undergone, understand understood,
    undertake undertook undertaken, uphold upheld, wake woke woken, wear wore worn,
    weave wove woven, weep wept, win won, withdraw withdrew withdrawn, withhold withheld,
    withstand withstood, wring wrung, write wrote written
"""
"""Base forms, each with its irregular forms.

Forms whose stem mostly means something else are left out: "bit", "borne", "ground", "wound", and
"lay" as the past of "lie".
"""

_NOUNS = """
    alumnus alumni, analysis analyses, appendix appendices, bacillus bacilli, bacterium bacteria,
    brother brethren, cactus cacti, calf calves, child children, corpus corpora, crisis crises,
    criterion criteria, curriculum curricula, diagnosis diagnoses, dwarf dwarves, elf elves,
    focus foci, foot feet, fungus fungi, ganglion ganglia, genus genera, goose geese, half halves,
    hoof hooves, hypothesis hypotheses, knife knives, leaf leaves, loaf loaves, locus loci,
    louse lice, man men, matrix matrices, metastasis metastases, millennium millennia,
    mitochondrion mitochondria, mouse mice, nucleus nuclei, oasis oases, ox oxen, penny pence,
    phenomenon phenomena, radius radii, scarf scarves, sheaf sheaves, shelf shelves,
    spectrum spectra, stimulus stimuli, stratum strata, synthesis syntheses, thief thieves,
    tooth teeth, vertex vertices, vortex vortices, wharf wharves, wife wives, wolf wolves,
    woman women
"""
"""Singulars, each with its plural. A plural whose stem is another word is left out ("theses")."""

_AMBIGUOUS = frozenset({"bore", "bound", "rose"})
"""Forms that are other words more often. Their base forms also find them, not the reverse."""


def related_terms(word: str, stemmer: str) -> tuple[str, ...]:
    """Return the terms of the other forms of a word; empty if the word is regular.

    An irregular form is recognised as a whole word, so that "founded" does not stand for "find".
    """
    forms, bases = _tables(stemmer)
    found = forms.get(word)
    return bases.get(stem_function(stemmer)(word), ()) if found is None else found


# Shared by threads: tables that are only read.
@cache
def _tables(stemmer: str) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return the related terms of each irregular form, and of the stem of each base form."""
    stem = stem_function(stemmer)
    forms: dict[str, tuple[str, ...]] = {}
    bases: dict[str, tuple[str, ...]] = {}
    entries = f"{_VERBS},{_NOUNS}".split(",") if stemmer == "english" else []
    for base, *irregular in map(str.split, entries):
        bases[stem(base)] = tuple(map(stem, irregular))
        for form in irregular:
            others = [base, *(other for other in irregular if other != form)]
            forms[form] = () if form in _AMBIGUOUS else tuple(map(stem, others))
    return forms, bases


# Shared by threads: a cache of a set of words, which never changes.
@cache
def common_words() -> frozenset[str]:
    """Return frequent English words in lower case, with their inflections."""
    return frozenset(
        files("truespan.words").joinpath("english_words.txt").read_text("utf-8").split()
    )
