"""Rules: `[[auth.rules]]` for users of an identity provider, `[[audience]]` for documents."""

from __future__ import annotations

from typing import Any

from truespan.errors import InvalidArgument, InvalidConfiguration
from truespan.settings.tables import require_fields
from truespan.types.audience import AudienceRule, check_audience
from truespan.types.scope import AUDIENCE_VERBS, UNLIMITED, Unlimited, Verb
from truespan.types.token import AccessRule, check_template

_FIELDS = AccessRule.__struct_fields__
_ALL = "*"
_VERBS = ", ".join(Verb)


def read_rules(section: Any) -> tuple[AccessRule, ...]:
    """Remove the rules from the section `auth` of a file, and return them."""
    tables = section.pop("rules", []) if isinstance(section, dict) else []
    if not isinstance(tables, list):
        raise InvalidConfiguration("The setting auth.rules must be tables: [[auth.rules]].")
    return tuple(_read_rule(number, table) for number, table in enumerate(tables, 1))


def read_audiences(tables: Any) -> tuple[AudienceRule, ...]:
    """Return the rules `[[audience]]` of a file."""
    if not isinstance(tables, list):
        raise InvalidConfiguration("The setting audience must be tables: [[audience]].")
    return tuple(_read_audience(number, table) for number, table in enumerate(tables, 1))


def _read_audience(number: int, given: Any) -> AudienceRule:
    where = f"Entry {number} of [[audience]]"
    table = require_fields(where, given, AudienceRule.__struct_fields__)
    texts = {name: table[name] for name in ("path", "world") if name in table}
    if not all(isinstance(text, str) and text for text in texts.values()):
        raise InvalidConfiguration(f"{where}: path and world must be texts.")
    if not isinstance(table.get("labels"), list):
        raise InvalidConfiguration(
            f"{where} needs labels.", advice='Write labels = ["group:hr"]; [] for the owner alone.'
        )
    try:
        return AudienceRule(check_audience(table["labels"]), **texts)
    except InvalidArgument as error:
        raise InvalidConfiguration(f"{where}: {error.message}") from None


def _read_rule(number: int, given: Any) -> AccessRule:
    where = f"Entry {number} of [[auth.rules]]"
    table = require_fields(where, given, _FIELDS)
    texts = {name: table.get(name, "") for name in ("claim", "value", "reader")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise InvalidConfiguration(f"{where}: claim, value and reader must be texts.")
    if bool(texts["claim"]) != bool(texts["value"]):
        raise InvalidConfiguration(
            f"{where} needs both claim and value.", advice="Without both it is for every user."
        )
    if texts["reader"] and not check_template(texts["reader"]):
        raise _invalid_template(where, "reader")
    is_reader = bool(texts["reader"])
    verbs = table.get("verbs", ["follow" if is_reader else "read"])
    if not isinstance(verbs, list) or not verbs or not set(verbs) <= set(Verb):
        raise InvalidConfiguration(f"{where}: verbs must be a list of: {_VERBS}.")
    if is_reader and verbs != ["follow"]:
        raise InvalidConfiguration(
            f"{where}: who is bound to a reader can only follow.", advice="Remove one of them."
        )
    labels = _templates(where, "labels", table.get("labels", []))
    if not isinstance(labels, Unlimited) and not set(verbs) <= AUDIENCE_VERBS:
        raise InvalidConfiguration(
            f"{where}: who sees some documents only can read and follow.",
            advice='Set labels = "*", or leave out the other verbs.',
        )
    return AccessRule(
        claim=texts["claim"],
        value=texts["value"],
        worlds=_templates(where, "worlds", table.get("worlds", [])),
        verbs=frozenset(map(Verb, verbs)),
        labels=labels,
        reader=texts["reader"],
    )


def _templates(where: str, name: str, value: Any) -> tuple[str, ...] | Unlimited:
    if value == _ALL:
        return UNLIMITED
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InvalidConfiguration(f'{where}: {name} must be a list of texts, or "*" for all.')
    if not all(map(check_template, value)):
        raise _invalid_template(where, name)
    return tuple(value)


def _invalid_template(where: str, name: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"{where}: a text of {name} is blank or has more than one claim in braces.",
        advice="Write it like group:{groups}.",
    )
