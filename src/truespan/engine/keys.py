"""The signing keys of a library: anyone may list the public keys, the owner changes them."""

from __future__ import annotations

from truespan.core.clock import format_time
from truespan.engine.components import Components
from truespan.errors import NotAllowed
from truespan.protocols import SigningKeys
from truespan.types.receipt import PublicKeys
from truespan.types.scope import OWNER, Authority


class LibraryKeys:
    """The keys that sign receipts. Private keys are never returned."""

    def __init__(self, components: Components, authority: Authority) -> None:
        self._components = components
        self._authority = authority

    def list(self) -> PublicKeys:
        """Return the public keys, the oldest first. The last one signs, unless it is retired."""
        keys = self._components.signing_keys
        public = keys.public_keys() if keys is not None else ()
        return PublicKeys(self._components.store.library_id(), public)

    def create(self) -> PublicKeys:
        """Create a signing key unless there is one.

        Returns:
            The public keys.

        Raises:
            NotAllowed: The caller is not the owner.
        """
        keys = self._require_owner()
        if keys.signing_key() is None:
            keys.rotate(format_time(self._components.clock.now()))
        return self.list()

    def rotate(self) -> PublicKeys:
        """Replace the signing key by a new one. The old public key is kept, with its times.

        Returns:
            The public keys.

        Raises:
            NotAllowed: The caller is not the owner.
            InvalidConfiguration: The key is configured, so that it is replaced there.
        """
        self._require_owner().rotate(format_time(self._components.clock.now()))
        return self.list()

    def _require_owner(self) -> SigningKeys:
        keys = self._components.signing_keys
        if self._authority != OWNER or keys is None:
            raise NotAllowed("change signing keys")
        return keys
