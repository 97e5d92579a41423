"""Commands of the panel "Models": chat models of a library, and downloads of other models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from truespan.cli.commands import Argument, CommandGroup, Option
from truespan.cli.options import Folder, Json, open_library
from truespan.cli.terminal import echo
from truespan.errors import InvalidArgument, resource_error
from truespan.wire.serialize import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from truespan.extensions.server.chat_servers import ChatServer, LocalChatServers

models_group = CommandGroup(
    "models", help="Connect a chat model; download models of sentence-transformers."
)

ServerUrl = Annotated[
    str | None,
    Option("--url", help="URL of the server, such as http://127.0.0.1:1234/v1.", metavar="URL"),
]
KeyFile = Annotated[
    Path | None, Option("--key-file", help="File with the key of the server; - for standard input.")
]


@models_group.register("find")
def find_models(
    url: ServerUrl = None, key_file: KeyFile = None, library: Folder = None, as_json: Json = False
) -> None:
    """Find running servers of chat models and list their models.

    Without --url, Ollama, LM Studio and llama.cpp are tried at their usual addresses on this
    machine.
    """
    with open_library(library) as opened:
        servers = _find_servers(opened.models.servers, url, _read_key(key_file))
        current = opened.models.chat
    if as_json:
        echo(to_json({"current": current, "servers": servers}))
        return
    for server in servers:
        echo(f"{server.name} at {server.base_url}")
        for model in server.models:
            echo(f"  {model}{'  (connected)' if f'{server.provider}/{model}' == current else ''}")
    if not servers:
        echo("No server was found on this machine. Name another one with --url.")
    elif current is None:
        echo("Connect one with 'truespan models connect MODEL'.")


@models_group.register("connect")
def connect_model(
    model: Annotated[str, Argument(help="Name of the chat model, as 'models find' lists it.")],
    url: ServerUrl = None,
    key_file: KeyFile = None,
    library: Folder = None,
    as_json: Json = False,
) -> None:
    """Test a chat model and let it write the answers of the library."""
    from truespan.extensions.server.chat_servers import ChatConnection
    from truespan.types.token import Secret

    key = _read_key(key_file)
    with open_library(library) as opened:
        servers = _find_servers(opened.models.servers, url, key)
        server = next((one for one in servers if model in one.models), None)
        if server is None:
            known = [name for one in servers for name in one.models]
            raise InvalidArgument(
                f"No server offers the model {model!r}.",
                advice=f"Models found: {', '.join(known[:20])}."
                if known
                else "Start the server of the model, or name it with --url.",
            )
        tested = opened.models.servers.connect(
            ChatConnection(
                provider=server.provider,
                base_url=server.base_url,
                model=model,
                key=Secret(key) if key else None,
            )
        )
    if as_json:
        echo(to_json({"connected": tested.model, "reply": tested.reply, "seconds": tested.seconds}))
    else:
        echo(f"{tested.model} replied in {tested.seconds:.1f} s and now writes the answers.")


@models_group.register("disconnect")
def disconnect_model(library: Folder = None, as_json: Json = False) -> None:
    """Remove the connected chat model and its key; answers then consist of passages."""
    with open_library(library) as opened:
        opened.models.servers.disconnect()
        current = opened.models.chat
    echo(to_json({"current": current}) if as_json else "Disconnected the chat model.")


def _find_servers(
    servers: "LocalChatServers", url: str | None, key: str | None
) -> "Sequence[ChatServer]":
    return servers.find() if url is None else [servers.describe(url, key=key)]


def _read_key(file: Path | None) -> str | None:
    """Return the key in a file; keys as arguments would be visible to other users."""
    if file is None:
        return None
    import sys

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        refusal = InvalidArgument(f"The key file {str(file)!r} cannot be read.")
        raise resource_error(error) or refusal from None
    if not text.strip():
        raise InvalidArgument("The key file is blank.")
    return text.strip()


@models_group.register("download")
def download_model(
    name: Annotated[str, Argument(help="Name of the model, such as BAAI/bge-m3.")],
    as_json: Json = False,
) -> None:
    """Download a model from the Hugging Face Hub into the cache that other programs share.

    Other commands download nothing. Weights as safetensors, the tokenizer and the configuration
    are downloaded, and no code.
    """
    import truespan

    if not as_json:
        echo(f"Downloading weights, tokenizer and configuration of {name} from huggingface.co ...")
    folder = truespan.download_model(name)
    data = {"model": name, "folder": str(folder)}
    echo(to_json(data) if as_json else f"The model {name} is in {folder}.")
