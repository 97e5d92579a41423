"""What is said to a chat model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Who speaks: the one who lays down the rules, or the one who asks."""

    SYSTEM = "system"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Message:
    """One thing said to a chat model."""

    role: Role
    text: str
