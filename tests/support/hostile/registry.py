"""The list of hostile files, and their targets."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Trap:
    """Targets of a hostile file: an address, a file with a secret, and a file to overwrite."""

    url: str = "http://127.0.0.1:9/trap"
    secret: str = "/nonexistent/secret"
    victim: str = "/nonexistent/victim"


Hostile = Callable[[Trap], tuple[str, bytes]]
HOSTILE: dict[str, Hostile] = {}


def add(name: str, make: Hostile) -> None:
    """Add a file to the list; its name must be unique."""
    assert name not in HOSTILE, name
    HOSTILE[name] = make


def hostile(make: Hostile) -> Hostile:
    """Add a file to the list under the name of its function and module."""
    family = make.__module__.rpartition(".")[2]
    add(f"{family}-{make.__name__.strip('_').replace('_', '-')}", make)
    return make


def hostile_files(family: str, **files: Hostile) -> None:
    """Add files of a family to the list under the names of the arguments."""
    for name, make in files.items():
        add(f"{family}-{name.replace('_', '-')}", make)
