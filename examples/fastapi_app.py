"""A FastAPI application that passes its user's identity on to Truespan.

The application knows its users; Truespan decides what each of them finds. The application has a
token that may impersonate, and names the labels of the user with every request. Without labels it
sees only what is for everyone, so a forgotten header shows too little and never too much.

    truespan token create app -w company --impersonate
    TRUESPAN_URL=http://127.0.0.1:8700 TRUESPAN_TOKEN=ts_... uvicorn examples.fastapi_app:app
"""

from __future__ import annotations

import os
from typing import Annotated, Any
from urllib.parse import quote

import httpx2
from fastapi import Depends, FastAPI, HTTPException  # pyright: ignore[reportMissingImports]
from fastapi.security import HTTPBasic, HTTPBasicCredentials  # pyright: ignore[reportMissingImports]

PEOPLE = {
    "ana": ("ana's password", ["group:people"]),
    "bo": ("bo's password", ["group:security"]),
}
"""Stands for the user directory of the application: passwords and groups."""

app = FastAPI()
login = HTTPBasic()
truespan = httpx2.AsyncClient(
    base_url=os.environ.get("TRUESPAN_URL", "http://127.0.0.1:8700"),
    headers={"Authorization": f"Bearer {os.environ.get('TRUESPAN_TOKEN', '')}"},
)


def labels_of(given: Annotated[HTTPBasicCredentials, Depends(login)]) -> list[str]:
    """Return the labels of the user, from the application's own directory and nothing else."""
    password, groups = PEOPLE.get(given.username, ("", []))
    if not password or given.password != password:
        raise HTTPException(401, headers={"WWW-Authenticate": "Basic"})
    return [f"user:{given.username}", *groups]


@app.get("/search")
async def search(query: str, labels: Annotated[list[str], Depends(labels_of)]) -> list[str]:
    """Return the sources that the user may see, best first."""
    reply = await truespan.post(
        "/v1/worlds/company/search",
        json={"query": query},
        # Headers of the browser are never passed on.
        headers={"X-Truespan-Audience": ",".join(quote(label, safe=":") for label in labels)},
    )
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()
    return list(dict.fromkeys(passage["source"] for passage in found["passages"]))
