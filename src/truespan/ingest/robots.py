"""The rules of a robots.txt, as RFC 9309 describes them."""

from __future__ import annotations

from urllib.parse import quote, unquote

from msgspec import Struct

MAX_DELAY = 10.0
"""A longer Crawl-delay is cut to this, in seconds."""
MAX_RULES = 5000
MAX_WILDCARDS = 20
"""Rules with more wildcards are ignored, and so are rules past the limit."""


class Robots(Struct, frozen=True):
    """What one program may fetch from one host, and how long it has to wait between requests."""

    rules: tuple[tuple[str, bool], ...] = ()
    """Patterns of paths, and whether each allows."""
    delay: float = 0.0

    def allows(self, path: str) -> bool:
        """Say whether a path, with its query, may be fetched: the longest rule that matches counts,
        and of two equally long ones the one that allows."""
        path = _normalize(path)
        best = max(
            ((len(rule), allow) for rule, allow in self.rules if _matches(rule, path)),
            default=(0, True),
        )
        return best[1] or path == "/robots.txt"


def parse_robots(text: str, agent: str) -> Robots:
    """Return the rules for an agent: those of the groups that name it, else those for all."""
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
    """Return a path in which equal characters are spelled alike: `%7e` and `~`."""
    head, mark, query = path.partition("?")
    parts = (quote(unquote(part), safe="/*$!&'()+,;=:@~-._") for part in (head, query))
    return mark.join(parts) if mark else next(parts)


def _matches(rule: str, path: str) -> bool:
    """Match a path with a rule, in which `*` stands for anything and a last `$` for the end."""
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
