"""The rules of a robots.txt, as RFC 9309 describes them."""

from __future__ import annotations

from urllib.parse import quote, unquote

from msgspec import Struct

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
