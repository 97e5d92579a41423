"""Function words of languages with a stemmer: articles, pronouns, prepositions, auxiliaries.

They are left out of queries, never out of texts. The lists are short on purpose: a word that is a
name or a noun as well, such as the English "may" or "will", decides more than it disturbs. What an
apostrophe leaves of a contraction is listed too, because words end there.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

_DANISH = """
    ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din
    disse dit dog du efter eller en end er et for fra ham han hans har havde have hende hendes
    her hos hun hvad hvem hver hvilke hvilken hvis hvor hvordan hvorfor hvornår i ikke ind jeg
    jer jo kan kunne man mange med meget men mig min mine mit mod ned noget nogle nu når og også
    om op os over på sig sin sine sit skal skulle som sådan thi til ud under var vi vil ville vor
    være været
"""

_DUTCH = """
    aan al als bij dan dat de der deze die dit doch doen door dus een en er ge geen haar had
    hadden heb hebben heeft hem het hier hij hoe hun ik in is je jij jou jouw jullie kan kon
    kunnen maar me men met mij mijn moet na naar niet nog nu of om ons onze ook op over s t te
    tegen toch toen tot u uit uw van veel voor waar waarom wanneer want waren was wat we welk
    welke werd werden wie wij wil word worden wordt zal ze zei zich zij zijn zo zonder zou zouden
"""

_ENGLISH = """
    a about after again against all also am an and any are aren as at be because been before
    being between both but by can could couldn d did didn do does doesn doing during each few for
    from further had hadn has hasn have haven having he her here hers herself him himself his how
    i if in into is isn it its itself just ll m me more most my myself no nor not of off on once
    only or other our ours ourselves out over own re s same she should shouldn so some such t
    than that the their theirs them themselves then there these they this those through to too
    under until up upon ve very was wasn we were weren what when where which while who whom whose
    why with would wouldn you your yours yourself yourselves
"""

_FINNISH = """
    ei eikä eivät emme en ette että he heidän heille heitä hän hänelle hänen hänet häntä itse ja
    jo joka jonka jos jossa jota jotka kanssa ketä kuin kuka kun me mihin miksi mikä milloin
    minkä minua minulla minulle minun minä missä miten mitä mukaan mutta myös ne niiden niin
    niitä nuo nyt ole olemme olen olet olette oli olivat olla ollut on ovat se sekä sen siellä
    siihen siinä sille sinun sinä sitä tai te teidän tuo tuon tämä tämän tässä tätä vaan vai vain
"""

_FRENCH = """
    ai aie ainsi alors as au aucun aucune aussi autre autres aux avaient avait avec avez avoir
    avons c car ce ceci cela celle celles celui ces cet cette ceux chez comme comment d dans de
    depuis des donc dont du elle elles en entre es est et eu eux fut ici il ils j je jusqu jusque
    l la le les leur leurs lorsque lui là m ma mais me mes moi mon même n ne ni nos notre nous on
    ont ou où par parce pas pendant peu plus pour pourquoi puis qu quand que quel quelle quelles
    quels qui quoi s sa sans se sera ses si soi sommes son sont sous suis sur t ta te tes toi ton
    tous tout toute toutes très tu un une vos votre vous y à étaient était étant été êtes être
"""

_GERMAN = """
    aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis
    bist da damit dann das dass daß dein deine deinem deinen deiner dem den denn der deren des
    dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem
    einen einer eines er es etwas euch euer eure für gegen gewesen hab habe haben hat hatte
    hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in indem ins ist
    ja jede jedem jeden jeder jedes jene jenem jenen jener jenes kann kein keine keinem keinen
    keiner können könnte man manche mein meine meinem meinen meiner mich mir mit muss muß nach
    nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seines selbst
    sich sie sind so solche soll sollte sondern sonst um und uns unser unsere unter vom von vor
    war waren warum was weil welche welchem welchen welcher welches wem wen wenn wer werde werden
    wessen wie wieder wird wo worden wurde wurden während wäre würde würden zu zum zur zwischen
    über
"""

_ITALIAN = """
    a abbia agli ai al alla alle allo anche avere aveva avevano c che chi ci cioè ciò coi col
    come con contro cui d da dagli dai dal dalla dalle dallo degli dei del dell della delle dello
    dentro di dopo dove e ebbe ed era erano essere fra fu furono gli ha hai hanno ho i il in io l
    la le lei li lo loro lui ma me mentre mi mia mie miei mio ne negli nei nel nella nelle nello
    no noi non nostra nostre nostri nostro o ogni per perché però più poi qual quale quali quando
    quanto quella quelle quelli quello questa queste questi questo qui se sei si sia siamo sono
    sotto sta stata stato su sua sue sugli sui sul sulla sulle sullo suo suoi te ti tra tu tua
    tue tuo tuoi un una uno vi voi vostra vostro è
"""

_NORWEGIAN = """
    alle at av bare begge ble blei bli blir blitt både da de deg dei deim deira den denne der
    dere deres det dette di din disse ditt du då eg ein eit eitt eller en enn er et ett etter for
    fordi fra frå før ha hadde han hans har ho hos hun hva hvem hver hvilke hvilken hvis hvor
    hvordan hvorfor i ikke ikkje inn ja jeg kan kom korleis korso kunne kva kvar kven kvifor man
    mange med meg meget mellom men mi min mitt mot mykje ned noe noen noko nokon nå når og også
    om opp oss over på seg si sia sidan siden sin sine sitt skal skulle slik so som somme så til
    um under upp ut uten var vart vere verte vi vil ville vore vors vort vår være vært å
"""

_POLISH = """
    a aby albo ale ależ ani az bardzo bez bo by być był była było były ci cię co czemu czy czyli
    dla dlaczego do gdy gdyż gdzie go i ich ile im ja jak jaka jaki jakie jako je jednak jego jej
    jemu jest jestem jeszcze jeśli już ją każdy kiedy kto która które którego której który
    których którym którzy lub ma mają mi mnie mną mu my na nad nam nami nas nasz nawet nic nich
    nie nim nią niż no o od on ona one oni ono oraz po pod ponieważ przed przez przy się sobie
    swoje swój są ta tak taka taki takie także tam te tego tej temu ten też to tobie tu twój ty
    tych tylko tym tę u w was we wy z za ze że
"""

_PORTUGUESE = """
    a ao aos aquela aquelas aquele aqueles aquilo as até com como da das de dela delas dele deles
    depois do dos e ela elas ele eles em entre era eram essa essas esse esses esta estas estava
    este estes está estão eu foi foram há isso isto já la lhe lhes lo mais mas me mesmo meu meus
    minha minhas muito na nas nem no nos nossa nossas nosso nossos num numa não nós o onde os ou
    para pela pelas pelo pelos pois por porque porquê quais qual quando que quem quê se sem ser
    seu seus sido sob sobre sua suas são só também te tem tendo ter teu teus teve tinha tinham tu
    tua tuas têm um uma umas uns você vocês vos à às é
"""

_RUSSIAN = """
    а без бы был была были было быть в вам вами вас ваш вдруг ведь во вот все всего всем всех всё
    вы где да даже для до его ее ей ему если есть еще ещё её ж же за зачем здесь и из или им ими
    их к как какая какие какой ко когда которая которого которое которой которые который которых
    кто куда ли либо лишь мне мной мы на над нам нами нас наш не него нее ней нет ни ними них но
    ну о об он она они оно от перед по под пока почему при про с сам свое свои свой себе себя
    сколько со так также такой там тебе тебя тем то тобой того тоже той только том тот ту ты у уж
    уже хотя чего чей чем что чтобы чье чья эта эти это этого этой этом этот эту я
"""

_SPANISH = """
    a al algo alguna algunas alguno algunos ante antes aquel aquella aquellas aquello aquellos
    aquí así aunque cada como con contra cual cuales cuando cuál cuáles cuándo cuánto cómo de del
    desde donde durante dónde e el ella ellas ello ellos en entre era eran eres es esa esas ese
    eso esos esta estaba estaban estas este esto estos está están fue fueron ha haber había
    habían han has hasta hay he la las le les lo los me mi mientras mis mucho muy más mí nada ni
    no nos nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros para pero poco
    por porque pues que quien quienes quién quiénes qué se sea según ser si sido sin sobre son
    soy su sus suya suyo sí también tan te tenía ti tiene tienen todo todos tu tus tuya tuyo tú u
    un una unas uno unos vosotros vuestra vuestro y ya yo él
"""

_SWEDISH = """
    alla allt att av blev bli blir blivit de dem den denna deras dess dessa det detta dig din
    dina ditt du där då efter ej eller en er era ert ett från för ha hade han hans har henne
    hennes hon honom hos hur här i icke in ingen inom inte jag ju kan kunde man med mellan men
    mig min mina mitt mot mycket ni nu när någon något några och om oss på samma sedan sig sin
    sina sitt själv ska skall skulle som så sådan till under upp ut utan vad var vara varför
    varit varje vars vart vem vems vi vid vilka vilken vilket vill vår våra vårt än är åt över
"""

STOP_WORDS: dict[str, frozenset[str]] = {
    "danish": frozenset(_DANISH.split()),
    "dutch": frozenset(_DUTCH.split()),
    "english": frozenset(_ENGLISH.split()),
    "finnish": frozenset(_FINNISH.split()),
    "french": frozenset(_FRENCH.split()),
    "german": frozenset(word.casefold() for word in _GERMAN.split()),
    "italian": frozenset(_ITALIAN.split()),
    "norwegian": frozenset(_NORWEGIAN.split()),
    "polish": frozenset(_POLISH.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "russian": frozenset(_RUSSIAN.split()),
    "spanish": frozenset(_SPANISH.split()),
    "swedish": frozenset(_SWEDISH.split()),
}
"""Case-folded function words by the name of the stemmer; other languages have none."""

_MIN_FOUND = 5
"""Minimum number of distinct stop words that tell a language: "sea" is one in Spanish."""


def guess_stemmer(words: AbstractSet[str]) -> str:
    """Return the stemmer of the language whose stop words a text with these words has most.

    In doubt it is English.
    """
    best = "english"
    most = max(len(STOP_WORDS[best] & words), _MIN_FOUND - 1)
    for name, listed in STOP_WORDS.items():
        if (found := len(listed & words)) > most:
            best, most = name, found
    return best
