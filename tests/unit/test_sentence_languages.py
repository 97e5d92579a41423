"""Ends of sentences in every language of the multilingual model."""

from tests.support.rows import each_row
from truespan.text.sentences import sentence_spans
from truespan.types.profile import MULTILINGUAL_LANGUAGES

SENTENCES = {
    "ar": "جاء الدكتور أحمد في المساء.|ثم ذهب إلى البيت.|لماذا ذهب؟|لا أحد يعرف!",
    "de": "Dr. Müller kam z. B. am 3. Mai um 5 Uhr an.|Er blieb, d. h. er wartete.|Warum?",
    "en": "Dr. Smith met Mrs. Jones at 3 p.m. on Jan. 5.|She left.|Was it late?",
    "es": "El Sr. García vino a las 3 p. m. con la pág. 12.|Se fue a las 5 p. m.|¿Por qué?",
    "fr": "M. Dupont est venu chez le Dr. Martin, p. ex. lundi.|Il mesure 5 m.|Pourquoi ?",
    "it": "Il sig. Rossi e il dott. Bianchi leggono pag. 12.|Partirono.|Perché?",
    "ja": "彼は来た。|彼女は行った！|なぜですか？|誰も知らない。",
    "ko": "그는 왔다.|그녀는 갔다!|왜 갔습니까?|아무도 모른다.",
    "nl": "Dhr. Jansen kwam bijv. op 3 mei.|Hij ging weg.|Waarom?",
    "pl": "Dr. Nowak przyszedł np. w maju o godz. 15.|Potem wyszedł.|Dlaczego?",
    "pt": "O Sr. Silva chegou à Av. Paulista.|Ele saiu.|Por quê?",
    "ru": "Г. Иванов родился в 1889 г. в доме им. Ленина.|Он уехал.|Почему?",
    # Thai has no mark for the end of a sentence; spaces stand inside of sentences too.
    "th": "เขามาถึงแล้ว เธอจากไป ทำไม?|ไม่มีใครรู้",
    "tr": "Dr. Yılmaz saat 5'te geldi.|Sonra gitti.|Neden?",
    "zh": "他来了。|她走了！|为什么？|没有人知道；也许是因为下雨。",
}
"""Sentences of each language, with abbreviations and numbers, between bars."""


ABBREVIATED = {
    "ends with and so on": "Яблоки, груши и т. д.|Потом он ушёл.",
    "ends without spaces": "Яблоки и т.п.|«Потом» он ушёл.",
    "goes on": "Яблоки и т. д. и ещё груши.|Потом он ушёл.",
    "ends with others": "Кентукки, Теннесси и др.|В окрестностях живут.",
    "ends with a year": "Он родился в городе весной 1990 г.|Москва была его домом.",
    "begins with a year": "В 1812 г. Наполеон ушёл.|Потом вернулся.",
    "ends with a century": "Он жил и работал с начала XIX в.|Население росло.",
    "has a town": "Он живёт и работает в г. Москве.|Он рад.",
    "explains": "Книга, т. е. Библия, лежит.|Конец.",
}


@each_row("case", sorted(ABBREVIATED))
def test_russian_abbreviation_before_a_capital_ends_a_sentence(case: str) -> None:
    expected = ABBREVIATED[case].split("|")
    text = " ".join(expected)
    assert [text[start:end] for start, end in sentence_spans(text, "ru")] == expected


@each_row("language", sorted(MULTILINGUAL_LANGUAGES))
def test_sentences_end_at_the_marks_of_their_language(language: str) -> None:
    expected = SENTENCES[language].split("|")
    text = ("" if language in ("zh", "ja") else " ").join(expected)
    assert [text[start:end] for start, end in sentence_spans(text, language)] == expected
