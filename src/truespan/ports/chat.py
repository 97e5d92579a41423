"""Chat models: who writes an answer, and who stands in for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from truespan.model.chat import Message


class ChatModel(Protocol):
    """Replies to messages. It is first connected to when the first piece of a reply is asked for.

    A reply that was given out whole is whole: one that broke off, was cut short or was withheld
    ends in an error, whatever came before it.
    """

    @property
    def name(self) -> str:
        """Return provider and model, as in `ollama/llama3`; explanations show it."""
        ...

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        """Give the reply piece by piece as it comes; closing the iterator ends the request.

        Raises:
            ProviderUnavailable: it did not answer; trying again may help.
            ProviderRefused: it answered no, or would not say what it had to say.
            ProviderBadReply: what it said cannot be believed to be the whole reply; pieces may
                have been given out before.
            CredentialsMissing, ModelUnavailable: it cannot be asked as it is configured.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChatModels:
    """The model that answers, and the one that is asked when the decision says so."""

    primary: ChatModel | None = None
    fallback: ChatModel | None = None
