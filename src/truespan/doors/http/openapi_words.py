"""What the OpenAPI document says in words: topics, parameters, headers, and rules between members.

The types of bodies and replies speak for themselves; here is what no type can say.
"""

from __future__ import annotations

from typing import Any

from truespan.doors.http.problems import PROBLEM
from truespan.doors.http.uploads import MOST_FILES
from truespan.model.replay import LONGEST_KEY

ABOUT = (
    "Every character that is given out was checked, at the moment of reading, against the hash it "
    "was embedded with; and a caller sees no more than its token allows.\n\n"
    "A world is named by its id or its name, a document by its number, its doc_id or the name of "
    "its file; names are percent-encoded. A body is refused if it has members that are not known "
    "here, and a query string if it has such names. What a caller may not know of is answered as "
    "if it were not there.\n\n"
    "Every error is a problem (RFC 9457) with a stable `code`, and `retryable` says whether the "
    "same request may succeed later. An address that takes another method answers 405 with "
    "`Allow`; what can be got can be asked for its headers alone (HEAD). A request that changes "
    "something may have an `Idempotency-Key`: sent again with the same key within a day, it gets "
    "the reply of the first time, and nothing is done twice."
)
TOPIC_WORDS = {
    "Worlds": "Worlds keep documents apart; domains are names for what is asked.",
    "Documents": "Documents are uploaded, listed, read and removed.",
    "Jobs": "Taking in documents and building generations goes on in jobs.",
    "Asking": "Whoever may read a world searches it, gets context from it, and asks it questions.",
    "Reading": "A reader gets nothing from beyond the position in the book.",
    "Generations": "A world can be built anew beside the one in use, which then changes at once.",
    "Server": "The server says whether it runs, how it fares, and what can be asked of it.",
}

_WORDS = r"[^\s\u001c-\u001f\u0085]"
"""Something that is no white space, as Python has it: some others count less as white space."""
_SEGMENT = r"^[^/]+$"

PATHS: dict[str, dict[str, Any]] = {
    "world": {
        "description": "The id or the name of a world.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "document": {
        "description": "The number of a document, its doc_id, or its name if only one has it.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "chunk": {
        "description": "The id of a chunk.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "image_ref": {
        "description": "An image as figures name it: the doc_id, a slash, and the image's name.",
        "schema": {"type": "string", "minLength": 1},
    },
    "job": {
        "description": "The id of a job.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "reader": {
        "description": "The name of a reader; one that has no position reads nothing.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "pattern": rf"^[^/]*{_WORDS.replace('[^', '[^/')}[^/]*$",
        },
    },
    "record": {
        "description": "The id of a record in the usage log.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "generation": {
        "description": "The number of a generation.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    },
    "X-RAG-Domain": {
        "description": "The key of a domain: its generation is asked, and it chooses the world.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    },
    "Idempotency-Key": {
        "description": "Any word that no other request has. Repeating the request with it is safe.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_KEY,
            "pattern": r"^[!-~]([ -~]*[!-~])?$",
        },
    },
}
"""Parameters by their names."""

_SECONDS = {"type": "integer", "minimum": 1}
HEADERS: dict[str, Any] = {
    "X-Answer-Mode": {
        "description": "How the answer came about, as `mode` says in it.",
        "required": True,
        "schema": {"type": "string", "enum": ["rag", "hybrid", "fallback"]},
    },
    "X-RAG-Domain": {
        "description": "The domain that was asked, where one was named.",
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "Where what was made, or the job at work, can be looked at.",
        "required": True,
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Retry-After": {
        "description": "After how many seconds to try again.",
        "required": True,
        "schema": _SECONDS,
    },
    "Maybe-Retry-After": {
        "description": "After how many seconds to try again, where that is known.",
        "schema": _SECONDS,
    },
    "WWW-Authenticate": {
        "description": "Which kind of token is wanted.",
        "required": True,
        "schema": {"type": "string", "const": 'Bearer realm="truespan"'},
    },
    "Allow": {
        "description": "The methods that the address takes.",
        "required": True,
        "schema": {"type": "string"},
    },
}
RESPONSES: dict[str, Any] = {
    "MethodNotAllowed": {
        "description": "The answer of any address to a method that it does not take (405).",
        "headers": {"Allow": {"$ref": "#/components/headers/Allow"}},
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}},
    }
}

_WORLD = "$request.path.world"
_JOB = {"world": _WORLD, "job": "$response.body#/job/id"}
_MADE = {"world": "$response.body#/id"}
LINKS: dict[str, dict[str, dict[str, str]]] = {
    "createWorld": {"showWorld": _MADE, "listDocuments": _MADE, "deleteWorld": _MADE},
    "uploadDocuments": {"showJob": _JOB, "followJob": _JOB, "cancelJob": _JOB},
    "reindex": {"showJob": _JOB, "followJob": _JOB, "cancelJob": _JOB},
    "repairWorld": {"showJob": _JOB, "followJob": _JOB, "cancelJob": _JOB},
    "examineWorld": {"showJob": _JOB, "followJob": _JOB, "cancelJob": _JOB},
    "resumeJob": {"showJob": _JOB, "followJob": _JOB},
}
"""Where a reply leads: which calls it has the parameters of."""

_GIVEN = {"type": "string"}
NARROWER: dict[str, dict[str, Any]] = {
    "SearchArguments": {"properties": {"query": {"pattern": _WORDS}}},
    "Question": {"properties": {"query": {"pattern": _WORDS}}},
    "ChatQuestion": {"properties": {"query": {"pattern": _WORDS}}},
    "Missing": {"properties": {"query": {"pattern": _WORDS}}},
    "ReadingArguments": {"properties": {"query": {"pattern": _WORDS}}},
    "ReadingQuestion": {"properties": {"query": {"pattern": _WORDS}}},
    "ReadingMissing": {"properties": {"query": {"pattern": _WORDS}}},
    "Retrieving": {
        "anyOf": [
            {"required": ["query"], "properties": {"query": {**_GIVEN, "pattern": _WORDS}}},
            {
                "required": ["selected_text"],
                "properties": {
                    "query": {"type": "null"},
                    "selected_text": {**_GIVEN, "pattern": _WORDS},
                    "fused": {"const": False},
                },
            },
        ],
    },
    "NewPosition": {
        "oneOf": [
            {"required": ["sid"], "properties": {"sid": {"type": "integer"}}},
            {"required": ["through_chapter"], "properties": {"through_chapter": _GIVEN}},
            {"required": ["passage"], "properties": {"passage": _GIVEN}},
        ],
    },
}
"""What is said of bodies beyond their types. The engine has errors of its own for these."""

UPLOAD: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {
        "file": {
            "description": "The files, each in a part of this name with a name of its own.",
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_FILES,
            "items": {"type": "string", "format": "binary"},
        },
    },
}
"""The form of an upload; its other fields are those of `Declaration`."""
