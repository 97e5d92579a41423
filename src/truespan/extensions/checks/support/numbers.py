"""Numbers, dates and times of a text, normalised so that two texts can be compared.

    "1,000 metres" = "1000 m" = "one thousand meters" = "1 km"
    "12 March 1889" = "March 12th, 1889" = "1889-03-12"

A text is read once, from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct


def word_list(words: str) -> list[str]:
    return words.split()


class Number(Struct, frozen=True):
    """A number in a text, with all its possible meanings.

    `values` are its readings: "1.000" is one or a thousand. `dimension` and `factor` describe its
    unit; `dimension` is empty without a known unit.
    """

    start: int
    end: int
    values: frozenset[float | str]
    dimension: str = ""
    factor: float = 1.0
    implied: bool = False
    """Whether the number is only possibly meant, as by "half" or "a week"; it proves no fault."""
    hedge: str = ""
    """The hedge before the number: `about`, `over`, `under`, or empty."""


_UNIT_TABLE = """
    length 0.001 mm millimetre millimetres millimeter millimeters
    length 0.01 cm centimetre centimetres centimeter centimeters zentimeter
    length 1 m metre metres meter meters mètre mètres metro metros metri
    length 1000 km kilometre kilometres kilometer kilometers kilomètre kilomètres kilómetros
    length 1000 chilometri quilômetros
    inch 1 inch inches
    inch 12 ft foot feet
    inch 36 yd yard yards
    inch 63360 mi mile miles meilen milles millas miglia
    mass 0.001 mg milligram milligrams milligramme milligrammes
    mass 1 g gram grams gramme grammes gramm gramos grammi
    mass 1000 kg kilo kilos kilogram kilograms kilogramme kilogrammes kilogramm
    mass 1e6 tonne tonnes t ton tons tonnen toneladas tonnellate
    ounce 1 oz ounce ounces
    pound 1 lb lbs pound pounds £ gbp pfund livres libras
    time 0.001 ms millisecond milliseconds
    time 1 s sec secs second seconds sekunde sekunden seconde secondes segundos secondi
    time 60 min mins minute minutes minuten minutos minuti
    time 3600 h hr hrs hour hours stunde stunden heure heures horas ore uren
    time 86400 day days tag tage tagen jour jours días giorni dias dagen
    time 604800 week weeks woche wochen semaine semaines semanas settimane weken
    month 1 month months monat monate monaten mois meses mesi maanden
    month 12 year years yr yrs jahr jahre jahren an ans année années años anni anos jaar
    month 120 decade decades jahrzehnt jahrzehnte
    month 1200 century centuries jahrhundert jahrhunderte
    percent 1 % percent pct prozent pourcent procent
    celsius 1 °c celsius
    fahrenheit 1 °f fahrenheit
    kelvin 1 kelvin kelvins
    degree 1 ° degree degrees grad
    dollar 1 $ usd dollar dollars dólares
    dollar 0.01 cent cents
    euro 1 € eur euro euros
    yen 1 ¥ jpy yen
    franc 1 franc francs franken chf
    crown 1 crowns kronen kroner kronor
    rupee 1 ₹ rupee rupees
    volume 0.001 ml millilitre millilitres milliliter milliliters
    volume 1 l litre litres liter liters litros litri
    pint 1 pint pints
    pint 8 gallon gallons
    hectare 1 ha hectare hectares hektar
    acre 1 acre acres
    area 1 m² m2
    area 1e6 km² km2
    speed 1 km/h kph kmh
    mph 1 mph
    knot 1 kn knot knots knoten
    power 1 w watt watts
    power 1e3 kw kilowatt kilowatts
    power 1e6 mw megawatt megawatts
    power 1e9 gw gigawatt gigawatts
    energy 1 kwh
    energy 1e3 mwh
    volt 1 v volt volts
    volt 1e3 kv kilovolt kilovolts
    ampere 1 amp amps ampere amperes
    frequency 1 hz hertz
    frequency 1e3 khz kilohertz
    frequency 1e6 mhz megahertz
    frequency 1e9 ghz gigahertz
    bytes 1 byte bytes
    bytes 1e3 kb kilobyte kilobytes
    bytes 1e6 mb megabyte megabytes
    bytes 1e9 gb gigabyte gigabytes
    bytes 1e12 tb terabyte terabytes
    pressure 1 bar bars
    pascal 1 pa pascal
    pascal 1e3 kpa kilopascal
    calorie 1 kcal calories calorie
"""
UNITS: dict[str, tuple[str, float]] = {
    name: (dimension, float(factor))
    for dimension, factor, *names in map(str.split, _UNIT_TABLE.strip().splitlines())
    for name in names
}
"""The dimension and the factor of each unit."""
_CASED_UNITS = frozenset("mgtshlwv")
"""Units of one letter; in upper case these letters mean something else."""

_SCALES = {
    **dict.fromkeys(word_list("thousand k tausend mille mil mila duizend"), 1e3),
    **dict.fromkeys(
        word_list("million millions mn mio millionen millón millones milioni milhões miljoen"), 1e6
    ),
    **dict.fromkeys(word_list("billion billions bn milliard milliards milliarde milliarden"), 1e9),
    **dict.fromkeys(word_list("trillion trillions tn"), 1e12),
}

_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_SMALL: dict[str, dict[str, int]] = {
    name: {word: value for value, words in enumerate(row.split()) for word in words.split("/")}
    for name, row in {
        "english": _ENGLISH,
        "german": "null ein/eine/eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf "
        "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig",
        "french": "zéro un/une deux trois quatre cinq six sept huit neuf dix onze douze treize "
        "quatorze quinze seize dix-sept dix-huit dix-neuf vingt",
        "spanish": "cero un/una/uno dos tres cuatro cinco seis siete ocho nueve diez once doce "
        "trece catorce quince dieciséis diecisiete dieciocho diecinueve veinte",
        "italian": "zero un/una/uno due tre quattro cinque sei sette otto nove dieci undici "
        "dodici tredici quattordici quindici sedici diciassette diciotto diciannove venti",
        "portuguese": "zero um/uma dois/duas três quatro cinco seis sete oito nove dez onze doze "
        "treze catorze/quatorze quinze dezesseis dezessete dezoito dezenove vinte",
        "dutch": "nul een/één twee drie vier vijf zes zeven acht negen tien elf twaalf dertien "
        "veertien vijftien zestien zeventien achttien negentien twintig",
        "swedish": "noll en/ett två tre fyra fem sex sju åtta nio tio elva tolv tretton fjorton "
        "femton sexton sjutton arton nitton tjugo",
        "russian": "ноль один/одна два/две три четыре пять шесть семь восемь девять десять "
        "одиннадцать двенадцать тринадцать четырнадцать пятнадцать шестнадцать семнадцать "
        "восемнадцать девятнадцать двадцать",
        "polish": "zero jeden/jedna dwa/dwie trzy cztery pięć sześć siedem osiem dziewięć "
        "dziesięć jedenaście dwanaście trzynaście czternaście piętnaście szesnaście siedemnaście "
        "osiemnaście dziewiętnaście dwadzieścia",
    }.items()
}
_TENS = dict(
    zip(
        word_list("twenty thirty forty fifty sixty seventy eighty ninety"),
        range(20, 100, 10),
        strict=True,
    )
)
_SMALL["english"] |= _TENS
_ORDINALS = {
    word: value
    for value, word in enumerate(
        word_list(
            "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
            "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
        ),
        3,
    )
}
_PARTS = {
    **dict.fromkeys(("half", "halves", "hälfte", "moitié", "mitad", "metà", "½"), (0.5, 50.0)),
    **dict.fromkeys(("quarter", "quarters", "viertel", "¼"), (0.25, 25.0)),
    **dict.fromkeys(("twice", "double", "doubled", "both", "pair", "couple"), (2.0,)),
    **dict.fromkeys(("once", "single"), (1.0,)),
    **dict.fromkeys(("thrice", "triple", "tripled"), (3.0,)),
    "dozen": (12.0,),
    "¾": (0.75, 75.0),
}
"""Words that can stand for a number in a passage; an answer may use them for something else."""

MONTHS = {
    name: month
    for row in (
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
        "dicembre",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października "
        "listopada grudnia",
        "januari februari maart april mei juni juli augustus september oktober november december",
    )
    for month, name in enumerate(row.split(), 1)
}
MONTHS["sept"] = 9

_KNOWN = frozenset(word_list("the these those die diese les ces los las estos i questi"))
_ARTICLES = frozenset(word_list("a an one each every per ein eine einer un une una um uma een"))

_TOKEN = re.compile(
    r"(?P<iso>(?<![\d-])\d{4}-\d{1,2}-\d{1,2}(?![\d-]))"
    r"|(?P<slash>(?<![\d/.])\d{1,2}[/.]\d{1,2}[/.]\d{4}(?![\d/]))"
    r"|(?P<time>(?<![\d:.,])\d{1,2}:\d{2}(?![\d:])(?:\s?[ap]\.?m\b\.?)?)"
    r"|(?P<number>(?:\d{1,3}(?:[,.'’\u00a0\u202f\u2009 ]\d{3}){1,9}(?!\d)(?:[.,]\d{1,9}(?!\d))?"
    r"|\d+(?:[.,]\d+)*)(?P<tail>st\b|nd\b|rd\b|th\b|s\b|er\b|e\b|ème\b|º|ª)?)"
    r"|(?P<word>[^\W\d_]+(?:[-'’][^\W\d_]+)*)"
    r"|(?P<sign>[%°$€£¥₹½¼¾])"
)
_HALF_DAY = re.compile(r"\s?([ap])\.?m\b", re.IGNORECASE)
_UNIT = re.compile(r"[\s\u00a0\u202f-]?(%|°\s?[CF]\b|°|km/h|k?m²|k?m2\b|[€$£¥₹]|[^\W\d_]+)")
_PER = re.compile(r"\s?per\s?cent\b", re.IGNORECASE)
_HEDGES = {
    **dict.fromkeys(
        word_list(
            "about around approximately roughly nearly almost some circa ca etwa rund ungefähr "
            "environ presque unos casi circa"
        ),
        "about",
    ),
    **dict.fromkeys(("more than", "over", "mehr als", "plus de", "más de"), "over"),
    **dict.fromkeys(("less than", "fewer than", "under", "weniger als", "moins de"), "under"),
}
_MAX_DIGITS = 15
_ROUNDING = 1.25
"""Maximum ratio of the true number to a number said to be "over" or "under" it."""


def find_numbers(text: str, language: str = "english") -> list[Number]:
    """Return the numbers of a text in order: digits, words for small numbers, dates and times."""
    small = _SMALL.get(language, _SMALL["english"])
    found: list[Number] = []
    tokens = list(_TOKEN.finditer(text))
    place = 0
    while place < len(tokens):
        token = tokens[place]
        kind = token.lastgroup if token.lastgroup != "tail" else "number"
        taken = 1
        if kind == "iso":
            found += _calendar(token, token[0].split("-"))
        elif kind == "slash":
            found += _calendar(token, re.split(r"[/.]", token[0])[::-1])
        elif kind == "time":
            found.append(_clock(token))
        elif kind == "number" or kind == "word":
            number, taken = _number(text, tokens, place, small)
            if number is not None:
                found.append(number)
        elif token[0] in _PARTS:
            values = frozenset[float | str](_PARTS[token[0]])
            found.append(Number(token.start(), token.end(), values, implied=True))
        place += taken
    return found


def _calendar(token: re.Match[str], parts: Sequence[str]) -> list[Number]:
    year, month, day = (int(part) for part in parts)
    # 3/4/1889 is the third of April or the fourth of March.
    dates = frozenset(
        {_date(month, day), _date(day, month) if token["slash"] else _date(month, day)}
    )
    start, end = token.span()
    months = {f"month {month}", f"month {day if token['slash'] else month}"}
    return [
        Number(start, end, frozenset[float | str](dates)),
        Number(start, end, frozenset[float | str](months), implied=True),
        Number(start, end, frozenset[float | str]({float(year)})),
    ]


def _date(month: int, day: int) -> str:
    return f"{month}-{day}"


def _clock(token: re.Match[str]) -> Number:
    hour, minute = (int(part) for part in re.findall(r"\d+", token[0]))
    half = _HALF_DAY.search(token[0])
    hours = {hour, hour + 12} if hour <= 12 else {hour}
    if half:
        hours = {hour % 12 + (12 if half[1].lower() == "p" else 0)}
    values = frozenset[float | str](f"{each}:{minute:02d}" for each in hours)
    return Number(token.start(), token.end(), values)


def _number(
    text: str, tokens: Sequence[re.Match[str]], place: int, small: Mapping[str, int]
) -> tuple[Number | None, int]:
    """Return the number that begins at a token, or None, and the count of its tokens."""
    token = tokens[place]
    start, end = token.span()
    taken = 1
    if token["number"]:
        if start and (text[start - 1].isalpha() or text[start - 1] == "_"):
            return None, 1  # Part of a name such as B52.
        values = _readings(token["number"].removesuffix(token["tail"] or ""))
        if special := _decade_day_or_ordinal(text, tokens, place, values):
            return Number(start, end, special), 1
    else:
        total, taken = _spelled(text, tokens, place, small)
        if total is None:
            return _number_word(text, tokens, place), 1
        end = tokens[place + taken - 1].end()
        values = frozenset[float | str]({total})
    while scale := _scale_after(text, end, tokens[place + taken : place + taken + 1]):
        values = frozenset(value * scale if isinstance(value, float) else value for value in values)
        end = tokens[place + taken].end()
        taken += 1
    dimension, factor = _unit_after(text, end) or _unit_before(text, start) or ("", 1.0)
    clock = _HALF_DAY.match(text, end)
    if clock and not dimension:
        hours = [value for value in values if isinstance(value, float) and 1 <= value <= 12]
        shift = 12 if clock[1].lower() == "p" else 0
        values |= {f"{int(hour) % 12 + shift}:00" for hour in hours}
    if token["number"] and _has_minus(text, start):
        values = frozenset(-value if isinstance(value, float) else value for value in values)
    hedge = _hedge_before(text, start)
    return Number(start, end, values, dimension, factor, hedge=hedge), taken


def _decade_day_or_ordinal(
    text: str,
    tokens: Sequence[re.Match[str]],
    place: int,
    values: frozenset[float | str],
) -> frozenset[float | str]:
    """Return the meaning of digits as in "1890s", "12 March" or "12th"; empty for others."""
    tail = tokens[place]["tail"] or ""
    if tail == "s":
        return frozenset({tokens[place]["number"]})
    month = _month_beside(text, tokens, place)
    days = [value for value in values if isinstance(value, float) and 1 <= value <= 31]
    if month is not None and days:
        return frozenset({_date(month, int(days[0]))})
    return frozenset({f"{_plain(value)}th" for value in values}) if tail else frozenset()


def _number_word(text: str, tokens: Sequence[re.Match[str]], place: int) -> Number | None:
    """Return an ordinal, a part such as "half", an article before a unit, or a month."""
    token = tokens[place]
    start, end = token.span()
    word = token[0].casefold()
    if word in _ORDINALS:
        return Number(start, end, frozenset({f"{_ORDINALS[word]}th"}))
    if word in _PARTS:
        return Number(start, end, frozenset[float | str](_PARTS[word]), implied=True)
    if word in _ARTICLES and (unit := _unit_after(text, end)):
        dimension, factor = unit
        return Number(start, end, frozenset({1.0}), dimension, factor, implied=True)
    return _month(tokens, place)


def _scale_after(text: str, end: int, following: Sequence[re.Match[str]]) -> float | None:
    """Return the scale after a number, as in "2.5 million", "3 thousand" or "20k"."""
    if not following or following[0].start() > end + 2 or text[end : following[0].start()].strip():
        return None
    return _SCALES.get((following[0]["word"] or "").casefold())


def _has_minus(text: str, start: int) -> bool:
    """Return whether the character before a number is a minus and not a hyphen."""
    return text[start - 1 : start] in ("-", "−", "–") and not text[start - 2 : start - 1].strip()


def _month(tokens: Sequence[re.Match[str]], place: int) -> Number | None:
    """Return a month without a day as a number; "may" and "march" are other words as well."""
    token = tokens[place]
    word = token[0].casefold()
    beside = [tokens[near] for near in (place - 1, place + 1) if 0 <= near < len(tokens)]
    day = any(other["number"] and len(re.sub(r"\D", "", other[0])) <= 2 for other in beside)
    if word not in MONTHS or (not token[0][0].isupper() and len(word) < 5):
        return None
    if place == 0 and word in ("may", "march", "mars", "mar", "mai"):
        return None
    values = frozenset[float | str]({f"month {MONTHS[word]}"})
    return Number(token.start(), token.end(), values, implied=day)


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _readings(digits: str) -> frozenset[float | str]:
    """Return the readings of digits, in which a comma or point separates thousands or decimals."""
    digits = re.sub("['’\u00a0\u202f\u2009 ]", "", digits)
    bare = re.sub("[.,]", "", digits)
    if len(bare) > _MAX_DIGITS:
        return frozenset({bare})
    parts = re.split("[.,]", digits)
    if len(parts) == 1:
        return frozenset({float(bare)})
    readings: set[float | str] = set()
    if all(len(part) == 3 for part in parts[1:]) and 1 <= len(parts[0]) <= 3:
        readings.add(float(bare))
    if len(parts) == 2:
        readings.add(float(".".join(parts)))
        if len(parts[0]) <= 2 and len(parts[1]) == 2:
            readings.add(f"{int(parts[0])}:{parts[1]}")
    elif all(len(part) == 3 for part in parts[1:-1]):
        readings.add(float("".join(parts[:-1]) + "." + parts[-1]))
    return frozenset(readings or {digits})


def _spelled(
    text: str, tokens: Sequence[re.Match[str]], place: int, small: Mapping[str, int]
) -> tuple[float | None, int]:
    """Return the value of number words that begin at a token: "two hundred and fifty"."""
    total = current = 0.0
    taken, known = 0, False
    while place + taken < len(tokens):
        token = tokens[place + taken]
        word = (token["word"] or "").casefold()
        if taken and len(text[tokens[place + taken - 1].end() : token.start()].strip(" \n-")):
            break
        parts = word.split("-") if "-" in word and word not in small else [word]
        values = [small.get(part) for part in parts]
        if word and all(value is not None for value in values):
            value = sum(value for value in values if value is not None)
            if known and not (current % 100 == 0 or (current % 10 == 0 and value < 10)):
                break
            current += value
        elif word == "hundred" or word == "hundert":
            current = (current or 1) * 100
        elif word in ("thousand", "million", "billion"):
            total += (current or 1) * _SCALES[word]
            current = 0.0
        elif word == "dozen" and not known:
            current = 12.0
        elif word == "dozen":
            current *= 12
        elif word == "and" and known and (current % 100 == 0 or not current):
            following = tokens[place + taken + 1] if place + taken + 1 < len(tokens) else None
            if following is None or (following["word"] or "").casefold() not in small:
                break
            taken += 1
            continue
        else:
            break
        known = True
        taken += 1
    if not known:
        return None, 1
    first = tokens[place][0].casefold()
    if taken == 1 and small.get(first) == 2 and place and tokens[place - 1][0].casefold() in _KNOWN:
        return None, 1  # "The two" were named before.
    if taken == 1 and small.get(first) == 1:
        # "one" is mostly a pronoun or an article.
        end = tokens[place].end()
        if small is not _SMALL["english"] or _unit_after(text, end) is None:
            return None, 1
    return total + current, taken


def _month_beside(text: str, tokens: Sequence[re.Match[str]], place: int) -> int | None:
    for step in (1, 2, -1, -2):
        other = tokens[place + step] if 0 <= place + step < len(tokens) else None
        if other is None or not other["word"]:
            continue
        month = MONTHS.get(other[0].casefold().rstrip("."))
        if month is None or (not other[0][0].isupper() and other[0].casefold() in ("may", "mar")):
            continue
        between = (
            text[tokens[place].end() : other.start()]
            if step > 0
            else text[other.end() : tokens[place].start()]
        )
        if step == 2 and between.strip(" .\n").casefold() not in ("of", "de", "di", "d"):
            continue
        if step == -2 and between.strip(" .\n").casefold() != "the":
            continue
        if len(between.strip(" .\n,")) <= 3:
            return month
    return None


def _unit_after(text: str, end: int) -> tuple[str, float] | None:
    if _PER.match(text, end):
        return UNITS["%"]
    found = _UNIT.match(text, end)
    if not found:
        return None
    name = found[1]
    if name == "°" and text[found.end() : found.end() + 1].isalpha():
        name = text[found.start(1) : found.end() + 1]
    if len(name) == 1 and name.casefold() in _CASED_UNITS and name != name.lower():
        return None
    if name == "Bar":
        return None
    unit = UNITS.get(name.casefold().replace(" ", ""))
    if unit and unit[0] == "degree":
        following = _UNIT.match(text, found.end())
        scale = UNITS.get(following[1].casefold()) if following else None
        if scale and scale[0] in ("celsius", "fahrenheit"):
            return scale
    return unit


def _unit_before(text: str, start: int) -> tuple[str, float] | None:
    before = text[max(0, start - 4) : start].rstrip()
    if before and before[-1] in "$€£¥₹":
        return UNITS[before[-1]]
    return UNITS.get(before[-3:].casefold()) if before[-3:] in ("USD", "EUR", "GBP") else None


def _hedge_before(text: str, start: int) -> str:
    before = text[max(0, start - 24) : start].casefold().rstrip(" $€£¥~≈")
    if text[max(0, start - 1) : start] in "~≈" and start:
        return "about"
    words = re.findall(r"\w+", before)[-2:]
    if len(words) == 2 and " ".join(words) in _HEDGES:
        return _HEDGES[" ".join(words)]
    return _HEDGES.get(words[-1], "") if words else ""


def number_keys(number: Number) -> Iterator[tuple[str, float | str]]:
    """Yield the keys of a number; two numbers that agree without a hedge share a key."""
    for value in number.values:
        yield "", value
        if number.dimension:
            yield number.dimension, _scaled(value, number.factor)


def numbers_agree(claimed: Number, given: Number) -> bool:
    """Return whether a number of an answer agrees with one of a passage, in any unit."""
    if claimed.dimension and given.dimension:
        degrees = {claimed.dimension, given.dimension}
        if claimed.dimension != given.dimension and not (
            "degree" in degrees and degrees <= {"degree", "celsius", "fahrenheit"}
        ):
            return False
        mine = {_scaled(value, claimed.factor) for value in claimed.values}
        theirs = {_scaled(value, given.factor) for value in given.values}
    else:
        mine, theirs = set(claimed.values), set(given.values)
    if mine & theirs:
        return True
    return bool(claimed.hedge) and any(
        _is_near(claimed.hedge, said, true)
        for said in mine
        if isinstance(said, float)
        for true in theirs
        if isinstance(true, float)
    )


def _scaled(value: float | str, factor: float) -> float | str:
    return float(f"{value * factor:.9g}") if isinstance(value, float) else value


def _is_near(hedge: str, said: float, true: float) -> bool:
    if hedge == "over":
        return said <= true <= said * _ROUNDING
    if hedge == "under":
        return said / _ROUNDING <= true <= said
    return abs(said - true) <= 0.1 * abs(true)
