"""Shared parts of the tests of providers with keys."""

import traceback
from collections.abc import Callable
from typing import Any

from tests.support.failures import raises_code
from tests.support.providers import PassingClock
from tests.support.providers.cooldowns import MemoryCooldowns
from truespan.errors import TruespanError
from truespan.protocols import Clock
from truespan.providers.keys import KeyRing
from truespan.types.token import ProviderKey, Secret

KEY = "sk-canary-secret-key"
SECRET = "butlersecret"
PASSAGES = [
    "Penicillin was found by Alexander Fleming in 1928, when mould killed bacteria in a dish.",
    "The tide comes in twice a day because the moon and the sun pull on the oceans.",
    "To make a roux, melt butter in a pan and stir in the same weight of flour.",
]


def ring_of(provider: str, *texts: str, clock: Clock | None = None) -> KeyRing:
    """Return a ring of keys named a, b, c and so on."""
    keys = [
        ProviderKey(provider, chr(ord("a") + place), Secret(text))
        for place, text in enumerate(texts)
    ]
    return KeyRing(provider, keys, MemoryCooldowns(), clock or PassingClock())


def failure_of(call: Callable[[], Any], kind: str | type[TruespanError]) -> TruespanError:
    """Return the error of a call, after checking that it has no key and no embedded text."""
    with raises_code(kind) as caught:
        call()
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__dict__)
    assert SECRET not in told.lower()
    assert KEY not in told
    return caught.value
