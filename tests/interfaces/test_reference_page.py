"""The API reference at `/docs`: complete, without scripts, other hosts or secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, Response, serve_library
from tests.promises import proves
from tests.support.worlds import make_library
from truespan.http.app import ServerOptions
from truespan.http.auth import AuthPolicy


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    lib = make_library(tmp_path_factory.mktemp("reference") / "zqlibrary")
    lib.world("zqworld", a__txt="The lamp went out.")
    options = ServerOptions(auth=AuthPolicy(needs_token=True))
    with serve_library(lib.library, options) as asking:
        yield asking
    lib.library.close()


@pytest.fixture(scope="module")
def page(client: Client) -> Response:
    return client.json("GET", "/docs")


class Elements(HTMLParser):
    """The elements of a page: their ids, links, and everything that is fetched or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert tag not in ("script", "style", "iframe", "form", "img"), tag
        assert not any(name == "style" or name.startswith("on") for name in given), given
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if "href" in given:
            (self.fetched if tag == "link" else self.links).add(given["href"])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@proves("http.reference-page")
def test_reference_page_has_no_script_and_no_other_host(client: Client, page: Response) -> None:
    elements = Elements(page.body.decode())

    assert (page.status, page.header("content-type")) == (200, "text/html; charset=utf-8")
    policy = client.json("GET", "/").header("content-security-policy")
    assert page.header("content-security-policy") == policy
    assert elements.open == []
    assert elements.fetched == {"data:,", "/page/reference.css"}
    assert client.json("GET", "/page/reference.css").status == 200
    assert {link for link in elements.links if link[0] != "#"} == {"/openapi.json"}
    assert len(set(elements.ids)) == len(elements.ids)
    assert {link[1:] for link in elements.links if link[0] == "#"} <= set(elements.ids)


def test_page_accepts_any_query_string_endpoint_names_unknown(
    client: Client,
) -> None:
    plain = client.json("GET", "/")
    assert client.json("GET", "/?utm_source=mail&a=1&a=2").body == plain.body
    refused = client.json("GET", "/v1/worlds?unknown=1")
    assert (refused.status, refused.code) == (400, "invalid_argument")


@proves("http.reference-page")
def test_reference_page_describes_every_operation(client: Client, page: Response) -> None:
    document = client.json("GET", "/openapi.json").content
    text = page.body.decode()
    articles = {
        found[1]: unescape(re.sub(r"<[^>]+>", "", found[2]))
        for found in re.finditer(r'<article id="(\w+)">(.*?)</article>', text, re.DOTALL)
    }
    schemas = document["components"]["schemas"]
    missing: list[tuple[str, str]] = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            bodies = operation.get("requestBody", {}).get("content", {})
            members = [
                member
                for content in bodies.values()
                for schema in [content["schema"]]
                for member in schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)[
                    "properties"
                ]
            ]
            examples = [
                json.dumps(content["example"], ensure_ascii=False).replace("'", "'\\''")
                for content in bodies.values()
                if "example" in content
            ]
            codes = [
                code
                for response in operation["responses"].values()
                for content in response["content"].values()
                for code in content.get("examples", ())
            ]
            parameters = [entry["name"] for entry in operation["parameters"]]
            wanted = [f"{method.upper()} {path}", operation["summary"], *parameters, *members]
            words = [*wanted, *examples, *codes, *operation["responses"]]
            missing += [(name, word) for word in words if word not in articles[name]]
    assert missing == []
    # Members that may be null have the description of what else they may be.
    assert "Only this chapter" in articles["search"]
    assert '"any_of": ["open", "new"]' in articles["search"]
    assert "[&#x27;" not in text
    assert all(f'id="schema-{name}"' in text for name in schemas)
    assert all(f'id="error-{code}"' in text for code in document["components"]["examples"])


@proves("http.reference-page")
def test_page_says_nothing_of_the_library_behind_it(page: Response) -> None:
    text = page.body.decode()

    assert "zqworld" not in text
    assert "zqlibrary" not in text
    assert not re.search(r"ts_[0-9a-f]{16}", text)
    assert str(Path.home()) not in text
    assert "A token is required." in text
