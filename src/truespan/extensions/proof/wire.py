"""The member `signed` of requests over HTTP and MCP, and the receipt in their replies."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from truespan.extensions.proof.types import SignedReceipt

ArgumentsT = TypeVar("ArgumentsT", bound=Struct)
Signed = Annotated[bool, Meta(description="Whether the reply has a signed receipt.")]


# Shared by threads: a cache of types.
@cache
def with_signed(kind: type[Any]) -> type[Any]:
    """Return arguments with the member `signed`, which interfaces add to some requests."""
    members = [("signed", Signed, False)]
    options: dict[str, Any] = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True}
    own = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    return msgspec.defstruct(kind.__name__, members, bases=(kind,), namespace=own, **options)


def split_signed(values: ArgumentsT) -> tuple[ArgumentsT, bool]:
    """Return arguments without the member that `with_signed` added, and its value."""
    given = msgspec.structs.asdict(values)
    signed = given.pop("signed")
    return type(values).__bases__[0](**given), signed


# Shared by threads: a cache of types.
@cache
def with_receipt(kind: type[Struct]) -> type[Struct]:
    """Return the type of a result in a reply that may have a signed receipt."""
    members = [("signed_receipt", SignedReceipt | UnsetType, UNSET)]
    name, own = f"{kind.__name__}Reply", {"__doc__": kind.__doc__, "__module__": kind.__module__}
    return msgspec.defstruct(name, members, bases=(kind,), namespace=own, frozen=True)


def add_receipt(result: Struct, receipt: SignedReceipt) -> Struct:
    """Return a result as the reply with its signed receipt."""
    return with_receipt(type(result))(**msgspec.structs.asdict(result), signed_receipt=receipt)
