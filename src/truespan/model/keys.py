"""Keys of embedding providers. A secret never shows itself by accident."""

from __future__ import annotations

from dataclasses import dataclass, field


class Secret:
    """Text that is only given out when asked for by name: not by repr, str, format or pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written down")


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """One key of a provider. `name` is what messages, logs and the store call it.

    `models` are the models it may serve; an empty list means none, and None means any.
    """

    provider: str
    name: str
    secret: Secret = field(repr=False)
    enabled: bool = True
    models: tuple[str, ...] | None = None

    def serves(self, model: str) -> bool:
        """Say whether the key may be used for a model."""
        return self.enabled and (self.models is None or model in self.models)
