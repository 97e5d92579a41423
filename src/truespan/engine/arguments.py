"""The signatures and docstrings that `help` shows for methods with shared arguments.

A method takes shared arguments as `**arguments: Unpack[...]`, and its docstring describes only
those that `types.arguments` does not.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from truespan.types.arguments import DOCUMENT_ARGUMENTS, QUERY_ARGUMENTS, Argument
from truespan.types.request import FilterArguments, QueryArguments, ReaderArguments
from truespan.types.source import DocumentArguments, IngestArguments, LabelArguments, TextArguments

F = TypeVar("F", bound=Callable[..., Any])

_QUERIES = (FilterArguments, ReaderArguments, QueryArguments)
_DOCUMENTS = (TextArguments, LabelArguments, DocumentArguments, IngestArguments)
_KINDS = {f"Unpack[{kind.__name__}]": kind for kind in (*_QUERIES, *_DOCUMENTS)}
_DESCRIBED = re.compile(r"    (\w+): .*(?:\n {8}.*)*")


def list_arguments(method: F) -> F:
    """List all arguments of a method in its signature and its docstring."""
    signature = inspect.signature(method)
    *named, gathered = signature.parameters.values()
    kind = _KINDS[str(gathered.annotation)]
    described = QUERY_ARGUMENTS if kind in _QUERIES else DOCUMENT_ARGUMENTS
    signature = signature.replace(parameters=[*named, *_parameters(kind, described)])
    setattr(method, "__signature__", signature)  # noqa: B010 -- no attribute of a callable
    names = [name for name in signature.parameters if name != "self"]
    method.__doc__ = _with_arguments(inspect.cleandoc(method.__doc__ or ""), names, described)
    return method


def _parameters(kind: type, described: Mapping[str, Argument]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=described[name].default,
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in kind.__annotations__.items()
    ]


def _with_arguments(text: str, names: list[str], described: Mapping[str, Argument]) -> str:
    """Return a docstring that describes these arguments, by its own words if it has any."""
    head, *sections = re.split(r"\n\n(?=Returns:|Raises:)", text)
    summary, _, own = head.partition("\n\nArgs:\n")
    lines = {found[1]: found[0] for found in _DESCRIBED.finditer(own)}
    listed = [lines.get(name) or f"    {name}: {described[name].description}" for name in names]
    return "\n\n".join([summary, "\n".join(["Args:", *listed]), *sections])
