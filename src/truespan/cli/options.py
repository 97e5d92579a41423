"""Options that several commands share, each defined once: filters, and how passages are returned.

Annotations are evaluated here, as in every module with commands.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import truespan.cli.app as cli
from truespan.errors import InvalidArgument

if TYPE_CHECKING:
    from truespan.types.request import FilterArguments, PassageArguments

TopK = Annotated[
    int, Option("--top-k", "-k", help="Maximum number of passages.", parser=cli.whole_number)
]


def passage_options(
    neighbours: Annotated[
        int,
        Option(
            help="How many sentences before and after each passage to add, if they fit; 0 to 10.",
            parser=cli.whole_number,
        ),
    ] = 0,
    granularity: Annotated[
        str | None,
        Option(
            help="Show whole passages (passage), or only their best sentences (sentence); default: "
            "passage, but sentence where 'ask' prints an answer without a chat model."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None, Option(help="The token budget; default: 4000.", parser=cli.whole_number)
    ] = None,
    include_boilerplate: Annotated[
        bool | None,
        Option(
            "--include-boilerplate/--boilerplate-last",
            help="Rank licences, lists of chapters and page numbers like other text, or after it; "
            "default: that of the world.",
        ),
    ] = None,
) -> "PassageArguments":
    """Return the options of passages as the library takes them."""
    given: PassageArguments = {
        "neighbours": neighbours,
        "max_tokens": max_tokens,
        "include_boilerplate": include_boilerplate,
    }
    if granularity is not None:
        given["granularity"] = granularity
    return given


def filter_options(
    chapter: cli.Chapter = None,
    section: cli.Section = None,
    language: Annotated[
        str | None,
        Option(help="Only this language; 'any' for all. Default: all, or 'en' by the contract."),
    ] = None,
    version: Annotated[
        str | None,
        Option(help="Only this version; 'any' for all. Default: all, or '1.0' by the contract."),
    ] = None,
    documents: cli.Documents = None,
    tags: cli.Tags = None,
    kinds: cli.Kinds = None,
    source: cli.SourcePattern = None,
    where: cli.Where = None,
) -> "FilterArguments":
    """Return the filters as the library takes them."""
    return cli.filters_from(
        chapter, section, language, version, documents, tags, kinds, source, where
    )


SHARED: Mapping[str, Callable[..., Any]] = {"filters": filter_options, "passages": passage_options}
"""The functions whose options replace an argument of this name."""


def with_shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of the functions in `SHARED` instead of arguments so named."""
    own = signature(command)
    names = {
        name: list(signature(SHARED[name]).parameters) for name in own.parameters if name in SHARED
    }

    @wraps(command)
    def run(**arguments: Any) -> Any:
        for name, options in names.items():
            given = {option: arguments.pop(option) for option in options}
            arguments[name] = SHARED[name](**given)
        return command(**arguments)

    parameters: list[Parameter] = []
    for parameter in own.parameters.values():
        if parameter.name in names:
            parameters += signature(SHARED[parameter.name]).parameters.values()
        else:
            parameters.append(parameter)
    # Typer reads both.
    keyword = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = own.replace(parameters=keyword)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def metadata_from(meta: list[str] | None) -> dict[str, Any] | None:
    """Return the metadata that options declare; None without any."""
    from truespan.core.fields import FieldError
    from truespan.types.metadata import parse_assignments

    try:
        return parse_assignments(meta) if meta else None
    except FieldError as error:
        raise InvalidArgument(f"--meta {error}.") from None
