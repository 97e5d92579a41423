"""Print the OpenAPI document of a server that needs tokens: `python -m tools.openapi`."""

from __future__ import annotations

import sys

from truespan.extensions.server.http.openapi import document_operation, make_document
from truespan.extensions.server.http.routes import OPERATIONS


def main() -> None:
    every = (*OPERATIONS, document_operation(OPERATIONS, needs_token=True))
    sys.stdout.buffer.write(make_document(every, needs_token=True))


if __name__ == "__main__":
    main()
