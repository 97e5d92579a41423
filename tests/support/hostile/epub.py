"""Books whose parts contradict, repeat or point at each other."""

from tests.support.hostile.docx import png
from tests.support.hostile.parts import EPUB, HEAD, epub, epub_parts
from tests.support.hostile.registry import Trap, add, hostile, hostile_files
from tests.support.hostile.xml_attacks import ALL, FEW
from tests.support.hostile.zip_maker import archive, member, members_of

Made = tuple[str, bytes]
OPF = "OEBPS/content.opf"
CHAPTER = "OEBPS/c1.xhtml"


def package(items: str, spine: str) -> str:
    return (
        f'{HEAD}<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata/>'
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )


def item(id: str, href: str, more: str = "") -> str:
    return f'<item id="{id}" href="{href}" media-type="application/xhtml+xml" {more}/>'


def page(content: str, head: str = "") -> str:
    return (
        f'{HEAD}<html xmlns="http://www.w3.org/1999/xhtml"><head>{head}</head>'
        f"<body><p>Text.</p>{content}</body></html>"
    )


def with_package(items: str, spine: str, **parts: str | bytes) -> Made:
    return "a.epub", epub({OPF: package(items, spine), **parts})


def container(*paths: str) -> str:
    files = "".join(
        f'<rootfile full-path="{path}" media-type="application/oebps-package+xml"/>'
        for path in paths
    )
    space = "urn:oasis:names:tc:opendocument:xmlns:container"
    return f'{HEAD}<container xmlns="{space}"><rootfiles>{files}</rootfiles></container>'


@hostile
def chapters_that_lead_out(trap: Trap) -> Made:
    paths = [
        f"../../..{trap.secret}", trap.secret, f"file://{trap.secret}", trap.url,
        f"%2e%2e/%2e%2e{trap.secret}", f"..\\..{trap.secret}", "c1.xhtml%00.txt", "", "#", "?",
        "//127.0.0.1/share", "%", "%zz", "c1.xhtml#a#b",
    ]  # fmt: skip
    items = "".join(item(f"i{n}", path) for n, path in enumerate(paths))
    return with_package(items, "".join(f'<itemref idref="i{n}"/>' for n in range(len(paths))))


@hostile
def one_chapter_under_many_names(trap: Trap) -> Made:
    chapter = page("<p>" + "Again and again. " * 20_000 + "</p>")
    items = "".join(item(f"i{n}", f"./{'x/../' * (n % 5)}c1.xhtml") for n in range(1500))
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(1500))
    return with_package(items, spine, **{CHAPTER: chapter})


def nested_list(depth: int) -> str:
    before = '<ol><li><a href="c1.xhtml">x</a>' * depth
    return EPUB["OEBPS/nav.xhtml"].replace("</nav>", before + "</li></ol>" * depth + "</nav>")


@hostile
def points_in_points(trap: Trap) -> Made:
    point = '<navPoint id="x"><navLabel><text>x</text></navLabel><content src="c1.xhtml"/>'
    deep = f"<navMap>{point * 10_000}{'</navPoint>' * 10_000}"
    return "a.epub", epub({"OEBPS/toc.ncx": EPUB["OEBPS/toc.ncx"].replace("<navMap>", deep)})


@hostile
def very_many_points(trap: Trap) -> Made:
    point = '<navPoint id="x"><navLabel><text>x</text></navLabel><content src="c1.xhtml#{}"/>'
    points = "".join(f"{point.format(number)}</navPoint>" for number in range(15_000))
    ncx = EPUB["OEBPS/toc.ncx"].replace("<navMap>", f"<navMap>{points}")
    anchors = "".join(f'<a id="{number}"/>' for number in range(15_000))
    return "a.epub", epub({"OEBPS/toc.ncx": ncx, CHAPTER: page(anchors)})


@hostile
def pages_that_load(trap: Trap) -> Made:
    content = (
        f'<img src="{trap.url}"/><iframe src="{trap.url}"/><object data="{trap.url}"/>'
        f'<script src="{trap.url}"/><link rel="stylesheet" href="{trap.url}"/>'
        f'<video poster="{trap.url}" src="{trap.url}"/><img src="file://{trap.secret}"/>'
    )
    head = f'<base href="{trap.url}"/><meta http-equiv="refresh" content="0;url={trap.url}"/>'
    return "a.epub", epub({CHAPTER: page(content, head)})


@hostile
def picture_that_explodes(trap: Trap) -> Made:
    items = item("c1", "c1.xhtml") + '<item id="p" href="p.png" media-type="image/png"/>'
    parts = {
        CHAPTER: page('<img src="p.png"/>' * 50),
        "OEBPS/p.png": png(65535, 65535, bytes(9**8)),
    }
    return with_package(items, '<itemref idref="c1"/>', **parts)


@hostile
def locked_by_a_shop(trap: Trap) -> Made:
    lock = (
        f'{HEAD}<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" '
        'xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData>'
        '<enc:EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/>'
        f'<enc:CipherData><enc:CipherReference URI="{CHAPTER}"/></enc:CipherData>'
        "</enc:EncryptedData></encryption>"
    )
    return "a.epub", epub({"META-INF/encryption.xml": lock, CHAPTER: bytes(range(256)) * 20})


@hostile
def with_a_packed_mark(trap: Trap) -> Made:
    parts = epub_parts()
    return "a.epub", archive([member("mimetype", parts.pop("mimetype")), *members_of(parts)])


hostile_files(
    "epub",
    spine_of_the_package_itself=lambda trap: with_package(
        item("c1", "content.opf"), '<itemref idref="c1"/>'
    ),
    spine_of_nothing=lambda trap: with_package(
        "", '<itemref idref="c1"/><itemref/><itemref idref=""/>'
    ),
    chapters_that_are_missing=lambda trap: with_package(
        item("c1", "no.xhtml"), '<itemref idref="c1"/>'
    ),
    one_chapter_very_often=lambda trap: with_package(
        item("c1", "c1.xhtml"),
        '<itemref idref="c1"/>' * 20_000,
        **{CHAPTER: page("<p>" + "Again and again. " * 20_000 + "</p>")},
    ),
    very_many_items=lambda trap: with_package(
        "".join(item(f"i{n}", f"{n}.xhtml") for n in range(30_000)) + item("c1", "c1.xhtml"),
        '<itemref idref="c1"/>',
    ),
    items_of_one_name=lambda trap: with_package(
        item("c1", "a.xhtml") + item("c1", "c1.xhtml"), '<itemref idref="c1"/><itemref idref="c1"/>'
    ),
    fallbacks_in_a_circle=lambda trap: with_package(
        (
            '<item id="a" href="a.bin" media-type="x/y" fallback="b"/>'
            '<item id="b" href="b.bin" media-type="x/y" fallback="a"/>'
        ),
        '<itemref idref="a"/>',
    ),
    container_that_leads_out=lambda trap: (
        "a.epub",
        epub(
            {
                "META-INF/container.xml": container(
                    *(f"../../..{trap.secret}", trap.secret, trap.url, "", "META-INF/container.xml")
                )
            }
        ),
    ),
    container_without_a_package=lambda trap: (
        "a.epub",
        epub({"META-INF/container.xml": container()}),
    ),
    container_of_very_many_packages=lambda trap: (
        "a.epub",
        epub({"META-INF/container.xml": container(*[OPF] * 50_000)}),
    ),
    container_of_itself=lambda trap: (
        "a.epub",
        epub({"META-INF/container.xml": container("META-INF/container.xml")}),
    ),
    contents_in_contents=lambda trap: ("a.epub", epub({"OEBPS/nav.xhtml": nested_list(100)})),
    contents_in_very_many_contents=lambda trap: (
        "a.epub",
        epub({"OEBPS/nav.xhtml": nested_list(10_000)}),
    ),
    contents_that_are_a_chapter=lambda trap: with_package(
        item("n", "nav.xhtml", 'properties="nav"'), '<itemref idref="n"/><itemref idref="n"/>'
    ),
    contents_that_lead_out=lambda trap: (
        "a.epub",
        epub(
            {
                "OEBPS/nav.xhtml": EPUB["OEBPS/nav.xhtml"].replace(
                    "@@",
                    f'<a href="../../..{trap.secret}">x</a><a href="{trap.url}">y</a>'
                    '<a href="%00">z</a>',
                )
            }
        ),
    ),
    pictures_that_lead_out=lambda trap: (
        "a.epub",
        epub(
            {
                CHAPTER: page(
                    f'<img src="../../../..{trap.secret}"/><img src="../../x"/>'
                    '<img src="%2e%2e/y"/>'
                )
            }
        ),
    ),
    picture_as_a_chapter=lambda trap: with_package(
        '<item id="p" href="p.png" media-type="image/png"/>',
        '<itemref idref="p"/>',
        **{"OEBPS/p.png": png(2, 2, bytes(14))},
    ),
    without_its_mark=lambda trap: (
        "a.epub",
        archive(members_of({k: v for k, v in epub_parts().items() if k != "mimetype"})),
    ),
    with_a_wrong_mark=lambda trap: ("a.epub", epub({"mimetype": "application/zip"})),
    called_a_document=lambda trap: ("a.docx", epub()),
    chapters_that_are_nothing=lambda trap: (
        "a.epub",
        epub({CHAPTER: page("").replace("Text.", " \u200b\ufeff ")}),
    ),
)


@hostile
def properties_without_end(trap: Trap) -> Made:
    creators = "<dc:creator>A B</dc:creator><dc:subject>s</dc:subject>" * 50_000
    return "a.epub", epub({OPF: EPUB[OPF].replace("<dc:title>", f"{creators}<dc:title>")})


@hostile
def refined_in_a_circle(trap: Trap) -> Made:
    refined = '<meta id="a" refines="#b">x</meta><meta id="b" refines="#a">y</meta>'
    return "a.epub", epub({OPF: EPUB[OPF].replace("</metadata>", f"{refined}</metadata>")})


def _add_attack(part: str, name: str) -> None:
    short = part.rpartition("/")[2].partition(".")[0]
    attack = ALL[name]
    add(f"epub-{short}-{name}", lambda trap: ("a.epub", epub({part: attack(EPUB[part], trap)})))


for _attack in ALL:
    _add_attack(CHAPTER, _attack)
for _part in ("META-INF/container.xml", OPF, "OEBPS/nav.xhtml", "OEBPS/toc.ncx"):
    for _attack in FEW:
        _add_attack(_part, _attack)
