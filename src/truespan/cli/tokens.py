"""Commands for access tokens."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from truespan.cli.commands import Argument, CommandGroup, Option
from truespan.cli.options import Folder, Json, open_library
from truespan.cli.terminal import echo
from truespan.errors import InvalidArgument
from truespan.wire.serialize import allowed_names, record_data, to_json

if TYPE_CHECKING:
    from truespan.types.scope import World
    from truespan.types.token import TokenRecord, TokenState

token_group = CommandGroup("token", help="Access tokens for HTTP and MCP.")

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}


@token_group.register("create")
def create_token(
    name: Annotated[str, Argument(help="Purpose of the token.")],
    world: Annotated[
        list[str] | None, Option("--world", "-w", help="A world, by name or id.")
    ] = None,
    all_worlds: Annotated[bool, Option(help="Every world, including future ones.")] = False,
    verb: Annotated[
        list[str] | None,
        Option(help="read, follow, write, administer or, without a world, observe."),
    ] = None,
    reader: Annotated[
        list[str] | None, Option("--reader", "-r", help="Bind to this reader, who can only follow.")
    ] = None,
    audience: Annotated[
        list[str] | None,
        Option(help="Limit to documents for everyone and for this label, such as group:legal."),
    ] = None,
    impersonate: Annotated[
        bool, Option(help="Let each request name the labels of its user.")
    ] = False,
    expires: Annotated[
        str | None, Option(help="For example 12h, 30d or 8w; default: never.")
    ] = None,
    library: Folder = None,
    as_json: Json = False,
) -> None:
    """Create a token and print its secret once; only a digest is stored."""
    from truespan.types.scope import UNLIMITED, Verb

    # A token for every world must be asked for explicitly.
    needs_worlds = all_worlds or set(verb or ()) != {Verb.OBSERVE}
    if needs_worlds and all_worlds == bool(world):
        raise InvalidArgument(
            "No worlds were named for the token.", advice="Add --world NAME or --all-worlds."
        )
    expires_in = None
    if expires is not None:
        found = re.fullmatch(r"([0-9]{1,9})([smhdw])", expires)
        if found is None:
            raise InvalidArgument(
                "--expires takes a number and a unit.",
                advice="Units are s, m, h, d and w: 12h, 30d.",
            )
        expires_in = int(found[1]) * _SECONDS[found[2]]
    with open_library(library) as opened:
        record, secret = opened.tokens.create(
            name,
            worlds=UNLIMITED if all_worlds else world or None,
            verbs=verb or None,
            readers=reader or UNLIMITED,
            audience=audience or UNLIMITED,
            impersonate=impersonate,
            expires_in=expires_in,
        )
        worlds, state = opened.worlds(), opened.tokens.state(record)
    if as_json:
        echo(to_json({"token": token_data(record, state), "secret": secret.reveal()}))
        return
    echo(f"Created token {record.id}, {record.name}: {describe_token(record, worlds)}.")
    echo("This is its secret. It is not stored and cannot be shown again:")
    echo(secret.reveal())


@token_group.register("list")
def list_tokens(library: Folder = None, as_json: Json = False) -> None:
    """List the tokens of a library with their permissions and state."""
    with open_library(library) as opened:
        tokens = [(record, opened.tokens.state(record)) for record in opened.tokens.list()]
        worlds = opened.worlds()
    if as_json:
        echo(to_json({"tokens": [token_data(*token) for token in tokens]}))
        return
    for record, state in tokens:
        echo(f"{record.id}  {state}  {record.name}: {describe_token(record, worlds)}")
    if not tokens:
        echo("No tokens yet.")


@token_group.register("revoke")
def revoke_token(
    token: Annotated[str, Argument(help="Id or name of the token.", metavar="TOKEN")],
    library: Folder = None,
    as_json: Json = False,
) -> None:
    """Revoke a token at once, in every process that uses the library."""
    with open_library(library) as opened:
        record = opened.tokens.revoke(token)
        state = opened.tokens.state(record)
    result = {"token": token_data(record, state)}
    echo(to_json(result) if as_json else f"Revoked token {record.id}, {record.name}.")


def token_data(record: "TokenRecord", state: "TokenState") -> dict[str, Any]:
    sets = ("worlds", "verbs", "readers", "audience")
    names = {name: allowed_names(getattr(record, name)) for name in sets}
    return record_data(record) | names | {"state": state}


def describe_token(record: "TokenRecord", worlds: Iterable["World"]) -> str:
    """Return the permissions of a token in words."""
    ids, readers = allowed_names(record.worlds), allowed_names(record.readers)
    if record.verbs == {"observe"}:
        return f"observe, the metrics only; {_describe_expiry(record)}"
    where = "every world"
    if not isinstance(ids, str):
        names: dict[str, str] = {world.id: world.name for world in worlds}
        where = ", ".join(sorted(names.get(id, id) for id in ids)) or "no world"
    whom = "" if isinstance(readers, str) else f" as {', '.join(readers) or 'no reader'}"
    verbs = ", ".join(sorted(record.verbs))
    labels = _describe_labels(record)
    return f"{verbs}{whom} in {where}{labels}; {_describe_expiry(record)}"


def _describe_labels(record: "TokenRecord") -> str:
    labels = allowed_names(record.audience)
    if isinstance(labels, str):
        return ""
    others = "; may impersonate" if record.impersonate else ""
    return f", documents for {', '.join(sorted({'everyone', *labels}))}{others}"


def _describe_expiry(record: "TokenRecord") -> str:
    if record.expires_at is None:
        return "does not expire"
    return f"expires {datetime.fromtimestamp(record.expires_at, UTC):%Y-%m-%d %H:%M} UTC"
