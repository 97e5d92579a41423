"""Web pages from hosts that the operator allows.

Owns: requests for pages, redirects, robots.txt, and the errors for failures.
Does not own: the documents that pages become, and the content of pages.
Must hold: every request, redirects and robots.txt included, goes to an allowed host at an allowed
address; no proxy of the environment is used, no cookie or key is sent; time and size are bounded.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Sequence
from http.client import HTTPException, HTTPResponse, IncompleteRead
from importlib.metadata import version
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from truespan import errors
from truespan.extensions.crawl.addresses import is_public
from truespan.extensions.crawl.pages import (
    check_url,
    find_pages_of_sitemap,
    host_matches,
    name_page,
    name_to_parse,
    with_encoding,
    with_pages,
)
from truespan.protocols import Clock
from truespan.providers.outbound import (
    AddressRefused,
    Bounds,
    Connection,
    Target,
    is_allowed,
)
from truespan.settings.catalogue import Settings, split_list
from truespan.types.source import DocumentOptions, Entry, FoundSources, Page
from truespan.types.text import Validators

AGENT = "truespan"
MAX_REDIRECTS = 5
ROBOTS_BYTES = 512 << 10
ROBOTS_SECONDS = 3600.0
"""Seconds that the rules of a host are kept."""
MAX_VALIDATOR_LENGTH = 1000
BOUNDS = Bounds(connect_seconds=10.0, read_seconds=30.0, total_seconds=120.0, piece_seconds=30.0)
_PIECE = 1 << 16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GONE = frozenset({404, 410})
_ACCEPT = "text/html, application/xhtml+xml, application/pdf, text/*;q=0.9, */*;q=0.5"


class _Host(Struct):
    robots: Robots
    until: float
    free_at: float = 0.0


# Shared by threads: the rules of a host are read and replaced under a lock, which is not held while
# a server is asked; two threads may request a robots.txt twice.
class WebPages:
    """A client for pages of the hosts of `ingest_hosts`. Threads may share it."""

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        clock: Clock,
        version: str,
        max_bytes: int,
        private: bool = False,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._hosts = tuple(hosts)
        self._clock = clock
        self._agent = f"{AGENT}/{version}"
        self._max_bytes = max_bytes
        self._allows: Callable[[str], bool] = is_allowed if private else is_public
        self._bounds = bounds
        self._known: dict[str, _Host] = {}
        self._lock = threading.Lock()

    def check(self, url: str) -> str:
        """Return the normalised URL of a page; raises InvalidArgument if it may not be read."""
        checked = check_url(url)
        if not self._is_allowed_host(checked):
            host = urlsplit(checked).hostname
            raise errors.InvalidArgument(
                f"{host} is not in ingest_hosts.",
                advice=f"To allow it, add {host!r} to the setting ingest_hosts.",
            )
        return checked

    def fetch(self, url: str, known: Validators | None = None) -> Page:
        """Return a page; without content if it has not changed since the known version."""
        url = self.check(url)
        headers = {}
        if known is not None and known.etag:
            headers["If-None-Match"] = known.etag
        if known is not None and known.last_modified:
            headers["If-Modified-Since"] = known.last_modified
        deadline = self._clock.monotonic() + self._bounds.total_seconds
        page, status = self._follow(url, headers, deadline, self._max_bytes, self._obey)
        if status == 304 and headers:
            return Page(page.url, None)
        if status in _GONE:
            raise errors.SourceRefused(
                "source_missing", url, advice=f"The server says that it is gone (status {status})."
            )
        if status in (401, 403, 451):
            raise errors.SourceRefused(
                "page_refused", url, advice=f"The server does not allow it (status {status})."
            )
        if not 200 <= status < 300 or status in (204, 205, 206):
            raise errors.SourceRefused(
                "page_unavailable", url, advice=f"The server answered with status {status}."
            )
        name = name_to_parse(name_page(url), page.content_type)
        content = with_encoding(page.content or b"", page.content_type)
        return replace(page, name=name, content=content)

    def add_pages(
        self, found: FoundSources, entries: Sequence[Entry], *, manifest: str = ""
    ) -> FoundSources:
        return with_pages(found, self.check, entries, manifest=manifest)

    def read_sitemap(self, url: str, declared: DocumentOptions, *, fetch: bool) -> FoundSources:
        origin = self.check(url)
        if not fetch:
            return FoundSources()
        return find_pages_of_sitemap(origin, declared, check=self.check, fetch=self.fetch)

    def _follow(
        self,
        url: str,
        headers: dict[str, str],
        deadline: float,
        limit: int,
        obey: Callable[[str, float], None],
    ) -> tuple[Page, int]:
        first = url
        for _ in range(MAX_REDIRECTS + 1):
            obey(url, deadline)
            page, status, location = self._request(url, first, headers, deadline, limit)
            if status not in _REDIRECTS or not location:
                return page, status
            try:
                target = check_url(location, url)
            except errors.InvalidArgument:
                raise errors.SourceRefused(
                    "page_refused", first, advice="It redirects to an invalid address."
                ) from None
            host = urlsplit(target).hostname
            if not self._is_allowed_host(target):
                advice = f"It redirects to {host}, which is not among ingest_hosts."
                raise errors.SourceRefused("page_refused", first, advice=advice)
            if url.startswith("https:") and not target.startswith("https:"):
                raise errors.SourceRefused(
                    "page_refused", first, advice="It redirects from https to http."
                )
            url = target
        raise errors.SourceRefused(
            "page_unavailable", first, advice=f"It redirects more than {MAX_REDIRECTS} times."
        )

    def _request(
        self, url: str, first: str, headers: dict[str, str], deadline: float, limit: int
    ) -> tuple[Page, int, str]:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host, path = parts.hostname or "", parts.path or "/"
        path = f"{path}?{parts.query}" if parts.query else path
        target = Target(parts.scheme, host, port, path)
        connection = Connection(target, self._bounds, self._clock, self._allows)
        connection.deadline = deadline
        sent = {"User-Agent": self._agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip", **headers}
        try:
            with connection.ask("GET", path, None, sent | {"Connection": "close"}) as response:
                location = response.headers.get("Location", "")
                wanted = 200 <= response.status < 300
                content = self._read(response, first, limit) if wanted else b""
        except AddressRefused:
            advice = f"{host} is at a private or reserved address; see ingest_private_addresses."
            raise errors.SourceRefused("page_refused", first, advice=advice) from None
        except (OSError, HTTPException, zlib.error) as error:
            timed_out = isinstance(error, TimeoutError)
            advice = f"{host} did not answer in time." if timed_out else f"{host} cannot be reached"
            if not timed_out:
                advice += ", or its answer was incomplete."
            raise errors.resource_error(error) or errors.SourceRefused(
                "page_unavailable", first, advice=advice
            ) from None
        finally:
            connection.close()
        page = Page(
            url,
            content,
            response.headers.get("Content-Type", ""),
            _validator(response.headers.get("ETag")),
            _validator(response.headers.get("Last-Modified")),
        )
        return page, response.status, location

    def _read(self, response: HTTPResponse, url: str, limit: int) -> bytes:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise errors.SourceRefused(
                "page_unavailable", url, advice="Its encoding was not requested."
            )
        unpacker = zlib.decompressobj(wbits=31) if "gzip" in encoding else None
        too_large = errors.SourceRefused(
            "source_too_large",
            url,
            advice=f"At most {limit >> 20} MiB are read; see source_max_mib.",
        )
        if (response.length or 0) > limit:
            raise too_large
        pieces: list[bytes] = []
        received = size = 0
        while piece := response.read1(_PIECE):
            received += len(piece)
            if received > limit:
                raise too_large
            if unpacker is not None:
                piece = unpacker.decompress(piece, limit + 1 - size)
            size += len(piece)
            if size > limit:
                raise too_large
            pieces.append(piece)
        declared = response.headers.get("Content-Length", "")
        if declared.isdigit() and received < int(declared):
            raise IncompleteRead(b"")
        if unpacker is not None and not unpacker.eof:
            raise IncompleteRead(b"")
        return b"".join(pieces)

    def _obey(self, url: str, deadline: float) -> None:
        """Raise SourceRefused if robots.txt forbids a URL; wait for the delay that it asks for."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        with self._lock:
            host = self._known.get(origin)
        if host is None or host.until <= self._clock.monotonic():
            host = _Host(self._robots(origin, deadline), self._clock.monotonic() + ROBOTS_SECONDS)
            with self._lock:
                self._known[origin] = host
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        if not host.robots.allows(path):
            raise errors.SourceRefused(
                "page_refused", url, advice="The robots.txt of its host does not allow it."
            )
        with self._lock:
            now = self._clock.monotonic()
            begin = max(now, host.free_at)
            host.free_at = begin + host.robots.delay
        if begin > now:
            self._clock.sleep(begin - now)

    def _robots(self, origin: str, deadline: float) -> Robots:
        url = f"{origin}/robots.txt"
        try:
            page, status = self._follow(url, {}, deadline, ROBOTS_BYTES, lambda *_: None)
        except errors.SourceRefused as refused:
            code, advice = refused.code, f"No page is read without it. {refused.advice}"
            if code == "source_too_large":
                code, advice = "page_refused", "The robots.txt of its host is too large."
            raise errors.SourceRefused(code, url, advice=advice) from None
        if 400 <= status < 500 and status != 429:
            return Robots()
        if not 200 <= status < 300:
            raise errors.SourceRefused(
                "page_unavailable",
                url,
                advice=f"No page is read without it; the server answered with {status}.",
            )
        return parse_robots((page.content or b"").decode("utf-8", "replace"), AGENT)

    def _is_allowed_host(self, url: str) -> bool:
        host = urlsplit(url).hostname or ""
        return any(host_matches(host, pattern) for pattern in self._hosts)


def make_pages(settings: Settings, clock: Clock, max_bytes: int) -> WebPages:
    """Return the client for the hosts of the settings."""
    return WebPages(
        split_list(settings.ingest.hosts),
        clock=clock,
        version=version("truespan"),
        max_bytes=max_bytes,
        private=settings.ingest.private_addresses,
    )


def _validator(value: str | None) -> str | None:
    if not value or len(value) > MAX_VALIDATOR_LENGTH:
        return None
    return value if value.isascii() and value.isprintable() else None


MAX_DELAY = 10.0
"""Maximum Crawl-delay, in seconds."""
MAX_RULES = 5000
MAX_WILDCARDS = 20
"""Maximum number of wildcards of a rule; other rules are ignored."""


class Robots(Struct, frozen=True):
    """Rules of one host for one program, and the pause between its requests."""

    rules: tuple[tuple[str, bool], ...] = ()
    """Patterns of paths; True allows, False disallows."""
    delay: float = 0.0

    def allows(self, path: str) -> bool:
        """Return whether a path with its query may be fetched.

        The longest matching rule counts; of two rules of equal length, the one that allows.
        """
        path = _normalize(path)
        best = max(
            ((len(rule), allow) for rule, allow in self.rules if _matches(rule, path)),
            default=(0, True),
        )
        return best[1] or path == "/robots.txt"


def parse_robots(text: str, agent: str) -> Robots:
    """Return the rules of the groups that name an agent, else the rules for all agents."""
    groups: dict[str, list[tuple[str, bool]]] = {}
    delays: dict[str, float] = {}
    names: list[str] = []
    in_rules = False
    for line in text.lstrip("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            names = [value.lower()] if in_rules else [*names, value.lower()]
            in_rules = False
            for name in names:
                groups.setdefault(name, [])
        elif key in ("allow", "disallow"):
            in_rules = True
            # An empty rule says nothing.
            if value and value.count("*") <= MAX_WILDCARDS:
                for name in names:
                    if len(groups[name]) < MAX_RULES:
                        groups[name].append((_normalize(value), key == "allow"))
        elif key == "crawl-delay":
            in_rules = True
            for name in names:
                delays[name] = _delay(value)
    chosen = agent.lower() if agent.lower() in groups else "*"
    return Robots(tuple(groups.get(chosen, ())), delays.get(chosen, 0.0))


def _delay(value: str) -> float:
    try:
        delay = float(value)
    except ValueError:
        return 0.0
    return min(delay, MAX_DELAY) if delay > 0 else 0.0


def _normalize(path: str) -> str:
    """Return a path with a uniform percent-encoding: `%7e` and `~` become equal."""
    head, mark, query = path.partition("?")
    parts = (quote(unquote(part), safe="/*$!&'()+,;=:@~-._") for part in (head, query))
    return mark.join(parts) if mark else next(parts)


def _matches(rule: str, path: str) -> bool:
    """Return whether a rule matches a path; `*` matches anything, and a last `$` the end."""
    anchored = rule.endswith("$")
    first, *others = rule.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    place = len(first)
    for number, part in enumerate(others, 1):
        if anchored and number == len(others):
            return path.endswith(part) and len(path) - len(part) >= place
        found = path.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return not anchored or place == len(path)
