"""The identity provider comes from `[auth]` and `[[auth.rules]]`; contradictions are refused."""

import json
from pathlib import Path

import pytest

from tests.support.rows import each_row
from truespan.errors import InvalidConfiguration
from truespan.extensions.server.identities import Identities, claim_values, expand
from truespan.settings import read_settings
from truespan.types.scope import UNLIMITED, Verb
from truespan.types.token import AccessRule
from truespan.wiring import open_library

AUTH = """
[auth]
issuer = "https://login.example.org"
audience = "truespan"
jwks_url = "https://login.example.org/keys"
"""
RULE = '[[auth.rules]]\nworlds = ["main"]\n'


def identities_of(folder: Path, text: str) -> Identities | None:
    """Return the identity provider of a library with this settings file."""
    folder.mkdir(exist_ok=True)
    (folder / "truespan.toml").write_text(text, encoding="utf-8")
    with open_library(folder, create=True) as library:
        return library._components.identities


def test_no_identity_provider_is_configured_by_default(tmp_path: Path) -> None:
    assert identities_of(tmp_path, "") is None


@pytest.mark.needs_extension
def test_rules_are_read_in_order(tmp_path: Path) -> None:
    text = """
    [[auth.rules]]
    claim = "groups"
    value = "editors"
    worlds = "*"
    verbs = ["read", "write"]
    labels = "*"

    [[auth.rules]]
    worlds = ["handbook", "{department}"]
    labels = ["group:{groups}"]

    [[auth.rules]]
    worlds = ["handbook"]
    reader = "{sub}"
    """
    found = identities_of(tmp_path, AUTH + text)

    assert found is not None
    assert found.rules == (
        AccessRule("groups", "editors", UNLIMITED, frozenset({Verb.READ, Verb.WRITE}), UNLIMITED),
        AccessRule(worlds=("handbook", "{department}"), labels=("group:{groups}",)),
        AccessRule(worlds=("handbook",), verbs=frozenset({Verb.FOLLOW}), reader="{sub}"),
    )


@pytest.mark.parametrize("text", [
    AUTH, RULE, '[auth]\naudience = "a"\n', AUTH.replace('audience = "truespan"', "") + RULE,
    AUTH.replace('audience = "truespan"', 'audience = " "') + RULE,
    AUTH.replace("jwks_url", "client_id") + RULE, AUTH + 'jwks_file = "keys.json"\n' + RULE,
    AUTH + 'client_id = "page"\n' + RULE,
    AUTH.replace("https://login.example.org/keys", "http://login.example.org/keys") + RULE,
    AUTH.replace("/keys", "/keys#first") + RULE,
    AUTH.replace("login.example.org/keys", "ana:secret@login.example.org/keys") + RULE,
    AUTH + "rules = 1\n", AUTH + "[auth.rules]\nworlds = []\n", AUTH + RULE + "groups = []\n",
    AUTH + RULE + 'claim = "groups"\n', AUTH + RULE + 'value = "groups"\n',
    AUTH + RULE + 'verbs = ["everything"]\n', AUTH + RULE + "verbs = []\n",
    AUTH + RULE + 'verbs = ["write"]\n', AUTH + RULE + 'verbs = ["read"]\nreader = "{sub}"\n',
    AUTH + RULE + 'labels = "group"\n', AUTH + RULE + 'labels = ["{a}:{b}"]\n',
    AUTH + RULE + 'labels = ["{a"]\n', AUTH + RULE + 'labels = [""]\n',
    AUTH.replace("jwks_url", "jwks_file") + RULE,
])  # fmt: skip
def test_contradictory_settings_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfiguration):
        identities_of(tmp_path, text)


@pytest.mark.needs_extension
def test_keys_may_be_in_a_file_and_the_issuer_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": []}), encoding="utf-8")
    text = AUTH.replace("jwks_url", "jwks_file").replace(
        "https://login.example.org/keys", "keys.json"
    )
    assert identities_of(tmp_path, text + RULE) is not None
    settings = read_settings(tmp_path, {"TRUESPAN_AUTH_ISSUER": "https://login.example.org/"})
    assert settings.auth.issuer == "https://login.example.org/"


CLAIMS = {
    "groups": ["legal", "hr", 7, "", None], "email": "ana@example.org",
    "realm_access": {"roles": ["staff"]}, "https://example.org/team": "blue", "many": ["x"] * 501,
}  # fmt: skip


@each_row("name, values", [
    ("groups", ["legal", "hr"]), ("email", ["ana@example.org"]), ("realm_access.roles", ["staff"]),
    ("https://example.org/team", ["blue"]), ("realm_access", []), ("email.roles", []),
    ("absent", []), ("absent.roles", []), ("many", []),
])  # fmt: skip
def test_claim_values_are_texts_only(name: str, values: list[str]) -> None:
    assert claim_values(CLAIMS, name) == values


@each_row(
    "name, own",
    [("realm_access.roles", ["admin"]), ("realm_access.roles", "admin"), ("a.b.c", ["admin"])],
)
def test_claim_is_not_replaced_by_one_with_its_dotted_name(name: str, own: object) -> None:
    outer, *inner = name.split(".")
    nested: object = ["staff"]
    for part in reversed(inner):
        nested = {part: nested}
    assert claim_values({outer: nested}, name) == ["staff"]
    assert claim_values({outer: nested, name: own}, name) == []
    assert claim_values({name: own}, name) == ["admin"]


def test_expand_fills_each_value_once() -> None:
    templates = ("group:{groups}", "user:{email}", "staff", "{absent}")
    assert expand(templates, CLAIMS) == {"group:legal", "group:hr", "user:ana@example.org", "staff"}
    # Braces in a claim are text.
    assert expand(("{a}",), {"a": "{b}", "b": "c"}) == {"{b}"}
    assert expand(UNLIMITED, CLAIMS) is UNLIMITED
