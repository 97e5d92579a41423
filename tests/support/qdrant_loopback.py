"""A partial Qdrant server on the loopback: REST outside, local mode inside.

Every body is read with the classes that the client library generates from Qdrant's published API,
which refuse unknown members; what a strict collection would refuse is refused. Answers have the
published shapes, and numbers the digits that a server writes for a float32.
"""

import json
import re
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from qdrant_client import QdrantClient, models

from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction


class Refusal(Exception):
    """An error status of the server."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class QdrantLoopback(Loopback):
    """Replies like a Qdrant server, and records every request."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.local = QdrantClient(":memory:")
        self.made: dict[str, models.CreateCollection] = {}
        self.changed: dict[str, list[models.UpdateCollection]] = {}
        self.indexes: dict[str, dict[str, Any]] = {}
        self.status = "green"
        """What it says of every collection."""
        self.version = "1.19.0"
        self._one_at_a_time = threading.Lock()
        super().__init__(tls=tls)

    def answer(self, asked: Asked) -> Reaction:
        path = urlsplit(asked.path).path
        if path == "/":
            return Answer(content={"title": "qdrant", "version": self.version})
        for method, pattern, reply in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == asked.method:
                with self._one_at_a_time:
                    return self._answered(reply, match.groups(), asked)
        return _problem(404, "")

    def _answered(
        self, reply: Callable[..., Any], names: tuple[str, ...], asked: Asked
    ) -> Reaction:
        if names and names[0] not in self.made and reply not in (_exists, _create, _delete_all):
            return _problem(404, f"Not found: Collection `{names[0]}` doesn't exist!")
        try:
            result = reply(self, *names, asked.body)
        except Refusal as refusal:
            return _problem(refusal.status, str(refusal))
        return Answer(content={"result": result, "status": "ok", "time": 0.0001})

    def stop(self) -> None:
        super().stop()
        self.local.close()

    def lose_everything(self) -> None:
        """Restart without any collection, like a server with an empty disk."""
        for name in list(self.made):
            self.local.delete_collection(name)
            del self.made[name]

    def bodies(self, path: str) -> list[Any]:
        """Return the bodies of all requests to addresses with this ending."""
        return [one.content for one in self.asked if urlsplit(one.path).path.endswith(path)]

    def demand_indexes(self, name: str, chosen: models.Filter | None) -> None:
        """Refuse what strict collections refuse: a filter on a field without an index."""
        strict = self.made[name].strict_mode_config
        if strict is None or not strict.enabled:
            return
        for key in _keys_of(chosen):
            if key not in self.indexes[name]:
                raise Refusal(400, f'Bad request: Index required but not found for "{key}"')


def _problem(status: int, message: str) -> Answer:
    return Answer(status, {"status": {"error": message}, "time": 0.0})


def _keys_of(chosen: models.Filter | None) -> Iterator[str]:
    for part in (chosen.must, chosen.must_not) if chosen else ():
        for condition in part if isinstance(part, list) else [part]:
            if isinstance(condition, models.FieldCondition):
                yield condition.key


def _listed(server: QdrantLoopback, _: bytes) -> Any:
    return {"collections": [{"name": name} for name in server.made]}


def _exists(server: QdrantLoopback, name: str, _: bytes) -> Any:
    return {"exists": name in server.made}


def _described(server: QdrantLoopback, name: str, _: bytes) -> Any:
    found = server.local.get_collection(name).model_dump(mode="json")
    made = server.made[name]
    config = found["config"]
    config["params"]["vectors"] = json.loads(made.model_dump_json(exclude_none=True))["vectors"]
    for change in (made, *server.changed[name]):
        if change.strict_mode_config is not None:
            config["strict_mode_config"] = change.strict_mode_config.model_dump(mode="json")
        if change.hnsw_config is not None:
            config["hnsw_config"] |= change.hnsw_config.model_dump(mode="json", exclude_none=True)
        if change.optimizers_config is not None:
            config["optimizer_config"] |= change.optimizers_config.model_dump(exclude_none=True)
        if change.quantization_config is not None:
            config["quantization_config"] = json.loads(change.model_dump_json(exclude_none=True))[
                "quantization_config"
            ]
        for key, value in (change.metadata or {}).items():
            # Null removes a member.
            kept = config["metadata"] = {**(config.get("metadata") or {}), key: value}
            if value is None:
                del kept[key]
    found["status"] = server.status
    found["payload_schema"] = {
        field: {"data_type": parameters["type"], "params": parameters, "points": 0}
        for field, parameters in server.indexes[name].items()
    }
    return found


def _create(server: QdrantLoopback, name: str, body: bytes) -> Any:
    asked = models.CreateCollection.model_validate_json(body)
    if name in server.made:
        raise Refusal(409, f"Wrong input: Collection `{name}` already exists!")
    assert isinstance(asked.vectors, models.VectorParams)
    # Local mode scales every vector again where a server leaves those of length one as they are.
    plain = asked.vectors.model_copy(update={"distance": models.Distance.DOT})
    server.local.create_collection(name, vectors_config=plain)
    server.made[name], server.changed[name], server.indexes[name] = asked, [], {}
    return True


def _change(server: QdrantLoopback, name: str, body: bytes) -> Any:
    server.changed[name].append(models.UpdateCollection.model_validate_json(body))
    return True


def _delete_all(server: QdrantLoopback, name: str, _: bytes) -> Any:
    server.local.delete_collection(name)
    return server.made.pop(name, None) is not None


def _index(server: QdrantLoopback, name: str, body: bytes) -> Any:
    asked = models.CreateFieldIndex.model_validate_json(body)
    assert asked.field_schema is not None
    assert not isinstance(asked.field_schema, str)
    server.indexes[name][asked.field_name] = asked.field_schema.model_dump(mode="json")
    return _DONE


def _upsert(server: QdrantLoopback, name: str, body: bytes) -> Any:
    points = models.PointsList.model_validate_json(body).points
    kept = [one.model_copy(update={"vector": _kept(server, name, one.vector)}) for one in points]
    server.local.upsert(name, kept)
    return _DONE


def _delete(server: QdrantLoopback, name: str, body: bytes) -> Any:
    chosen = models.FilterSelector.model_validate_json(body)
    server.demand_indexes(name, chosen.filter)
    server.local.delete(name, chosen)
    return _DONE


def _batch(server: QdrantLoopback, name: str, body: bytes) -> Any:
    changes = models.UpdateOperations.model_validate_json(body).operations
    for one in changes:
        assert isinstance(one, models.DeleteOperation)
        assert isinstance(one.delete, models.FilterSelector)
        server.demand_indexes(name, one.delete.filter)
    server.local.batch_update_points(name, changes)
    return [_DONE for _ in changes]


def _query(server: QdrantLoopback, name: str, body: bytes) -> Any:
    searches = models.QueryRequestBatch.model_validate_json(body).searches
    for one in searches:
        server.demand_indexes(name, one.filter)
    # Local mode knows no parameters: it is always exact.
    bare = [
        one.model_copy(update={"params": None, "query": _kept(server, name, one.query.nearest)})
        for one in searches
        if isinstance(one.query, models.NearestQuery)
    ]
    found = server.local.query_batch_points(name, bare)
    return [{"points": [_scored(one) for one in answer.points]} for answer in found]


def _kept(server: QdrantLoopback, name: str, vector: Any) -> list[float]:
    """Return a vector as a server keeps it: under cosine it has the length one."""
    vectors = server.made[name].vectors
    squared = sum(number * number for number in vector)
    cosine = isinstance(vectors, models.VectorParams) and vectors.distance == "Cosine"
    if not cosine or abs(squared - 1) <= 1e-6 or squared < 1e-7:
        return vector
    return [number / squared**0.5 for number in vector]


def _scored(one: models.ScoredPoint) -> dict[str, Any]:
    return one.model_dump(mode="json", exclude_none=True) | {"score": shortest(one.score)}


def _scroll(server: QdrantLoopback, name: str, body: bytes) -> Any:
    asked = models.ScrollRequest.model_validate_json(body)
    server.demand_indexes(name, asked.filter)
    records, following = server.local.scroll(
        name,
        scroll_filter=asked.filter,
        limit=asked.limit or 10,
        offset=asked.offset,
        with_payload=asked.with_payload or False,
        with_vectors=asked.with_vector or False,
    )
    points = [
        one.model_dump(mode="json") | {"vector": [shortest(number) for number in one.vector]}
        for one in records
        if isinstance(one.vector, list)
    ]
    return {"points": points, "next_page_offset": following}


def _count(server: QdrantLoopback, name: str, body: bytes) -> Any:
    asked = models.CountRequest.model_validate_json(body)
    server.demand_indexes(name, asked.filter)
    return {"count": server.local.count(name, asked.filter, exact=True).count}


def _facet(server: QdrantLoopback, name: str, body: bytes) -> Any:
    asked = models.FacetRequest.model_validate_json(body)
    found = server.local.facet(name, asked.key, limit=asked.limit or 10, exact=True)
    return found.model_dump(mode="json")


def shortest(number: Any) -> float:
    """Return the fewest digits that name a float32, as a server writes it, read as a double."""
    (wanted,) = struct.unpack("<f", struct.pack("<f", number))
    for digits in range(1, 10):
        spelled = float(f"{wanted:.{digits}g}")
        if struct.pack("<f", spelled) == struct.pack("<f", wanted):
            return spelled
    return wanted


_DONE = {"operation_id": 1, "status": "completed"}
_NAME = "/collections/([^/]+)"
_ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("GET", "/collections", _listed),
    ("GET", f"{_NAME}/exists", _exists),
    ("GET", _NAME, _described),
    ("PUT", _NAME, _create),
    ("PATCH", _NAME, _change),
    ("DELETE", _NAME, _delete_all),
    ("PUT", f"{_NAME}/index", _index),
    ("PUT", f"{_NAME}/points", _upsert),
    ("POST", f"{_NAME}/points/delete", _delete),
    ("POST", f"{_NAME}/points/batch", _batch),
    ("POST", f"{_NAME}/points/query/batch", _query),
    ("POST", f"{_NAME}/points/scroll", _scroll),
    ("POST", f"{_NAME}/points/count", _count),
    ("POST", f"{_NAME}/facet", _facet),
]
