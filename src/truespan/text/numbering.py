"""The numbers of list items in the letters and digits of many scripts.

The names of the forms are those of DOCX; other formats translate theirs to them.
"""

from __future__ import annotations

from typing import NamedTuple

from truespan.text.headings import MAX_ROMAN, format_roman

_MAX_REPEATS = 20
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳㉑㉒㉓㉔㉕㉖㉗㉘㉙㉚㉛㉜㉝㉞㉟㊱㊲㊳㊴㊵㊶㊷㊸㊹㊺㊻㊼㊽㊾㊿"
_STEMS, _BRANCHES = "甲乙丙丁戊己庚辛壬癸", "子丑寅卯辰巳午未申酉戌亥"
_IROHA = (
    "イロハニホヘトチリヌルヲワカヨタレソツネナラム"
    "ウヰノオクヤマケフコエテアサキユメミシヱヒモセスン"
)
_AIUEO = (
    "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
)

_LETTERS = {
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "lowerGreek": "αβγδεζηθικλμνξοπρστυφχψω",
    "hebrew2": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabicAlpha": "أبتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "thaiLetters": "กขคงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮ",
    "aiueoFullWidth": _AIUEO,
    "aiueo": "ｱｲｳｴｵｶｷｸｹｺｻｼｽｾｿﾀﾁﾂﾃﾄﾅﾆﾇﾈﾉﾊﾋﾌﾍﾎﾏﾐﾑﾒﾓﾔﾕﾖﾗﾘﾙﾚﾛﾜｦﾝ",
    "hiragana": "".join(chr(ord(char) - 0x60) for char in _AIUEO),
    "irohaFullWidth": _IROHA,
    "iroha": "ｲﾛﾊﾆﾎﾍﾄﾁﾘﾇﾙｦﾜｶﾖﾀﾚｿﾂﾈﾅﾗﾑｳヰﾉｵｸﾔﾏｹﾌｺｴﾃｱｻｷﾕﾒﾐｼヱﾋﾓｾｽﾝ",
    "hiraganaIroha": "".join(chr(ord(char) - 0x60) for char in _IROHA),
    "ganada": "가나다라마바사아자차카타파하",
    "chosung": "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ",
}
"""Letters that are doubled after the last: 27 is "aa"."""
_LETTERS |= {
    "upperLetter": _LETTERS["lowerLetter"].upper(),
    "russianUpper": _LETTERS["russianLower"].upper(),
}
_SIGNS = {
    "ideographTraditional": _STEMS,
    "ideographZodiac": _BRANCHES,
    "ideographZodiacTraditional": tuple(
        _STEMS[index % 10] + _BRANCHES[index % 12] for index in range(60)
    ),
    "ideographEnclosedCircle": "㊀㊁㊂㊃㊄㊅㊆㊇㊈㊉",
    "decimalEnclosedCircle": _CIRCLED,
    "decimalEnclosedCircleChinese": _CIRCLED,
    "decimalEnclosedFullstop": "⒈⒉⒊⒋⒌⒍⒎⒏⒐⒑⒒⒓⒔⒕⒖⒗⒘⒙⒚⒛",
    "decimalEnclosedParen": "⑴⑵⑶⑷⑸⑹⑺⑻⑼⑽⑾⑿⒀⒁⒂⒃⒄⒅⒆⒇",
    "koreanLegal": tuple(
        ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")[count // 10]
        + ("", "하나", "둘", "셋", "넷", "다섯", "여섯", "일곱", "여덟", "아홉")[count % 10]
        for count in range(1, 100)
    ),
}
"""Signs that end: the numbers after the last are digits."""

_IDEOGRAPHS = "〇一二三四五六七八九"
_DIGITS = {
    **dict.fromkeys(("ideographDigital", "japaneseDigitalTenThousand"), _IDEOGRAPHS),
    **dict.fromkeys(("taiwaneseDigital", "koreanDigital2"), _IDEOGRAPHS.replace("〇", "○")),
    "koreanDigital": "영일이삼사오육칠팔구",
    "decimalFullWidth": "０１２３４５６７８９",
    "decimalFullWidth2": "０１２３４５６７８９",
    "hindiNumbers": "०१२३४५६७८९",
    "thaiNumbers": "๐๑๒๓๔๕๖๗๘๙",
    "arabicNumbers": "٠١٢٣٤٥٦٧٨٩",
    "persianNumbers": "۰۱۲۳۴۵۶۷۸۹",
}


class _Counting(NamedTuple):
    """How numbers below 10,000 are spelled with signs for ten, hundred and thousand.

    `ones` says from which power of ten on a one is spelled: 十 but 一百 for 2.
    """

    digits: str
    powers: str
    ones: int
    zero: str = ""
    below: int = 10_000


_COUNTING = {
    "japaneseCounting": _Counting(_IDEOGRAPHS, "十百千", 9),
    "japaneseLegal": _Counting("〇壱弐参四伍六七八九", "拾百阡", 1),
    "chineseCounting": _Counting(_IDEOGRAPHS.replace("〇", "○"), "十", 2, below=100),
    "taiwaneseCounting": _Counting(_IDEOGRAPHS.replace("〇", "○"), "十", 2, below=100),
    "chineseCountingThousand": _Counting(_IDEOGRAPHS, "十百千", 2, "零"),
    "taiwaneseCountingThousand": _Counting(_IDEOGRAPHS, "十百千", 2, "零"),
    "chineseLegalSimplified": _Counting("零壹贰叁肆伍陆柒捌玖", "拾佰仟", 1, "零"),
    "ideographLegalTraditional": _Counting("零壹貳參肆伍陸柒捌玖", "拾佰仟", 1, "零"),
    "koreanCounting": _Counting("영일이삼사오육칠팔구", "십백천", 9),
}


def format_number(count: int, form: str) -> str:
    """Format a number in a form; in digits if it is unknown or letters would become absurd."""
    text = str(count)
    if letters := _LETTERS.get(form):
        repeats, letter = divmod(count - 1, len(letters))
        return letters[letter] * (repeats + 1) if 0 <= repeats < _MAX_REPEATS else text
    if signs := _SIGNS.get(form):
        return signs[count - 1] if 1 <= count <= len(signs) else text
    if digits := _DIGITS.get(form):
        return "".join(digits[int(char)] for char in text) if count >= 0 else text
    if form in _COUNTING:
        return _spell(count, _COUNTING[form])
    match form:
        case "lowerRoman" | "upperRoman" if 1 <= count <= MAX_ROMAN:
            text = format_roman(count)
        case "decimalZero":
            text = f"{count:02}"
        case "numberInDash":
            text = f"- {count} -"
        case "hex":
            text = f"{count:X}"
        case "ordinal":
            suffix = {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
            text += "th" if count % 100 in (11, 12, 13) else suffix
        case "none" | "bullet":
            text = ""
    return text.upper() if form == "upperRoman" else text


def _spell(count: int, counting: _Counting) -> str:
    digits, powers, ones, zero, below = counting
    if not 0 < count < below:
        shown = str(count)
        return "".join(digits[int(char)] for char in shown) if count >= 0 else shown
    text, gap = "", False
    for power in range(len(powers), -1, -1):
        digit = count // 10**power % 10
        if not digit:
            gap = bool(text)
            continue
        text += zero if gap else ""
        # A one before ten is spelled inside of a longer number: 一百一十.
        spelled = digit > 1 or power == 0 or power >= ones or (bool(text) and bool(zero))
        text += (digits[digit] if spelled else "") + (powers[power - 1] if power else "")
        gap = False
    return text
