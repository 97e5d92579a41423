"""Function words: articles, pronouns, prepositions, auxiliaries, and words that ask a question.

They are left out of queries, never out of texts. The lists are short on purpose: a word that is a
name or a noun as well, such as the English "may" or "will", decides more than it disturbs. What an
apostrophe leaves of a contraction is listed too, because words end there. In scripts without
spaces, every two or three characters of a listed word are left out, as texts are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import chain

_ARABIC = """
    من في على إلى عن مع أن إن أنه أنها إنه إنها كان كانت كانوا يكون تكون هو هي هم هن هما أنا أنت
    أنتم نحن هذا هذه هذان هؤلاء ذلك تلك أولئك الذي التي الذين اللذان اللتان اللاتي ما ماذا لماذا
    متى أين كيف كم هل أي أية ممن مما عما بماذا لمن بمن فيم حتى قد لقد لم لن لا ليس ليست ثم أو أم
    بل لكن لكنه و ف ب ل ك بعد قبل بين عند عندما حيث حين خلال منذ كل بعض جميع غير سوى فقط أيضا
    أيضاً كما مثل لأن لأنه إذا إذ لو به بها بهم له لها لهم فيه فيها منه منها عنه عنها إليه إليها
    عليه عليها ولا وما وهو وهي وكان وكانت وقد كذلك يا تم يتم هناك هنا ومن وفي وعلى الى او اي اين
    انه انها ان اذا ايضا كلا عدد يمكن
"""

_CHINESE = """
    什么 什麼 甚麼 为什么 為什麼 什么时候 什麼時候 是什么 是什麼 了什么 了什麼 的什么 的什麼
    哪些 哪个 哪個 哪里 哪裡 哪裏 哪儿 哪兒 哪一 哪种 哪種 哪位 谁 誰 是谁 是誰 多少 几个 幾個
    多久 如何 怎么 怎麼 怎样 怎樣 怎么样 怎麼樣 何时 何時 何地 何处 何處 何人 何种 何種 为何
    為何 是否 的 了 是 吗 嗎 呢 吧 的是 是在 这 這 那 这个 這個 那个 那個 这些 這些 那些 我们
    我們 你们 你們 他们 他們 她们 她們 它们 它們 因为 因為 所以 但是 如果 以及 或者 可以 没有
    沒有 之间 之間 为了 為了 由于 由於 关于 關於 对于 對於 除了 这样 這樣 那样 那樣 其他 其中
    还有 還有
"""
_DANISH = """
    ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din
    disse dit dog du efter eller en end er et flere fleste for fra ham han hans har havde have
    hende hendes her hos hun hvad hvem hver hvilke hvilken hvilket hvis hvor hvordan hvorfor
    hvorfra hvorhen hvornår i ikke ind ingen jeg jer jo kan kunne man mange med meget men mere
    mest mig min mindre mine mit mod ned nogen noget nogle nu når ofte og også om op os over på sig
    sin sine sit skal skulle som sådan thi til ud under var vi vil ville vor være været
"""

_DUTCH = """
    aan al alle als bij dan dat de der deze die dit doch doen door dus een elk elke en enkele er
    ge geen haar had hadden heb hebben heeft hem het hier hij hoe hoelang hoeveel hoever hoezo
    hun ik in is je jij jou jouw jullie kan kon kunnen maar me meer meest meeste men met mij mijn
    minder moet na naar niet nog nu of om ons onze ook op over s sommige t te tegen toch toen tot
    u uit uw vaak van veel voor waar waaraan waarbij waardoor waarheen waarin waarmee waarom waarop
    waaruit waarvan waarvoor wanneer want waren was wat we weinig welk welke werd werden wie
    wiens wij wil word worden wordt zal ze zei zich zij zijn zo zonder zou zouden
"""

_ENGLISH = """
    a about after again against all also am an and any are aren as at be because been before
    being between both but by can could couldn d did didn do does doesn doing during each every
    few for from further had hadn has hasn have haven having he her here hers herself him himself
    his how i if in into is isn it its itself just least less ll m many me more most much my
    myself no nor not of off often on once only or other our ours ourselves out over own re s same
    several she should shouldn so some such t than that the their theirs them themselves then
    there these they this those through to too under until up upon ve very was wasn we were weren
    what whatever when whenever where wherever whether which whichever while who whoever whom
    whose why with would wouldn you your yours yourself yourselves
"""

_FINNISH = """
    ei eikä eivät emme en enemmän eniten ette että he heidän heille heitä hän hänelle hänen hänet
    häntä itse ja jo joka jonka jos jossa jota jotka kanssa keitä kenelle kenellä keneltä kenen
    kenet ketkä ketä koska kuin kuinka kuka kumman kumpaa kumpi kun me mihin miksi mikä millainen
    millaisia millaista mille milloin millä miltä minkä minkälainen minne minua minulla minulle
    minun minä missä mistä miten mitkä mitä monen monet moni monia monta montako mukaan mutta
    myös ne niiden niin niitä nuo nyt ole olemme olen olet olette oli olivat olla ollut on ovat
    paljon paljonko se sekä sen siellä siihen siinä sille sinun sinä sitä tai te teidän tuo tuon
    tämä tämän tässä tätä useita usein vaan vai vain vähemmän vähän
"""

_FRENCH = """
    a ai aie ainsi alors as assez au aucun aucune auquel aussi autre autres aux auxquelles
    auxquels avaient avait avec avez avoir avons beaucoup c car ce ceci cela celle celles celui
    ces cet cette ceux chaque chez combien comme comment d dans de depuis des desquelles desquels
    donc dont du duquel elle elles en entre es est et eu eux fut ici il ils j je jusqu jusque l
    la laquelle le lequel les lesquelles lesquels leur leurs lorsque lui là m ma mais me mes moi
    moins mon même n ne ni nos notre nous on ont ou où par parce pas pendant peu peut peuvent
    plus plusieurs pour pourquoi puis qu quand que quel quelle quelles quelque quelques quels qui
    quoi s sa sans se sera ses si soi sommes son sont sous suis sur t ta tant te tes toi ton tous
    tout toute toutes trop très tu un une vos votre vous y à étaient était étant été êtes être
"""

_GERMAN = """
    aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis
    bist da damit dann das dass daß dein deine deinem deinen deiner dem den denn der deren des
    dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem
    einen einer eines einige einigen einiger er es etwas euch euer eure für gegen genug gewesen
    hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer
    ihres im in indem ins ist ja jede jedem jeden jeder jedes jene jenem jenen jener jenes kann
    kein keine keinem keinen keiner können könnte man manche manchem manchen mancher manches mehr
    mehrere mehreren mein meine meinem meinen meiner meiste meisten mich mir mit muss muß nach
    nicht nichts noch nun nur ob oder oft ohne sehr sein seine seinem seinen seiner seines selbst
    sich sie sind so solche soll sollte sondern sonst um und uns unser unsere unter viel viele
    vielen vieler vieles vom von vor wann war waren warum was weil welche welchem welchen welcher
    welches wem wen wenig wenige wenigen weniger wenn wer werde werden weshalb wessen weswegen
    wie wieder wieso wieviel wieviele wievielen wird wo wobei wodurch wofür woher wohin womit
    wonach woran worauf woraus worden worin worüber wovon wozu wurde wurden während wäre würde
    würden zu zum zur zwischen über
"""

_ITALIAN = """
    a abbia agli ai al alcune alcuni all alla alle allo anche avere aveva avevano c che chi ci
    cioè ciò coi col come con contro cos cosa cui d da dagli dai dal dall dalla dalle dallo degli
    dei del dell della delle dello dentro di dopo dov dove e ebbe ed era erano essere fra fu
    furono gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me meno mentre mi mia mie
    miei mio molta molte molti molto ne negli nei nel nell nella nelle nello no noi non nostra
    nostre nostri nostro o ogni per perchè perché però più poca poche pochi poco poi possono può
    qual quale quali quando quant quanta quante quanti quanto quella quelle quelli quello questa
    queste questi questo qui se sei si sia siamo sono sotto sta stata stato su sua sue sugli sui
    sul sull sulla sulle sullo suo suoi te ti tra tu tua tue tuo tuoi tutta tutte tutti tutto un
    una uno vi voi vostra vostro è
"""

_JAPANESE = """
    何 何が 何を 何の 何に 何と 何ですか 何でしたか なに なん 誰 誰が 誰の だれ どこ どこで
    どこに いつ なぜ どう どうして どのように どのような どんな どの どれ どちら いくつ いくら
    どれくらい どのくらい は が を に で と の も へ や か です でした でしょう ですか でしたか
    ます ました ません ますか ましたか である であった という といった として について によって
    により による における において に対して ために から まで より など こと もの これ それ あれ
    この その あの ここ そこ には では にも とは のは のか のが のを での との への からの する
    した して している していた しました しますか された される ある あった いる いた ない
    なかった ありますか いますか れる られる れた られた
"""

_KOREAN = """
    은 는 이 가 을 를 의 에 와 과 도 로 만 무엇 무엇을 무엇이 무엇인가 무엇인가요 무엇입니까
    무엇이었습니까 누구 누가 누구의 누구를 누구인가 누구입니까 언제 언제인가 어디 어디에 어디서
    어디에서 어디에 있는 왜 어떻게 어떤 어느 얼마 얼마나 몇 입니까 습니까 있습니까 있었습니까
    했습니까 하였습니까 되었습니까 됩니까 합니까 인가요 나요 있나요 그 저 것 그것 이것 저것
    그리고 그러나 하지만 또는 및 등 때문에 대한 대해 위해 위한 에서 에게 으로 까지 부터 처럼
    보다 하는 하고 했다 한다 합니다 있는 있다 있습니다 없는 없다 되는 된다 됩니다 입니다 이다
"""

_NORWEGIAN = """
    alle at av bare begge ble blei bli blir blitt både da de deg dei deim deira den denne der
    dere deres det dette di din disse ditt du då eg ein eit eitt eller en enn er et ett etter
    fleire flere fleste for fordi fra frå før ha hadde han hans har ho hos hun hva hvem hver
    hvilke hvilken hvilket hvis hvor hvordan hvorfor hvorfra hvorhen i ikke ikkje ingen inn ja
    jeg kan kom korleis korso kunne kva kvar kven kvifor man mange med meg meget meir mellom men
    mer mest mi min mindre mitt mot mye mykje ned noe noen noko nokon nå når ofte og også om opp oss
    over på seg si sia sidan siden sin sine sitt skal skulle slik so som somme så til um under
    upp ut uten var vart vere verte vi vil ville vore vors vort vår være vært å
"""

_POLISH = """
    a aby albo ale ależ ani az bardzo bez bo by być był była było były ci cię co czego czemu często
    czy czyich czyj czyja czyje czyli czym dla dlaczego do dokąd dużo gdy gdyż gdzie go i ich ile
    ilu im ja jak jaka jaki jakich jakie jakiego jakiej jakiemu jakim jakimi jako jaką je jednak
    jego jej jemu jest jestem jeszcze jeśli już ją każdy kiedy kilka kilku kim kogo komu kto która
    które którego której który których którym którymi którzy którą lub ma mają mało mi mnie mniej
    mną mogą może można mu my na nad najwięcej nam nami nas nasz nawet nic nich nie nim nią niż
    no o od on ona one oni ono oraz po pod ponieważ przed przez przy się skąd sobie swoje swój są
    ta tak taka taki takie także tam te tego tej temu ten też to tobie tu twój ty tych tylko tym
    tę u w was we wiele wielu więcej wy z za ze że
"""

_PORTUGUESE = """
    a algum alguma algumas alguns ao aonde aos aquela aquelas aquele aqueles aquilo as até cada
    com como cuja cujas cujo cujos da das de dela delas dele deles depois do dos e ela elas ele
    eles em entre era eram essa essas esse esses esta estas estava este estes está estão eu foi
    foram há isso isto já la lhe lhes lo mais mas me menos mesmo meu meus minha minhas muita
    muitas muito muitos na nas nem no nos nossa nossas nosso nossos num numa não nós o onde os ou
    para pela pelas pelo pelos pode podem pois por porque porquê pouca poucas pouco poucos quais
    qual quando quanta quantas quanto quantos que quem quê se sem ser seu seus sido sob sobre sua
    suas são só também te tem tendo ter teu teus teve tinha tinham toda todas todo todos tu tua
    tuas têm um uma umas uns você vocês vos várias vários à às é
"""

_RUSSIAN = """
    а без больше бы был была были было быть в вам вами вас ваш вдруг ведь во вот все всего всем
    всех всё вы где да даже для до его ее ей ему если есть еще ещё её ж же за зачем здесь и из
    или им ими их к как какая какие каким какими каких каков какова каково каковы какого какое
    какой каком какому какою какую кем ко когда кого кому которая которого которое которой
    котором которому которую которые который которым которыми которых кто куда ли либо лишь мало
    меньше мне многие многих много мной могут может можно мы на над нам нами нас насколько наш не
    него нее ней несколько нет ни ними них но ну о об он она они оно от откуда отчего перед по
    под пока почему при про с сам свое свои свой себе себя скольких сколько со столько так также
    такой там тебе тебя тем то тобой того тоже той только том тот ту ты у уж уже хотя чего чей
    чем чему часто что чтобы чье чьего чьи чья чьё эта эти это этого этой этом этот эту я
"""

_SPANISH = """
    a adonde adónde al algo alguna algunas alguno algunos ante antes aquel aquella aquellas
    aquello aquellos aquí así aunque bastante cada como con contra cual cuales cuando cuanta
    cuantas cuanto cuantos cuya cuyas cuyo cuyos cuál cuáles cuándo cuánta cuántas cuánto cuántos
    cómo de del desde donde durante dónde e el ella ellas ello ellos en entre era eran eres es
    esa esas ese eso esos esta estaba estaban estas este esto estos está están fue fueron ha
    haber había habían han has hasta hay he la las le les lo los me menos mi mientras mis mucha
    muchas mucho muchos muy más mí nada ni no nos nosotros nuestra nuestras nuestro nuestros o os
    otra otras otro otros para pero poca pocas poco pocos por porque puede pueden pues que quien
    quienes quién quiénes qué se sea según ser si sido sin sobre son soy su sus suya suyo sí
    también tan te tenía ti tiene tienen toda todas todo todos tu tus tuya tuyo tú u un una unas
    uno unos varias varios vosotros vuestra vuestro y ya yo él
"""

_SWEDISH = """
    alla allt att av blev bli blir blivit de dem den denna deras dess dessa det detta dig din
    dina ditt du där då efter ej eller en er era ert ett fler flera flest från för ha hade han
    hans har henne hennes hon honom hos hur hurdan här i icke in ingen inget inom inte jag ju kan
    kunde lite man med mellan men mer mest mig min mina mindre mitt mot mycket många ni nu när
    någon något några ofta och om oss på samma sedan sig sin sina sitt själv ska skall skulle som så
    sådan till under upp ut utan vad var vara varför varifrån varit varje vars vart vem vems vi
    vid vilka vilkas vilken vilket vill vår våra vårt än är åt över
"""

_THAI = """
    อะไร อะไรบ้าง ใคร ของใคร ที่ไหน ไหน เมื่อไหร่ เมื่อไร เมื่อใด ทำไม อย่างไร ยังไง กี่ เท่าไร
    เท่าไหร่ เท่าใด ใด ใดบ้าง สิ่งใด เพราะเหตุใด หรือไม่ หรือ และ ของ ที่ ใน เป็น มี ได้ ให้ จาก
    โดย ว่า คือ กับ แก่ แต่ ก็ จะ นี้ นั้น เหล่านี้ เหล่านั้น อยู่ ไม่ ถูก ซึ่ง เพื่อ ต่อ ตาม ถึง
    มาก ไป มา แล้ว ยัง เขา เธอ มัน เรา ฉัน ผม คุณ พวกเขา ด้วย เมื่อ ถ้า เพราะ ระหว่าง บาง ทุก
    แต่ละ อื่น ว่าอะไร คืออะไร ใครคือ ใดที่ ใดคือ อะไรคือ คนใด ออะไร
"""

_TURKISH = """
    a ama ancak arasında az bana bazı ben beni benim bile bir biz bize bizi bizim bu buna bundan
    bunlar bunu bunun bütün da daha daki dan de deki den değil değildir dir diye dur dür dır e
    eder edildi edilen en etmek etti fakat gibi göre hangi hangileri hangisi hem hep her hiç i
    idi ile imiş in ine ini ise için kadar kaç kaçta kaçtır kaçı kaçıncı ki kim kimden kimdi
    kimdir kime kimi kimin kimler kimlerdir la le mi midir miydi mu mudur muydu mü müdür müydü mı
    mıdır mıydı na nasıl ne neden nedir neler nelerdir nelere neleri nerede nereden neresi
    neresinde nereye neyden neydi neye neyi neyin neyle nin niye niçin nun nün nın o olan olarak
    oldu olduğu olduğunu olmak olup olur ona ondan onlar onların onu onun sana sen seni senin si
    siz size sizi sizin sonra su sü sı ta taki tan tarafından te teki ten tir tur tüm tür tır u
    un una unu var ve veya ya ye yi yla yle yok yu yü yı zaman çok çünkü önce ü ün üne ünü üzere
    ı ın ına ını şey şu şuna şunlar şunu şunun
"""


def _split(listed: str, size: int) -> frozenset[str]:
    """Return every `size` characters of the words of a list, and shorter words whole."""
    return frozenset(
        word[start : start + size]
        for word in listed.split()
        for start in range(max(len(word) - size, 0) + 1)
    )


STOP_WORDS: dict[str, frozenset[str]] = {
    "arabic": frozenset(_ARABIC.split()),
    "chinese": _split(_CHINESE, 2),
    "danish": frozenset(_DANISH.split()),
    "dutch": frozenset(_DUTCH.split()),
    "english": frozenset(_ENGLISH.split()),
    "finnish": frozenset(_FINNISH.split()),
    "french": frozenset(_FRENCH.split()),
    "german": frozenset(word.casefold() for word in _GERMAN.split()),
    "italian": frozenset(_ITALIAN.split()),
    "japanese": _split(_JAPANESE, 2),
    "korean": _split(_KOREAN, 2),
    "norwegian": frozenset(_NORWEGIAN.split()),
    "polish": frozenset(_POLISH.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "russian": frozenset(_RUSSIAN.split()),
    "spanish": frozenset(_SPANISH.split()),
    "swedish": frozenset(_SWEDISH.split()),
    "thai": _split(_THAI, 3),
    "turkish": frozenset(_TURKISH.split()),
}
"""Case-folded function words by the name of the stemmer; other languages have none."""

_MIN_FOUND = 5
"""Minimum number of distinct stop words that tell a language: "sea" is one in Spanish."""


def guess_stemmer(words: AbstractSet[str]) -> str:
    """Return the stemmer of the language whose stop words a text with these words has most.

    In doubt it is English.
    """
    listed = _stemmers_of()
    found = Counter(chain.from_iterable(map(listed.__getitem__, listed.keys() & words)))
    best = "english"
    most = max(found[best], _MIN_FOUND - 1)
    for name in STOP_WORDS:
        if found[name] > most:
            best, most = name, found[name]
    return best


# Shared by threads: a cache of a dictionary that never changes.
@cache
def _stemmers_of() -> dict[str, list[str]]:
    """Return the stemmers of the languages in which each word is a stop word."""
    found: dict[str, list[str]] = {}
    for name, listed in STOP_WORDS.items():
        for word in listed:
            found.setdefault(word, []).append(name)
    return found
