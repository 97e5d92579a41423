"""Keys: rotation, cooldowns, denials and secrecy."""

import threading
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.promises import proves
from tests.support.providers.cooldowns import MemoryCooldowns, keyless_ring
from tests.support.worlds import ManualClock
from truespan.errors import InvalidConfiguration, ProviderRefused, TruespanError
from truespan.providers.http import Reply
from truespan.providers.keys import COOLDOWN, KeyRing
from truespan.types.token import ProviderKey, Secret

MODEL = "text-embedding-3-small"


def key(name: str, **changes: object) -> ProviderKey:
    given: dict[str, object] = {"enabled": True, "models": None} | changes
    return ProviderKey("openai", name, Secret(f"sk-secret-{name}"), **given)  # type: ignore[arg-type]


def reply(status: int = 200, retry_after: float | None = None) -> Reply:
    return Reply("Server", status, b"{}", "application/json", retry_after)


class Server:
    """A server that answers each key as configured, and records the used keys."""

    def __init__(self, **answers: Reply) -> None:
        self.answers = answers
        self.came: list[str] = []

    def __call__(self, secret: Secret | None) -> Reply:
        name = secret.reveal().removeprefix("sk-secret-") if secret else "nobody"
        self.came.append(name)
        return self.answers.get(name, reply())


class Ring:
    """A ring with access to its clock."""

    def __init__(self, *keys: ProviderKey) -> None:
        self.clock = ManualClock()
        self.cooldowns = MemoryCooldowns()
        self.ring = KeyRing("openai", keys, self.cooldowns, self.clock)

    def send(self, server: Server, model: str = MODEL) -> Reply:
        return self.ring.send(model, server)

    def error(self, server: Server, model: str = MODEL) -> TruespanError:
        with pytest.raises(TruespanError) as caught:
            self.send(server, model)
        assert "sk-secret" not in "".join(traceback.format_exception(caught.value))
        return caught.value


def test_keys_are_used_in_turn() -> None:
    server, ring = Server(), Ring(key("a"), key("b"), key("c"))
    for _ in range(7):
        ring.send(server)
    assert "".join(server.came) == "abcabca"


def test_threads_share_the_rotation_evenly() -> None:
    ring = Ring(*(key(name) for name in "abcd"))
    server, lock = Server(), threading.Lock()

    def ask(_: int) -> None:
        def locked(secret: Secret | None) -> Reply:
            with lock:
                return server(secret)

        ring.ring.send(MODEL, locked)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(400)))

    assert Counter(server.came) == dict.fromkeys("abcd", 100)


@proves("errors.bad-key-configuration", "errors.credentials-before-index")
@pytest.mark.parametrize("keys", [
    [], [key("a", enabled=False)], [key("a", models=())], [key("a", models=("another",))],
    [ProviderKey("google", "a", Secret("sk-secret-a"))],
], ids=["none", "disabled", "no models", "other models", "another provider's"])  # fmt: skip
def test_no_request_is_sent_without_a_usable_key(keys: list[ProviderKey]) -> None:
    server = Server()
    error = Ring(*keys).error(server)
    assert error.code == "credentials_missing"
    assert MODEL in str(error)
    assert server.came == []


def test_key_is_used_only_for_its_models() -> None:
    server = Server()
    ring = Ring(key("a", models=("other",)), key("b", models=(MODEL, "other")), key("c"))
    for _ in range(4):
        ring.send(server)
    assert "".join(server.came) == "bcbc"


@proves("errors.cooldown-before-index")
@pytest.mark.parametrize(
    ("retry_after", "waits"), [(7.0, 7.0), (None, COOLDOWN), (300.0, 300.0), (9e9, 300.0)]
)
def test_limited_key_cools_down_and_the_next_key_is_used(retry_after: float | None, waits: float):
    ring = Ring(key("a"), key("b"))
    server = Server(a=reply(429, retry_after))

    assert ring.send(server).status == 200
    assert server.came == ["a", "b"]
    server.answers = {}
    for _ in range(3):
        ring.send(server)
    assert server.came[2:] == ["b", "b", "b"]

    ring.clock.time += waits
    ring.send(server)
    ring.send(server)
    assert sorted(server.came[5:]) == ["a", "b"]


@proves("errors.cooldown-before-index")
def test_cooling_keys_report_the_shortest_cooldown() -> None:
    ring = Ring(key("a"), key("b"), key("c", enabled=False))
    server = Server(a=reply(429, 30.0), b=reply(429, 20.0))
    first = ring.error(server)
    ring.clock.time += 5
    second = ring.error(server)
    assert first.code == "provider_cooldown"
    assert second.code == "provider_cooldown"
    assert (first.retry_after, second.retry_after) == (20.0, 15.0)
    assert second.retryable
    assert server.came == ["a", "b"]


def test_cooldowns_are_shared_limited_and_may_be_zero() -> None:
    ring, server = Ring(key("a"), key("b")), Server(a=reply(429, 0.0), b=reply(429, 0.0))
    error = ring.error(server)
    assert error.code == "provider_cooldown"
    assert (error.retry_after, server.came) == (0.0, ["a", "b"])

    first = Ring(key("a"), key("b"))
    second = KeyRing("openai", [key("a"), key("b")], first.cooldowns, first.clock)
    server = Server(a=reply(429, 30.0))
    first.send(server)
    second.send(MODEL, server)
    assert server.came == ["a", "b", "b"]

    ring, server = Ring(key("a")), Server()
    ring.cooldowns.cool_down("openai", "a", ring.clock.time + 86_400)
    ring.send(server)
    assert server.came == ["a"]


@pytest.mark.parametrize("status", [401, 403])
def test_denied_key_is_not_used_again(status: int) -> None:
    ring, server = Ring(key("a"), key("b")), Server(a=reply(status))
    for _ in range(4):
        assert ring.send(server).status == 200
    assert server.came == ["a", "b", "b", "b", "b"]


@proves("errors.bad-key-configuration")
def test_denied_keys_are_an_error_and_hide_no_cooling_key() -> None:
    ring, server = Ring(key("a"), key("b")), Server(a=reply(401), b=reply(403))
    assert [type(ring.error(server)) for _ in range(2)] == [ProviderRefused, ProviderRefused]
    assert server.came == ["a", "b"]
    ring, server = Ring(key("a"), key("b")), Server(a=reply(401), b=reply(429, 9.0))
    error = ring.error(server)
    assert error.code == "provider_cooldown"
    assert error.retry_after == 9.0


@pytest.mark.parametrize("status", [200, 400, 404, 413, 500, 503])
def test_key_ring_returns_other_replies_unchanged(status: int) -> None:
    ring, server = Ring(key("a"), key("b")), Server(a=reply(status))
    assert ring.send(server).status == status
    assert server.came == ["a"]


def test_keyless_server_gets_no_key() -> None:
    server = Server(nobody=reply(429, 5.0))
    assert keyless_ring(ManualClock()).send(MODEL, server).status == 429
    assert server.came == ["nobody"]


@proves("errors.bad-key-configuration", "errors.no-secrets")
@pytest.mark.parametrize("text", ["", "  ", "sk-secret-\n", "sk-secret-é", "sk-secret-\x00"])
def test_invalid_key_is_refused_by_its_name(text: str) -> None:
    wrong = ProviderKey("openai", "main", Secret(text))
    with pytest.raises(InvalidConfiguration, match="'main'") as caught:
        Ring(wrong)
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value))


def test_disabled_key_is_not_validated_and_names_are_unique() -> None:
    server = Server()
    unread = ProviderKey("openai", "old", Secret(""), enabled=False)
    assert Ring(unread, key("a")).send(server).status == 200
    assert server.came == ["a"]
    with pytest.raises(InvalidConfiguration):
        Ring(key("a"), key("a"))


@proves("errors.no-secrets")
def test_repr_of_ring_and_key_hides_the_secret() -> None:
    ring = Ring(key("a"))
    shown = f"{key('a')!r} {key('a')} {ring.ring!r} {vars(ring.ring)} {ring.cooldowns.__dict__}"
    assert "sk-secret" not in shown
