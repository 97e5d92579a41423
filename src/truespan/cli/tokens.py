"""Commands for access tokens: create, list, revoke."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truespan.cli.app import AsJson, LibraryPath, app, open_at, say
from truespan.errors import InvalidSettings
from truespan.serialize import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from truespan.library import Library
    from truespan.types.scope import Unlimited
    from truespan.types.token import TokenRecord, TokenState

token_app = typer.Typer(help="Access tokens: who may ask, and what.", no_args_is_help=True)
app.add_typer(token_app, name="token")

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}


@token_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    world: Annotated[
        list[str] | None, typer.Option("--world", "-w", help="A world, by name or id; repeatable.")
    ] = None,
    all_worlds: Annotated[
        bool, typer.Option("--all-worlds", help="Every world, also those made later.")
    ] = False,
    verb: Annotated[
        list[str] | None,
        typer.Option("--verb", help="read, follow, write or administer; repeatable."),
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option(
            "--reader", "-r", help="Only as this reader, who can only follow; repeatable."
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="Such as 12h, 30d or 8w; never if left out.")
    ] = None,
    library: LibraryPath = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print its secret, this once; only a digest of it is kept."""
    from truespan.types.scope import UNLIMITED

    # A token for everything must not come about by leaving something out.
    if all_worlds == bool(world):
        raise InvalidSettings(
            "Say which worlds the token is for.", advice="Give --world NAME or --all-worlds."
        )
    expires_in = None if expires is None else _seconds(expires)
    with open_at(library) as opened:
        record, secret = opened.tokens.create(
            name,
            worlds=world or UNLIMITED,
            verbs=verb or None,
            readers=reader or UNLIMITED,
            expires_in=expires_in,
        )
        names, state = _names(opened), opened.tokens.state(record)
    if as_json:
        say(to_json({"token": _told(record, state), "secret": secret.reveal()}))
        return
    say(f"Made token {record.id}, {record.name}: {_allowed(record, names)}.")
    say("This is its secret. It is not kept, and cannot be shown again:")
    say(secret.reveal())


@token_app.command("list")
def list_tokens(library: LibraryPath = None, as_json: AsJson = False) -> None:
    """List the tokens of a library with what each allows and how it stands."""
    with open_at(library) as opened:
        told = [(record, opened.tokens.state(record)) for record in opened.tokens.list()]
        names = _names(opened)
    if as_json:
        say(to_json({"tokens": [_told(record, state) for record, state in told]}))
        return
    say("\n".join(_line(*one, names) for one in told) or "No tokens yet.")


@token_app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="Id of the token.", metavar="ID")],
    library: LibraryPath = None,
    as_json: AsJson = False,
) -> None:
    """Make a token invalid at once, in every process that uses the library."""
    with open_at(library) as opened:
        record = opened.tokens.revoke(token)
        state = opened.tokens.state(record)
    told = {"token": _told(record, state)}
    say(to_json(told) if as_json else f"Revoked token {record.id}, {record.name}.")


def _seconds(spelled: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", spelled)
    if found is None:
        raise InvalidSettings(
            "--expires takes a number and a unit.", advice="Units are s, m, h, d and w: 12h, 30d."
        )
    return int(found[1]) * _SECONDS[found[2]]


def _names(opened: Library) -> dict[str, str]:
    return {world.id: world.name for world in opened.worlds()}


def _told(record: TokenRecord, state: TokenState) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "worlds": _listed(record.worlds),
        "verbs": _listed(record.verbs),
        "readers": _listed(record.readers),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
        "state": state,
    }


def _listed(names: Iterable[str] | Unlimited) -> str | list[str]:
    from truespan.types.scope import Unlimited

    return names.value if isinstance(names, Unlimited) else sorted(names)


def _line(record: TokenRecord, state: TokenState, names: Mapping[str, str]) -> str:
    return f"{record.id}  {state}  {record.name}: {_allowed(record, names)}"


def _allowed(record: TokenRecord, names: Mapping[str, str]) -> str:
    """Return what a token allows, in words."""
    worlds, readers = _listed(record.worlds), _listed(record.readers)
    where = (
        "every world"
        if isinstance(worlds, str)
        else ", ".join(sorted(names.get(world, world) for world in worlds)) or "no world"
    )
    whom = "" if isinstance(readers, str) else f" as {', '.join(readers) or 'nobody'}"
    return f"{', '.join(sorted(record.verbs))}{whom} in {where}; {_until(record)}"


def _until(record: TokenRecord) -> str:
    from datetime import UTC, datetime

    if record.expires_at is None:
        return "does not expire"
    until = datetime.fromtimestamp(record.expires_at, UTC)
    return f"expires {until.strftime('%Y-%m-%d %H:%M')} UTC"
