"""Tokens of an OpenID Connect provider, checked against a provider that signs and rotates keys."""

import base64
import hashlib
import hmac
import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest

from tests.promises import proves
from tests.support.providers.issuer import AUDIENCE, KEYS, Issuer, SigningKey
from tests.support.providers.loopback import Answer, Asked
from tests.support.worlds import ManualClock
from truespan.errors import InvalidConfiguration, NotAllowed, ProviderUnavailable
from truespan.extensions.server.openid import (
    ALGORITHMS,
    MAX_KEY_BYTES,
    MAX_KEYS,
    MAX_TOKEN_LENGTH,
    RELOAD_SECONDS,
    KeyCache,
    OpenIdVerifier,
    key_client,
    read_keys,
)
from truespan.types.telemetry import FIELDS

CACHE_SECONDS = 3600
LEEWAY = 30


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def verifier(issuer: Issuer, clock: ManualClock) -> OpenIdVerifier:
    return make_verifier(issuer, clock)


def make_verifier(issuer: Issuer, clock: ManualClock, *algorithms: str) -> OpenIdVerifier:
    chosen = algorithms or tuple(ALGORITHMS)
    return OpenIdVerifier(
        KeyCache(key_client(issuer.keys_url, clock), chosen, clock, CACHE_SECONDS),
        issuer=issuer.url,
        audience=AUDIENCE,
        algorithms=chosen,
        leeway_seconds=LEEWAY,
    )


def refused(verifier: OpenIdVerifier, token: str) -> bool:
    try:
        verifier.verify(token)
    except NotAllowed as error:
        error.raise_unless("unauthorized")
        is_alone = error.__context__ is None or error.__suppress_context__
        return str(error) == str(NotAllowed.of("unauthorized")) and is_alone
    return False


def encode(value: Any) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def sign_raw(key: SigningKey, header: dict[str, Any], payload: str) -> str:
    """Return a token with members of the header that the library would not write."""
    head = encode({"alg": key.algorithm, "kid": key.id} | header)
    form = jwt.get_algorithm_by_name(key.algorithm)
    signature = form.sign(f"{head}.{payload}".encode(), key.private)
    return f"{head}.{payload}.{encode(signature)}"


@proves("identity.valid-token")
@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
def test_token_of_the_provider_is_accepted(clock: ManualClock, algorithm: str) -> None:
    with Issuer(SigningKey("k", algorithm)) as issuer:
        claims = make_verifier(issuer, clock).verify(issuer.token(groups=["legal"]))

    assert (claims["sub"], claims["groups"]) == ("ana", ["legal"])
    assert len(issuer.to(KEYS)) == 1


@proves("identity.forged-token")
def test_forged_tokens_are_refused(issuer: Issuer, verifier: OpenIdVerifier) -> None:
    claims, key = issuer.claims(), issuer.key
    stranger, head = SigningKey("first"), {"alg": "none", "kid": "first", "typ": "JWT"}
    valid = issuer.token()
    header, payload, signature = valid.split(".")
    public = key.pem()
    secret_head = encode(head | {"alg": "HS256"})
    mac = hmac.new(public, f"{secret_head}.{payload}".encode(), hashlib.sha256).digest()
    own_key = {"jwk": stranger.jwk(kid="first")}
    elsewhere = {"jku": f"{issuer.url}/stranger", "x5u": f"{issuer.url}/stranger"}
    attempts = {
        "unsigned": f"{encode(head)}.{payload}.",
        "unsigned, other case": f"{encode(head | {'alg': 'nOnE'})}.{payload}.",
        "unsigned, with the signature": f"{encode(head)}.{payload}.{signature}",
        "no algorithm": f"{encode({'kid': 'first'})}.{payload}.{signature}",
        "algorithm that is no text": f"{encode({'alg': ['ES256']})}.{payload}.{signature}",
        "public key as a secret": f"{secret_head}.{payload}.{encode(mac)}",
        "key of a stranger": stranger.sign(claims),
        "key in the header": stranger.sign(claims, **own_key),
        "key in the header, no id": stranger.sign(claims, **own_key, kid="x"),
        "address of keys in the header": stranger.sign(claims, **elsewhere),
        "other claims": f"{header}.{encode(claims | {'sub': 'bob'})}.{signature}",
        "algorithm of another key type": SigningKey("first", "RS256").sign(claims),
        "curve of another key": SigningKey("first", "ES384").sign(claims),
        "critical extension": key.sign(claims, crit=["exp"], exp=1),
        "critical encoding": sign_raw(key, {"crit": ["b64"], "b64": True}, payload),
        "encoding of the claims": sign_raw(key, {"b64": True}, payload),
        "type of another purpose": key.sign(claims, typ="logout+jwt"),
        "type that is no text": key.sign(claims, typ=["JWT"]),
        "id of a key that is no text": f"{encode({'alg': 'ES256', 'kid': 1})}.{payload}.",
        "path as id of a key": key.sign(claims, kid="../../etc/passwd"),
        "long id of a key": key.sign(claims, kid="k" * 300),
    }

    assert [name for name, token in attempts.items() if not refused(verifier, token)] == []
    assert {asked.path for asked in issuer.asked} == {KEYS}
    assert verifier.verify(valid)["sub"] == "ana"


def test_token_without_a_usable_header_requests_no_keys(issuer: Issuer, verifier: OpenIdVerifier):
    payload = encode(issuer.claims())
    for header in ({"alg": "none"}, {"alg": "HS256"}, {"alg": "ES256", "typ": "logout+jwt"}, {}):
        assert refused(verifier, f"{encode(header)}.{payload}.{encode(b'0' * 64)}")

    assert issuer.asked == []


@proves("identity.forged-token")
def test_tokens_with_wrong_audience_or_time_are_refused(issuer: Issuer, verifier: OpenIdVerifier):
    now = int(time.time())
    attempts: dict[str, dict[str, Any]] = {
        "other issuer": {"iss": "https://login.example.org"},
        "issuer with a slash": {"iss": issuer.url + "/"},
        "no issuer": {"iss": None},
        "list of issuers": {"iss": [issuer.url]},
        "other audience": {"aud": "payroll"},
        "audiences of others": {"aud": ["payroll", "truespan2"]},
        "no audience": {"aud": None},
        "empty audience": {"aud": []},
        "expired": {"exp": now - LEEWAY - 5},
        "without an expiry": {"exp": None},
        "expiry that is no number": {"exp": "tomorrow"},
        "expiry that is no finite number": {"exp": float("inf")},
        "not valid yet": {"nbf": now + LEEWAY + 60},
        "made in the future": {"iat": now + LEEWAY + 60},
        "no subject": {"sub": None},
        "subject that is no text": {"sub": 7},
        "bound to a key of its bearer": {
            "cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}
        },
    }
    accepted = [
        name for name, changed in attempts.items() if not refused(verifier, issuer.token(**changed))
    ]

    assert accepted == []
    assert verifier.verify(issuer.token(exp=now - LEEWAY + 5, nbf=now + LEEWAY - 5))
    assert verifier.verify(issuer.token(aud=["payroll", AUDIENCE]))


@proves("identity.forged-token")
def test_malformed_tokens_are_refused(issuer: Issuer, verifier: OpenIdVerifier) -> None:
    valid = issuer.token()
    header, payload, signature = valid.split(".")
    twice = b'{"alg":"none","kid":"first","alg":"ES256"}'
    repeated = json.dumps(issuer.claims())[:-1].encode() + b',"sub":"bob"}'
    deep = b'{"alg":"ES256","kid":' + b"[" * 5000 + b"]" * 5000 + b"}"
    attempts = {
        "empty": "",
        "word": "secret",
        "two parts": f"{header}.{payload}",
        "five parts": f"{header}.a.b.c.{signature}",
        "truncated": valid[:-1],
        "truncated more": valid[: len(valid) // 2],
        "without a signature": f"{header}.{payload}.",
        "space": valid.replace(".", ". "),
        "padding": f"{header}==.{payload}.{signature}",
        "other alphabet": f"{header}.{payload}.{signature[:-2]}+/",
        "not ASCII": f"{header}.{payload}.é",
        "list as header": f"{encode([])}.{payload}.{signature}",
        "no JSON as header": f"{encode(b'{')}.{payload}.{signature}",
        "member twice in the header": f"{encode(twice)}.{payload}.{signature}",
        "deep header": f"{encode(deep)}.{payload}.{signature}",
        "huge": issuer.token(pad="x" * MAX_TOKEN_LENGTH),
    }
    accepted = [name for name, token in attempts.items() if not refused(verifier, token)]
    signed = jwt.PyJWS().encode(repeated, issuer.key.private, "ES256", {"kid": "first"})

    assert accepted == []
    assert refused(verifier, signed)


@proves("identity.rotation")
def test_new_key_is_loaded_once_for_an_interval(
    issuer: Issuer, verifier: OpenIdVerifier, clock: ManualClock
) -> None:
    old = issuer.token()
    verifier.verify(old)
    issuer.rotate("second")
    clock.time += RELOAD_SECONDS

    assert verifier.verify(issuer.token())["sub"] == "ana"
    assert refused(verifier, old)
    for number in range(20):
        assert refused(verifier, SigningKey(f"unknown-{number}").sign(issuer.claims()))
    assert len(issuer.to(KEYS)) == 2
    clock.time += RELOAD_SECONDS
    assert refused(verifier, old)
    assert len(issuer.to(KEYS)) == 3


@proves("identity.rotation")
def test_withdrawn_key_expires_with_the_cache(
    issuer: Issuer, verifier: OpenIdVerifier, clock: ManualClock
) -> None:
    old = issuer.token()
    verifier.verify(old)
    issuer.rotate("second")

    assert verifier.verify(old)
    clock.time += CACHE_SECONDS
    assert refused(verifier, old)


@proves("identity.rotation")
def test_keys_are_kept_while_the_provider_is_down(
    issuer: Issuer, verifier: OpenIdVerifier, clock: ManualClock
) -> None:
    token = issuer.token()
    verifier.verify(token)
    issuer.fault = lambda _: Answer(status=503, content={})

    clock.time += CACHE_SECONDS
    assert verifier.verify(token)
    clock.time += CACHE_SECONDS
    with pytest.raises(ProviderUnavailable):
        verifier.verify(token)
    issuer.fault = None
    clock.time += RELOAD_SECONDS
    assert verifier.verify(token)


def test_concurrent_threads_request_a_new_key_once(
    issuer: Issuer, verifier: OpenIdVerifier
) -> None:
    token, outcomes = issuer.token(), list[object]()
    entered, released = threading.Event(), threading.Event()

    def hold(_asked: Asked) -> None:
        entered.set()
        released.wait(10)

    issuer.fault = hold
    threads = [
        threading.Thread(target=lambda: outcomes.append(verifier.verify(token)["sub"]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    entered.wait(10)
    released.set()
    for thread in threads:
        thread.join()

    assert outcomes == ["ana"] * 8
    assert len(issuer.to(KEYS)) == 1


@proves("identity.rotation", "tenants.no-stall")
def test_unknown_keys_are_refused_while_keys_are_loading(
    issuer: Issuer, verifier: OpenIdVerifier, clock: ManualClock
) -> None:
    known, entered, released = issuer.token(), threading.Event(), threading.Event()
    verifier.verify(known)
    clock.time += RELOAD_SECONDS

    def hold(_asked: Asked) -> None:
        entered.set()
        released.wait(60)

    issuer.fault = hold
    unknown = [SigningKey(f"unknown-{number}").sign(issuer.claims()) for number in range(20)]
    loading = threading.Thread(target=lambda: refused(verifier, unknown[0]))
    loading.start()
    assert entered.wait(10)
    try:
        for token in unknown:
            with pytest.raises(ProviderUnavailable):
                verifier.verify(token)
        assert verifier.verify(known)
    finally:
        released.set()
        loading.join()
    assert len(issuer.to(KEYS)) == 2
    assert refused(verifier, unknown[0])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"keys": 1}',
        b'{"keys": [], "keys": []}',
        json.dumps({"keys": [{}] * (MAX_KEYS + 1)}).encode(),
        b" " * MAX_KEY_BYTES + b"{}",
        b"\xff",
    ],
    ids=["empty", "list", "number", "twice", "many", "huge", "bytes"],
)
def test_unusable_key_set_accepts_no_token(
    issuer: Issuer, verifier: OpenIdVerifier, content: bytes
) -> None:
    issuer.fault = lambda _: Answer(body=content)

    with pytest.raises(ProviderUnavailable):
        verifier.verify(issuer.token())


def test_redirect_to_other_keys_is_not_followed(issuer: Issuer, verifier: OpenIdVerifier) -> None:
    issuer.fault = lambda asked: (
        Answer(status=302, headers={"Location": "/other"}) if asked.path == KEYS else None
    )

    with pytest.raises(ProviderUnavailable):
        verifier.verify(issuer.token())
    assert [asked.path for asked in issuer.asked] == [KEYS]


def test_keys_that_cannot_check_signatures_are_skipped() -> None:
    good, rsa = SigningKey("good"), SigningKey("rsa", "RS256")
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"}
    entries: list[Any] = [
        *(7, {}, secret, secret | {"alg": "HS256"}, secret | {"alg": "ES256"}),
        SigningKey("encryption").jwk(use="enc"),
        SigningKey("other", "ES384").jwk(alg="ES256"),
        SigningKey("private").jwk(d="AAAA"),
        SigningKey("short", "RS256", bits=1024).jwk(),
        SigningKey("broken").jwk(x="!"),
        SigningKey("number").jwk(kid=1),
        good.jwk() | {"alg": None},
        good.jwk(),
        rsa.jwk() | {"kid": "any"},
    ]
    any_algorithm = rsa.jwk()
    del any_algorithm["alg"]

    keys = read_keys(json.dumps({"keys": [*entries, any_algorithm]}).encode(), tuple(ALGORITHMS))

    assert [(key.id, key.algorithm) for key in keys] == [
        *(("good", "ES256"), ("any", "RS256")),
        *(("rsa", name) for name in ALGORITHMS if ALGORITHMS[name][0] == "RSA"),
    ]


def test_keys_with_one_id_are_all_tried(issuer: Issuer, verifier: OpenIdVerifier) -> None:
    issuer.published = [SigningKey("first").jwk(), issuer.key.jwk()]

    assert verifier.verify(issuer.token())


def test_key_without_an_id_is_used_if_it_is_alone(clock: ManualClock) -> None:
    with Issuer(SigningKey(None)) as issuer:
        assert make_verifier(issuer, clock).verify(issuer.token())
        issuer.published.append(SigningKey(None).jwk())
        assert refused(make_verifier(issuer, clock), issuer.token())


def test_algorithm_that_is_not_configured_is_refused(issuer: Issuer, clock: ManualClock) -> None:
    assert refused(make_verifier(issuer, clock, "RS256"), issuer.token())


def test_plain_http_to_another_machine_is_refused(clock: ManualClock) -> None:
    for url in ("http://login.example.org/keys", "http://10.0.0.1/keys", "http://[::2]/"):
        with pytest.raises(InvalidConfiguration, match="https"):
            key_client(url, clock)


@proves("identity.silent-refusal")
def test_log_has_the_reason_and_no_part_of_a_token(
    issuer: Issuer, verifier: OpenIdVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="truespan.auth")
    tokens = [issuer.token(aud="payroll"), issuer.token(exp=1), "no token", issuer.token()[:-2]]

    assert all(refused(verifier, token) for token in tokens)

    reasons = [vars(record)[FIELDS]["reason"] for record in caplog.records]
    assert reasons[:3] == ["InvalidAudienceError", "ExpiredSignatureError", "form"]
    logged = " ".join(str(vars(record)) for record in caplog.records)
    assert not any(part in logged for token in tokens for part in token.split(".") if len(part) > 8)
    assert "payroll" not in logged
