"""Language detection."""

import pytest

from truespan.text.language import (
    SAMPLE,
    _classifier,
    detect_language,
    detector_name,
    normal_language,
)

SENTENCES = {
    "en": "The lighthouse keeper wrote down every ship that passed before dawn.",
    "de": "Der Leuchtturmwärter schrieb jedes Schiff auf, das vor Tagesanbruch vorbeifuhr.",
    "fr": "Le gardien du phare notait chaque navire qui passait avant l'aube.",
    "es": "El guardián del faro anotaba cada barco que pasaba antes del amanecer.",
    "it": "Il guardiano del faro annotava ogni nave che passava prima dell'alba.",
    "pt": "O guardião do farol anotava cada navio que passava antes do amanhecer.",
    "nl": "De vuurtorenwachter schreef elk schip op dat voor zonsopgang voorbijkwam.",
    "sv": "Fyrvaktaren skrev upp varje fartyg som passerade före gryningen.",
    "da": "Fyrpasseren skrev hvert skib op, der sejlede forbi før daggry.",
    "fi": "Majakanvartija kirjasi ylös jokaisen laivan, joka kulki ohi ennen aamunkoittoa.",
    "pl": "Latarnik zapisywał każdy statek, który przepływał przed świtem.",
    "cs": "Strážce majáku si zapsal každou loď, která proplula před svítáním.",
    "hu": "A világítótorony őre minden hajót feljegyzett, amely hajnal előtt elhaladt.",
    "ro": "Paznicul farului nota fiecare corabie care trecea înainte de zori.",
    "ru": "Смотритель маяка записывал каждый корабль, проходивший до рассвета.",
    "uk": "Доглядач маяка записував кожен корабель, що проходив до світанку.",
    "bg": "Пазачът на фара записваше всеки кораб, който минаваше преди зазоряване.",
    "el": "Ο φαροφύλακας σημείωνε κάθε πλοίο που περνούσε πριν από την αυγή.",
    "tr": "Deniz feneri bekçisi şafaktan önce geçen her gemiyi yazdı.",
    "ar": "كان حارس المنارة يدون كل سفينة تمر قبل الفجر.",
    "he": "שומר המגדלור רשם כל ספינה שעברה לפני עלות השחר.",
    "fa": "نگهبان فانوس دریایی هر کشتی را که پیش از سپیده می‌گذشت یادداشت می‌کرد.",
    "ja": "灯台守は夜明け前に通り過ぎるすべての船を書き留めた。",
    "zh": "灯塔看守人记下了黎明前经过的每一艘船。",
    "ko": "등대지기는 새벽 전에 지나가는 모든 배를 기록했다.",
    "th": "ผู้ดูแลประภาคารจดบันทึกเรือทุกลำที่แล่นผ่านก่อนรุ่งสาง",
    "vi": "Người gác hải đăng ghi lại mọi con tàu đi qua trước bình minh.",
    "la": "Custos phari omnes naves notabat quae ante lucem praeteribant.",
}


@pytest.mark.parametrize(("language", "sentence"), SENTENCES.items())
def test_single_sentence_has_a_language(language: str, sentence: str) -> None:
    assert detect_language(sentence) == language


@pytest.mark.parametrize("text", [
    "", "   \n", "Guten Tag", "Chapter One", "1234 5678 90",
    "| 12 | 33.4 | EUR | 2023-01-02 |\n" * 20,
    "def f(x):\n    return x + 1\nfor i in range(10):\n    print(f(i))\n",
    "qwrt zxcv bnmp lkjh gfds", "x" * 5000, "船の灯台",
])  # fmt: skip
def test_short_text_has_no_language(text: str) -> None:
    assert detect_language(text) is None


def test_language_sample_depends_on_few_letters_only() -> None:
    assert detect_language("夜明け前に船が通る") == "ja"
    german = SENTENCES["de"] + " "
    begin = german * (SAMPLE // len(german) + 1)
    assert detect_language(begin[:SAMPLE] + SENTENCES["zh"] * 5000) == "de"
    assert detect_language("x " * SAMPLE + begin) is None


def test_plain_english_is_found_without_the_detector() -> None:
    _classifier.cache_clear()
    english = "The keeper of the lamps said that “it was not there” — and he went to the harbour. "
    assert detect_language(english * 4) == "en"
    assert _classifier.cache_info().currsize == 0
    assert detect_language(english) == "en"
    assert _classifier.cache_info().currsize == 1

    _classifier.cache_clear()
    english = "The keeper of the lamps said that it was not there, and he went to the harbour. "
    names = "Hendrik Visser of Delft and Anna Petrova of Kazan met Jon Olsen yesterday. "
    assert detect_language(names * 4 + english * 6) == "en"
    assert _classifier.cache_info().currsize == 0
    detect_language(names * 8)
    assert _classifier.cache_info().currsize == 1


@pytest.mark.parametrize("language", [code for code in SENTENCES if code != "en"])
def test_english_beside_another_language_is_left_to_the_detector(language: str) -> None:
    english = "The keeper of the lamps said that it was not there, and he went to the harbour. "
    for parts in range(1, 8):
        text = (SENTENCES[language] + " ") * parts + english * (8 - parts)
        found, share = _classifier()(text[:SAMPLE])
        assert detect_language(text) == (found if share >= 0.3 else None), (parts, share)


def test_detector_survives_surrogates_and_has_a_version() -> None:
    assert detect_language(SENTENCES["en"] + "\ud800") == "en"
    assert detector_name().startswith("py3langid-")


@pytest.mark.parametrize(
    ("code", "language"),
    [("en", "en"), ("EN", "en"), ("en-GB", "en"), ("zh_Hant_TW", "zh"), (" pt-BR ", "pt")],
)
def test_a_code_is_reduced_to_its_language(code: str, language: str) -> None:
    assert normal_language(code) == language
