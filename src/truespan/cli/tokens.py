"""Commands for access tokens: create, list, revoke."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truespan.cli.app import AsJson, LibraryPath, app, echo, open_at
from truespan.errors import InvalidSettings
from truespan.serialize import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from truespan.library import Library
    from truespan.types.scope import Unlimited
    from truespan.types.token import TokenRecord, TokenState

token_app = typer.Typer(help="Manage access tokens.", no_args_is_help=True)
app.add_typer(token_app, name="token")

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}


@token_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    world: Annotated[
        list[str] | None, typer.Option("--world", "-w", help="A world, by name or id; repeatable.")
    ] = None,
    all_worlds: Annotated[
        bool, typer.Option("--all-worlds", help="Every world, including future ones.")
    ] = False,
    verb: Annotated[
        list[str] | None,
        typer.Option("--verb", help="read, follow, write or administer; repeatable."),
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option(
            "--reader", "-r", help="Bind to this reader, who can only follow; repeatable."
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="For example 12h, 30d or 8w; default: never.")
    ] = None,
    library: LibraryPath = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and print its secret once; only a digest is stored."""
    from truespan.types.scope import UNLIMITED

    # A token for every world must be asked for explicitly.
    if all_worlds == bool(world):
        raise InvalidSettings(
            "No worlds were named for the token.", advice="Add --world NAME or --all-worlds."
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
        echo(to_json({"token": _told(record, state), "secret": secret.reveal()}))
        return
    echo(f"Created token {record.id}, {record.name}: {_allowed(record, names)}.")
    echo("This is its secret. It is not stored and cannot be shown again:")
    echo(secret.reveal())


@token_app.command("list")
def list_tokens(library: LibraryPath = None, as_json: AsJson = False) -> None:
    """List the tokens of a library with their permissions and state."""
    with open_at(library) as opened:
        told = [(record, opened.tokens.state(record)) for record in opened.tokens.list()]
        names = _names(opened)
    if as_json:
        echo(to_json({"tokens": [_told(record, state) for record, state in told]}))
        return
    echo("\n".join(_line(*one, names) for one in told) or "No tokens yet.")


@token_app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="Id of the token.", metavar="ID")],
    library: LibraryPath = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a token at once, in every process that uses the library."""
    with open_at(library) as opened:
        record = opened.tokens.revoke(token)
        state = opened.tokens.state(record)
    told = {"token": _told(record, state)}
    echo(to_json(told) if as_json else f"Revoked token {record.id}, {record.name}.")


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
    whom = "" if isinstance(readers, str) else f" as {', '.join(readers) or 'no reader'}"
    return f"{', '.join(sorted(record.verbs))}{whom} in {where}; {_until(record)}"


def _until(record: TokenRecord) -> str:
    from datetime import UTC, datetime

    if record.expires_at is None:
        return "does not expire"
    until = datetime.fromtimestamp(record.expires_at, UTC)
    return f"expires {until.strftime('%Y-%m-%d %H:%M')} UTC"
