"""An identity provider on the loopback that signs tokens, and publishes and rotates its keys."""

import base64
import hashlib
import json
import time
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction

AUDIENCE = "truespan"
KEYS, AUTHORIZE, TOKEN = "/keys", "/authorize", "/token"
_CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}


class SigningKey:
    def __init__(self, key_id: str | None, algorithm: str = "ES256", *, bits: int = 2048) -> None:
        self.id = key_id
        self.algorithm = algorithm
        if algorithm == "EdDSA":
            self.private: Any = ed25519.Ed25519PrivateKey.generate()
        elif algorithm in _CURVES:
            self.private = ec.generate_private_key(_CURVES[algorithm]())
        else:
            self.private = rsa_key(bits)

    def jwk(self, **changed: Any) -> dict[str, Any]:
        form = jwt.get_algorithm_by_name(self.algorithm)
        published = json.loads(form.to_jwk(self.private.public_key()))  # type: ignore[attr-defined]
        entry = published | {"use": "sig", "alg": self.algorithm} | changed
        # The conversion says which operations the key is for, and providers rarely do.
        entry.pop("key_ops", None)
        return entry if self.id is None else {"kid": self.id} | entry

    def pem(self) -> bytes:
        return self.private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """Return a token; `header` replaces or adds members of its header."""
        named = {} if self.id is None else {"kid": self.id}
        # Below the checks that a provider makes of its own claims.
        content = json.dumps(claims).encode()
        return jwt.PyJWS().encode(content, self.private, self.algorithm, named | header)


@cache
def rsa_key(bits: int) -> Any:
    """Return a key, the same each time because making one takes long."""
    return rsa.generate_private_key(65537, bits)


class Issuer(Loopback):
    """A provider with one key, which `rotate` replaces."""

    def __init__(self, key: SigningKey | None = None) -> None:
        super().__init__()
        self.key = key or SigningKey("first")
        self.published = [self.key.jwk()]
        self.user: dict[str, Any] = {}
        """Claims of the user who signs in."""
        self.returned: dict[str, str] = {}
        """Parameters with which the application is returned to, instead of the right ones."""
        self._codes: dict[str, dict[str, str]] = {}

    def answer(self, asked: Asked) -> Reaction:
        path = urlsplit(asked.path).path
        if path == AUTHORIZE:
            return self._authorize(dict(parse_qsl(urlsplit(asked.path).query)))
        if path == TOKEN:
            return self._exchange(dict(parse_qsl(asked.body.decode())))
        return Answer(content={"keys": self.published})

    def _authorize(self, asked: dict[str, str]) -> Reaction:
        """Sign the user in without asking, and return to the application with a code."""
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"], "iss": self.url} | self.returned)
        return Answer(status=302, headers={"Location": f"{asked['redirect_uri']}?{back}"})

    def _exchange(self, form: dict[str, str]) -> Reaction:
        """Exchange a code once, for the owner of the verifier of its challenge."""
        origin = {"Access-Control-Allow-Origin": "*"}
        asked = self._codes.pop(form.get("code", ""), {})
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        names = ("client_id", "redirect_uri")
        is_same = all(form.get(name) == asked.get(name) for name in names)
        if asked.get("code_challenge") != challenge or not is_same:
            return Answer(status=400, content={"error": "invalid_grant"}, headers=origin)
        return Answer(content={"access_token": self.token(**self.user)}, headers=origin)

    @property
    def keys_url(self) -> str:
        return self.url + KEYS

    def rotate(self, key_id: str) -> None:
        """Sign with a new key, and publish no other."""
        self.key = SigningKey(key_id)
        self.published = [self.key.jwk()]

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Return the claims of a valid token; None leaves a claim out."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ana", "iat": now, "exp": now + 300}
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def token(self, **changed: Any) -> str:
        return self.key.sign(self.claims(**changed))
