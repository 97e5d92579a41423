"""Writes small PDF files by hand: words at places, outlines, properties, a password.

The font is Courier, in which every character is 0.6 of its size wide, so a test can calculate the
end of a line.
"""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CHARACTER_WIDTH = 0.6
_PAD = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_FONT = (
    b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding "
    b"<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [1 /fi 2 /fl 3 /ffi] >> >>"
)


class Words(NamedTuple):
    """A text whose first character stands at a place, measured from the lower left of the page."""

    x: float
    y: float
    text: str
    size: float = 10.0


@dataclass(frozen=True)
class Page:
    """A page, 612 by 792 points; `picture` covers it with an image."""

    words: Sequence[Words] = ()
    rotate: int = 0
    picture: bool = False
    crop: tuple[int, int, int, int] | None = None
    raw: bytes = b""
    """Operators that are put before the words."""


class Bookmark(NamedTuple):
    """An entry of the outline. `y` is the height it points to; without, the top of the page."""

    title: str
    page: int
    y: float | None = None
    level: int = 0


@dataclass
class Objects:
    """The numbered objects of a file, from 1 on."""

    bodies: list[bytes] = field(default_factory=list)

    def reserve(self) -> int:
        self.bodies.append(b"null")
        return len(self.bodies)

    def add(self, body: bytes) -> int:
        self.bodies.append(body)
        return len(self.bodies)

    def put(self, number: int, body: bytes) -> None:
        self.bodies[number - 1] = body


def column(
    lines: Sequence[str], *, x: float = 72, top: float = 720, pitch: float = 12, size: float = 10
) -> list[Words]:
    return [Words(x, top - pitch * number, line, size) for number, line in enumerate(lines)]


def make_pdf(
    pages: Sequence[Page],
    *,
    outline: Sequence[Bookmark] = (),
    properties: Mapping[str, str] | None = None,
    language: str = "",
    password: str | None = None,
    catalog: bytes = b"",
) -> bytes:
    """Return a file of these pages, encrypted if there is a `password`."""
    objects = Objects()
    root, tree, font, image = (objects.reserve() for _ in range(4))
    objects.put(font, _FONT)
    objects.put(
        image,
        stream(
            b"\x80",
            b"/Type /XObject /Subtype /Image /Width 1 /Height 1 "
            b"/ColorSpace /DeviceGray /BitsPerComponent 8",
        ),
    )
    numbers = [_add_page(objects, page, tree, font, image) for page in pages]
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects.put(tree, b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(numbers)))
    marks = _add_outline(objects, outline, numbers)
    extra = catalog + (b" /Lang " + literal(language) if language else b"")
    if marks:
        extra += b" /Outlines %d 0 R" % marks
    objects.put(root, b"<< /Type /Catalog /Pages %d 0 R %s >>" % (tree, extra))
    trailer = b"/Root %d 0 R" % root
    if properties:
        entries = b" ".join(b"/%s %s" % (k.encode(), text_string(v)) for k, v in properties.items())
        trailer += b" /Info %d 0 R" % objects.add(b"<< %s >>" % entries)
    return write(objects.bodies, trailer, password)


def write(bodies: Sequence[bytes], trailer: bytes, password: str | None = None) -> bytes:
    """Return the file of these objects, with its cross-reference table."""
    bodies = list(bodies)
    if password is not None:
        key, entries = _lock(password)
        bodies = [_encrypted(key, number, body) for number, body in enumerate(bodies, 1)]
        bodies.append(entries)
        trailer += b" /Encrypt %d 0 R /ID [<%s><%s>]" % (len(bodies), b"00" * 16, b"00" * 16)
    parts, length, places = [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"], 15, []
    for number, body in enumerate(bodies, 1):
        places.append(length)
        parts.append(b"%d 0 obj\n%s\nendobj\n" % (number, body))
        length += len(parts[-1])
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1))
    parts += [b"%010d 00000 n \n" % place for place in places]
    end = b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n"
    parts.append(end % (len(bodies) + 1, trailer, length))
    return b"".join(parts)


def stream(content: bytes, entries: bytes = b"", *, squeeze: bool = False) -> bytes:
    if squeeze:
        content, entries = zlib.compress(content, 9), entries + b" /Filter /FlateDecode"
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(content), content)


def literal(text: str) -> bytes:
    """Return a string as a content stream shows it, in hexadecimal; letters of Windows-1252."""
    return b"<%s>" % _encoded(text).hex().encode()


def text_string(text: str) -> bytes:
    """Return a string of the kind that properties and titles have: UTF-16."""
    return b"<feff%s>" % text.encode("utf-16-be").hex().encode()


def _encoded(text: str) -> bytes:
    ligatures = {"ﬁ": b"\x01", "ﬂ": b"\x02", "ﬃ": b"\x03"}
    return b"".join(ligatures.get(char) or char.encode("cp1252") for char in text)


def _add_page(objects: Objects, page: Page, tree: int, font: int, image: int) -> int:
    shown = b"".join(
        b"BT /F1 %g Tf 1 0 0 1 %g %g Tm %s Tj ET\n" % (w.size, w.x, w.y, literal(w.text))
        for w in page.words
    )
    picture = b"q 612 0 0 792 0 0 cm /I1 Do Q\n" if page.picture else b""
    content = objects.add(stream(page.raw + picture + shown))
    crop = b"/CropBox [%d %d %d %d]" % page.crop if page.crop else b""
    return objects.add(
        b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 612 792] %s /Rotate %d /Contents %d 0 R "
        b"/Resources << /Font << /F1 %d 0 R >> /XObject << /I1 %d 0 R >> >> >>"
        % (tree, crop, page.rotate, content, font, image)
    )


def _add_outline(objects: Objects, outline: Sequence[Bookmark], pages: Sequence[int]) -> int:
    """Add the entries and their root; return its number, 0 without any."""
    if not outline:
        return 0
    root = objects.reserve()
    numbers = [objects.reserve() for _ in outline]
    parents = [_parent(outline, place) for place in range(len(outline))]
    for place, mark in enumerate(outline):
        entries = b"/Title %s" % text_string(mark.title)
        above = parents[place]
        entries += b" /Parent %d 0 R" % (numbers[above] if above >= 0 else root)
        entries += _destination(mark, pages)
        siblings = [other for other in range(len(outline)) if parents[other] == above]
        here = siblings.index(place)
        if here:
            entries += b" /Prev %d 0 R" % numbers[siblings[here - 1]]
        if here + 1 < len(siblings):
            entries += b" /Next %d 0 R" % numbers[siblings[here + 1]]
        entries += _children(numbers, parents, place)
        objects.put(numbers[place], b"<< %s >>" % entries)
    objects.put(root, b"<< /Type /Outlines %s >>" % _children(numbers, parents, -1))
    return root


def _parent(outline: Sequence[Bookmark], place: int) -> int:
    level = outline[place].level
    return next((p for p in range(place - 1, -1, -1) if outline[p].level < level), -1)


def _children(numbers: Sequence[int], parents: Sequence[int], place: int) -> bytes:
    kids = [number for number, above in zip(numbers, parents, strict=True) if above == place]
    if not kids:
        return b""
    return b" /First %d 0 R /Last %d 0 R /Count %d" % (kids[0], kids[-1], len(kids))


def _destination(mark: Bookmark, pages: Sequence[int]) -> bytes:
    if not 0 <= mark.page < len(pages):
        return b""
    view = b"/Fit" if mark.y is None else b"/XYZ 0 %g 0" % mark.y
    return b" /Dest [%d 0 R %s]" % (pages[mark.page], view)


def _lock(password: str) -> tuple[bytes, bytes]:
    """Return the key and the entries of the simplest encryption, 40 bits of RC4."""
    user = (password.encode("cp1252") + _PAD)[:32]
    owner = _rc4(hashlib.md5(user).digest()[:5], user)
    allowed = (-4).to_bytes(4, "little", signed=True)
    key = hashlib.md5(user + owner + allowed + bytes(16)).digest()[:5]
    entries = b"<< /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >>"
    return key, entries % (owner.hex().encode(), _rc4(key, _PAD).hex().encode())


def _encrypted(key: bytes, number: int, body: bytes) -> bytes:
    """Encrypt the stream of an object, but no strings, so that titles are read as gibberish."""
    head, mark, rest = body.partition(b"\nstream\n")
    if not mark:
        return body
    content = rest.removesuffix(b"\nendstream")
    own = hashlib.md5(key + number.to_bytes(3, "little") + bytes(2)).digest()[:10]
    return head + mark + _rc4(own, content) + b"\nendstream"


def _rc4(key: bytes, content: bytes) -> bytes:
    state, swap = list(range(256)), 0
    for place in range(256):
        swap = (swap + state[place] + key[place % len(key)]) % 256
        state[place], state[swap] = state[swap], state[place]
    result, first, second = bytearray(), 0, 0
    for byte in content:
        first = (first + 1) % 256
        second = (second + state[first]) % 256
        state[first], state[second] = state[second], state[first]
        result.append(byte ^ state[(state[first] + state[second]) % 256])
    return bytes(result)
