"""The same Qdrant server on the loopback by gRPC: each call is turned into its twin of REST."""

# ruff: noqa: N802 -- the names of calls are those of the protocol

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import grpc as transport
from pydantic import BaseModel
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc import collections_service_pb2_grpc, points_service_pb2_grpc

from tests.support.providers.loopback import Answer, Asked
from tests.support.qdrant_loopback import QdrantLoopback

_CODES = {
    400: transport.StatusCode.INVALID_ARGUMENT,
    404: transport.StatusCode.NOT_FOUND,
    409: transport.StatusCode.ALREADY_EXISTS,
}
_DONE = grpc.PointsOperationResponse(
    result=grpc.UpdateResult(operation_id=1, status=grpc.UpdateStatus.Completed)
)


class QdrantGrpcLoopback:
    """A server on 127.0.0.1. Use it in a `with` statement."""

    def __init__(self, *, port: int = 0, certificate: Path | None = None) -> None:
        self.rest = QdrantLoopback()
        self.calls: list[tuple[str, Any]] = []
        self.keys: list[str | bytes | None] = []
        self.fault: transport.StatusCode | None = None
        self._server = transport.server(ThreadPoolExecutor(4))
        collections_service_pb2_grpc.add_CollectionsServicer_to_server(
            _Collections(self), self._server
        )
        points_service_pb2_grpc.add_PointsServicer_to_server(_Points(self), self._server)
        address = f"127.0.0.1:{port}"
        if certificate is None:
            self.port = self._server.add_insecure_port(address)
        else:
            pair = certificate.read_bytes(), Path(f"{certificate}.crt").read_bytes()
            credentials = transport.ssl_server_credentials([pair])
            self.port = self._server.add_secure_port(address, credentials)
        self._server.start()

    def to(self, name: str) -> list[Any]:
        """Return the requests of one kind."""
        return [request for kind, request in self.calls if kind == name]

    def ask(
        self, context: Any, request: Any, method: str, path: str, body: BaseModel | None = None
    ) -> Any:
        """Do what a request asks, as if it had come over REST."""
        self.calls.append((type(request).__name__, request))
        self.keys.append(dict(context.invocation_metadata()).get("api-key"))
        if self.fault is not None:
            _end(context, self.fault)
        sent = (
            b"" if body is None else body.model_dump_json(exclude_none=True, by_alias=True).encode()
        )
        name = getattr(request, "collection_name", "")
        reply = self.rest.answer(Asked(method, path.format(f"/collections/{name}"), {}, sent))
        assert isinstance(reply, Answer)
        if reply.status != 200:
            _end(context, _CODES[reply.status])
        return reply.content["result"]

    def __enter__(self) -> QdrantGrpcLoopback:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop(None).wait()
        self.rest.stop()


def _end(context: Any, code: transport.StatusCode) -> NoReturn:
    context.abort(code, "what the server says of it")
    raise AssertionError("ending a call raises")


class _Collections(collections_service_pb2_grpc.CollectionsServicer):
    def __init__(self, server: QdrantGrpcLoopback) -> None:
        self._ask = server.ask

    def List(self, request: Any, context: Any) -> Any:
        found = self._ask(context, request, "GET", "/collections")
        named = [grpc.CollectionDescription(name=one["name"]) for one in found["collections"]]
        return grpc.ListCollectionsResponse(collections=named)

    def CollectionExists(self, request: Any, context: Any) -> Any:
        found = self._ask(context, request, "GET", "{}/exists")
        return grpc.CollectionExistsResponse(result=grpc.CollectionExists(exists=found["exists"]))

    def Get(self, request: Any, context: Any) -> Any:
        found = models.CollectionInfo.model_validate(self._ask(context, request, "GET", "{}"))
        return grpc.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(found))

    def Create(self, request: Any, context: Any) -> Any:
        asked = models.CreateCollection(
            vectors=GrpcToRest.convert_vectors_config(request.vectors_config),
            shard_number=request.shard_number,
            replication_factor=request.replication_factor,
            write_consistency_factor=request.write_consistency_factor,
            **_changes(request, GrpcToRest.convert_quantization_config),
        )
        self._ask(context, request, "PUT", "{}", asked)
        return grpc.CollectionOperationResponse(result=True)

    def Update(self, request: Any, context: Any) -> Any:
        changes = _changes(request, GrpcToRest.convert_quantization_config_diff)
        self._ask(context, request, "PATCH", "{}", models.UpdateCollection(**changes))
        return grpc.CollectionOperationResponse(result=True)

    def Delete(self, request: Any, context: Any) -> Any:
        removed = self._ask(context, request, "DELETE", "{}")
        return grpc.CollectionOperationResponse(result=removed)


def _changes(request: Any, quantization: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what making and changing a collection have in common."""
    read: dict[str, Callable[[Any], Any]] = {
        "hnsw_config": GrpcToRest.convert_hnsw_config_diff,
        "optimizers_config": GrpcToRest.convert_optimizers_config_diff,
        "strict_mode_config": GrpcToRest.convert_strict_mode_config,
        "quantization_config": quantization,
    }
    return {
        name: convert(getattr(request, name))
        for name, convert in read.items()
        if request.HasField(name)
    }


class _Points(points_service_pb2_grpc.PointsServicer):
    def __init__(self, server: QdrantGrpcLoopback) -> None:
        self._ask = server.ask

    def CreateFieldIndex(self, request: Any, context: Any) -> Any:
        schema = GrpcToRest.convert_payload_schema_params(request.field_index_params)
        asked = models.CreateFieldIndex(field_name=request.field_name, field_schema=schema)
        self._ask(context, request, "PUT", "{}/index", asked)
        return _DONE

    def Upsert(self, request: Any, context: Any) -> Any:
        points = [GrpcToRest.convert_point_struct(one) for one in request.points]
        self._ask(context, request, "PUT", "{}/points", models.PointsList(points=points))
        return _DONE

    def Delete(self, request: Any, context: Any) -> Any:
        chosen = models.FilterSelector(filter=GrpcToRest.convert_filter(request.points.filter))
        self._ask(context, request, "POST", "{}/points/delete", chosen)
        return _DONE

    def UpdateBatch(self, request: Any, context: Any) -> Any:
        chosen: list[models.UpdateOperation] = [
            models.DeleteOperation(
                delete=models.FilterSelector(
                    filter=GrpcToRest.convert_filter(one.delete_points.points.filter)
                )
            )
            for one in request.operations
        ]
        asked = models.UpdateOperations(operations=chosen)
        done = self._ask(context, request, "POST", "{}/points/batch", asked)
        return grpc.UpdateBatchResponse(result=[_DONE.result for _ in done])

    def QueryBatch(self, request: Any, context: Any) -> Any:
        searches = [GrpcToRest.convert_query_points(one) for one in request.query_points]
        asked = models.QueryRequestBatch(searches=searches)
        found = self._ask(context, request, "POST", "{}/points/query/batch", asked)
        return grpc.QueryBatchResponse(
            result=[
                grpc.BatchResult(result=[_scored(one) for one in all_["points"]]) for all_ in found
            ]
        )

    def Scroll(self, request: Any, context: Any) -> Any:
        offset = GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None
        asked = models.ScrollRequest(
            filter=GrpcToRest.convert_filter(request.filter),
            limit=request.limit,
            offset=offset,
            with_payload=GrpcToRest.convert_with_payload_selector(request.with_payload),
            with_vector=GrpcToRest.convert_with_vectors_selector(request.with_vectors),
        )
        found = self._ask(context, request, "POST", "{}/points/scroll", asked)
        following = found["next_page_offset"]
        return grpc.ScrollResponse(
            result=[_record(one) for one in found["points"]],
            next_page_offset=None
            if following is None
            else RestToGrpc.convert_extended_point_id(following),
        )

    def Count(self, request: Any, context: Any) -> Any:
        chosen = GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None
        asked = models.CountRequest(filter=chosen, exact=request.exact)
        found = self._ask(context, request, "POST", "{}/points/count", asked)
        return grpc.CountResponse(result=grpc.CountResult(count=found["count"]))

    def Facet(self, request: Any, context: Any) -> Any:
        asked = models.FacetRequest(key=request.key, limit=request.limit, exact=request.exact)
        found = self._ask(context, request, "POST", "{}/facet", asked)
        hits = [models.FacetValueHit.model_validate(one) for one in found["hits"]]
        return grpc.FacetResponse(hits=[RestToGrpc.convert_facet_value_hit(one) for one in hits])


def _scored(one: dict[str, Any]) -> Any:
    return RestToGrpc.convert_scored_point(models.ScoredPoint.model_validate(one))


def _record(one: dict[str, Any]) -> Any:
    """Return a point of a page, whose class differs from that of other reads."""
    found = models.Record.model_validate(one)
    return grpc.RetrievedPoint(
        id=RestToGrpc.convert_extended_point_id(found.id),
        payload=RestToGrpc.convert_payload(found.payload or {}),
        vectors=RestToGrpc.convert_vector_struct_output(found.vector or []),
    )
