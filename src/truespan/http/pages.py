"""The web page, static files with a policy that allows no other sources, and the API reference.

The reference at `/docs` is the OpenAPI document as one HTML page without scripts. Everything is in
the page itself, so that the browser's search finds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from truespan.errors import RouteNotFound
from truespan.http.operation import CallContext, Operation, Reply, Routes

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = (("content-security-policy", POLICY), ("cache-control", "no-cache"))


# Shared by threads: caches of values that are only read.
@cache
def page_files() -> dict[str, bytes]:
    """Return the content of each file of the page by its path below `web`."""
    return dict(_files_in(files("truespan").joinpath("web"), ""))


def _files_in(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files_in(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in MEDIA_TYPES:
            yield prefix + entry.name, entry.read_bytes()


# These operations are public and not part of the API: the files contain no secrets.
# Shared by threads: filled while modules are imported, then only read.
_routes = Routes("Page", "The web page.")


@_routes.get("/", public=True, inline=True, ignores_query=True)
def page(_: CallContext) -> Reply[bytes]:
    """Get the page."""
    return _send_file("index.html")


@_routes.get("/page/{name:path}", public=True, inline=True)
def page_file(context: CallContext) -> Reply[bytes]:
    """Get a file of the page."""
    return _send_file(context.path["name"])


def _send_file(name: str) -> Reply[bytes]:
    content = page_files().get(name)
    if content is None:
        raise RouteNotFound
    return Reply(content, 200, PAGE_HEADERS, MEDIA_TYPES[name.rpartition(".")[2]])


PAGE_OPERATIONS = tuple(_routes.operations)


Schema = Mapping[str, Any]

_LIMITS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "default": "default {}",
}


def reference_operation(make_document: Callable[[], bytes]) -> Operation:
    """Return the operation that serves the page, which is made on first use."""

    def reference(_: CallContext) -> Reply[bytes]:
        """Get the API reference as a page."""
        return Reply(render_reference(make_document()), 200, PAGE_HEADERS, MEDIA_TYPES["html"])

    return Operation("GET", "/docs", reference, public=True)


# Shared by threads: caches of values that are only read.
@cache
def render_reference(encoded: bytes) -> bytes:
    """Return an OpenAPI document as a page."""
    document = msgspec.json.decode(encoded)
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    topics = [
        (tag, [entry for entry in operations if tag["name"] in entry[2]["tags"]])
        for tag in document["tags"]
    ]
    title = f"{document['info']['title']} API {document['info']['version']}"
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        '<link rel="icon" href="data:,">',
        '<link rel="stylesheet" href="/page/reference.css">\n</head>\n<body>',
        f"<header>\n<h1>{escape(title)}</h1>\n<p>{_prose(document['info']['summary'])}</p>",
        *(f"<p>{_prose(text)}</p>" for text in document["info"]["description"].split("\n\n")),
        f"<p>{_prose(_authentication(document))}</p>",
        '<p>The same as data: <a href="/openapi.json">openapi.json</a>. Below each operation are '
        '<a href="#schemas">schemas</a> and <a href="#errors">errors</a>.</p>\n</header>',
        *_contents(topics),
        "<main>",
    ]
    for tag, entries in topics:
        parts.append(f'<section id="{_anchor(tag["name"])}">\n<h2>{escape(tag["name"])}</h2>')
        parts.append(f"<p>{_prose(tag['description'])}</p>")
        for entry in entries:
            parts += _operation(*entry, document["components"]["schemas"])
        parts.append("</section>")
    parts += _schemas(document["components"]["schemas"])
    parts += _errors(document["components"]["examples"])
    parts.append("</main>\n</body>\n</html>\n")
    return "\n".join(parts).encode()


def _authentication(document: Schema) -> str:
    needed = {} not in document["security"]
    scheme = document["components"]["securitySchemes"]["bearer"]["description"]
    return f"{'A token is required. ' if needed else ''}{scheme}"


def _contents(topics: Iterable[tuple[Schema, list[Any]]]) -> Iterator[str]:
    yield '<nav aria-label="Operations">'
    for tag, entries in topics:
        yield f'<h2><a href="#{_anchor(tag["name"])}">{escape(tag["name"])}</a></h2>\n<ul>'
        for _, _, operation in entries:
            link = f'<a href="#{operation["operationId"]}">{_prose(operation["summary"])}</a>'
            yield f"<li>{link}</li>"
        yield "</ul>"
    yield "</nav>"


def _operation(
    method: str, path: str, operation: Schema, schemas: Mapping[str, Schema]
) -> Iterator[str]:
    name = operation["operationId"]
    yield f'<article id="{name}">\n<h3><a href="#{name}">{_prose(operation["summary"])}</a></h3>'
    yield f'<p class="address"><b>{method}</b> <code>{escape(path)}</code></p>'
    is_public = operation.get("security") == []
    about = operation["description"] + (" Needs no token." if is_public else "")
    yield f"<p>{_prose(about.strip())}</p>"
    if operation["parameters"]:
        yield "<h4>Parameters</h4>\n<dl>"
        for entry in operation["parameters"]:
            marks = f"in the {entry['in']}, {'required' if entry['required'] else 'optional'}"
            about = entry.get("description", "")
            yield from _member(entry["name"], entry["schema"], marks, about)
        yield "</dl>"
    body: Any = operation.get("requestBody", {}).get("content", {})
    for media_type, content in body.items():
        yield f"<h4>Body</h4>\n<p>{escape(media_type)}: {_type(content['schema'])}</p>"
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        schema = schemas.get(name, content["schema"])
        if "description" in schema:
            yield f"<p>{_prose(schema['description'])}</p>"
        if "properties" in schema:
            yield from _members(schema)
    example = next((content.get("example") for content in body.values()), None)
    yield f"<h4>Example</h4>\n<pre><code>{_curl(method, path, operation, example)}</code></pre>"
    yield "<h4>Replies</h4>\n<dl>"
    for status, response in operation["responses"].items():
        if not status.startswith("2"):
            break
        kinds = [
            f"{escape(media_type)}{': ' + _type(content['schema']) if content else ''}"
            for media_type, content in response["content"].items()
        ]
        yield f"<dt>{status}</dt><dd>{'<br>'.join(kinds)}</dd>"
        for header in response.get("headers", ()):
            yield f"<dt>header <code>{escape(header)}</code></dt><dd></dd>"
    yield '</dl>\n<h4>Errors</h4>\n<dl class="errors">'
    for status, response in operation["responses"].items():
        for content in response["content"].values():
            codes = ", ".join(
                f'<a href="#error-{code}"><code>{code}</code></a>'
                for code in content.get("examples", ())
            )
            yield f"<dt>{status}</dt><dd>{codes}</dd>" if codes else ""
    yield "</dl>\n</article>"


def _curl(method: str, path: str, operation: Schema, example: Any) -> str:
    """Return a command that sends the request; `$URL` and `$TOKEN` are the reader's own."""
    words = ["curl", *([] if method in ("GET", "POST") else ["-X", method]), f'"$URL{path}"']
    if operation.get("security") != []:
        words.append('-H "Authorization: Bearer $TOKEN"')
    content = operation.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        words.append("-F file=@chapter.md")
    elif content:
        text = json.dumps(example or {}, ensure_ascii=False).replace("'", "'\\''")
        words.append(f"--json '{text}'")
    elif method == "POST":
        words.insert(1, "-X POST")
    return escape(" ".join(words), quote=False)


def _schemas(schemas: Mapping[str, Schema]) -> Iterator[str]:
    yield '<section id="schemas">\n<h2>Schemas</h2>'
    for name, schema in schemas.items():
        yield f'<article id="schema-{name}">\n<h3><a href="#schema-{name}">{name}</a></h3>'
        if "description" in schema:
            yield f"<p>{_prose(schema['description'])}</p>"
        if "properties" in schema:
            yield from _members(schema)
        else:
            yield f"<p>{_type(schema)}</p>"
        yield "</article>"
    yield "</section>"


def _errors(examples: Mapping[str, Any]) -> Iterator[str]:
    yield '<section id="errors">\n<h2>Errors</h2>\n<dl>'
    for code, example in examples.items():
        value = example["value"]
        again = "; the same request may succeed later" if value["retryable"] else ""
        advice = f" {_prose(value['advice'])}" if value["advice"] else ""
        yield f'<dt id="error-{code}"><code>{code}</code> {value["status"]}{again}</dt>'
        yield f"<dd>{_prose(value['detail'])}{advice}</dd>"
    yield "</dl>\n</section>"


def _members(schema: Schema) -> Iterator[str]:
    required = schema.get("required", ())
    yield "<dl>"
    for name, member in schema["properties"].items():
        marks = "required" if name in required else ""
        yield from _member(name, member, marks, _description(member))
    yield "</dl>"


def _description(schema: Schema) -> str:
    """Return the description of a value, which may be that of its one variant besides null."""
    found = (_description(variant) for variant in schema.get("anyOf", ()))
    return schema.get("description") or next(filter(None, found), "")


def _member(name: str, schema: Schema, marks: str, description: str) -> Iterator[str]:
    note = f" <small>{marks}</small>" if marks else ""
    yield f"<dt><code>{escape(name)}</code> {_type(schema)}{note}</dt>"
    variants = [schema, *schema.get("anyOf", ())]
    examples = [_value(value) for variant in variants for value in variant.get("examples", ())]
    shown = f" Example: {', '.join(examples)}" if examples else ""
    yield f"<dd>{_prose(description)}{shown}</dd>"


def _type(schema: Schema) -> str:
    """Return what a value may be, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#schema-{name}">{name}</a>'
    variants = next((schema[key] for key in ("anyOf", "oneOf") if key in schema), None)
    if variants is not None:
        shown = " or ".join(dict.fromkeys(_type(variant) for variant in variants))
    elif "allOf" in schema:
        shown = " and ".join(_type(part) for part in schema["allOf"])
    elif "enum" in schema:
        shown = " or ".join(_value(value) for value in schema["enum"])
    elif "const" in schema:
        shown = _value(schema["const"])
    elif schema.get("type") == "array":
        shown = f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    elif schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        shown = f"object of {_type(schema['additionalProperties'])}"
    else:
        kinds = schema.get("type", "any value")
        kinds = " or ".join([kinds] if isinstance(kinds, str) else kinds)
        shown = escape(schema.get("format", kinds))
    limits = [
        words.format(_value(schema[key]))
        for key, words in _LIMITS.items()
        if schema.get(key) is not None and (key, schema[key]) != ("minLength", 1)
    ]
    return f"{shown} <small>({', '.join(limits)})</small>" if limits else shown


def _value(value: Any) -> str:
    return f"<code>{escape(json.dumps(value, ensure_ascii=False), quote=False)}</code>"


def _prose(text: str) -> str:
    """Return a description with its `code` marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _anchor(topic: str) -> str:
    return f"topic-{topic.lower()}"
