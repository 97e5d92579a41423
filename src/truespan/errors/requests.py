"""Errors of requests that come over a network: what is wrong with how they came."""

from __future__ import annotations

from collections.abc import Iterable

from truespan.errors.families import CallerError, ServiceError


class RouteNotFound(CallerError):
    code = "route_not_found"

    def __init__(self) -> None:
        super().__init__("There is nothing at this address.", advice="/openapi.json lists what is.")


class MethodNotAllowed(CallerError):
    code = "method_not_allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(
            "This address does not take that method.",
            advice=f"It takes: {', '.join(self.allowed)}.",
        )


class MediaTypeUnsupported(CallerError):
    code = "media_type_unsupported"

    def __init__(self, wanted: str) -> None:
        super().__init__(
            "The body is of another kind than is taken here.", advice=f"Send {wanted}."
        )


class RequestTooLarge(CallerError):
    code = "request_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The request has more than {limit} bytes.",
            advice="Send less at once; the operator's settings have the limit.",
        )
        self.limit = limit


class HostRefused(CallerError):
    """The Host header names nobody that this server answers for."""

    code = "host_refused"

    def __init__(self) -> None:
        super().__init__(
            "This server does not answer under that host name.",
            advice="Ask it by its address, or let the operator add the name to http_hosts.",
        )


class OriginRefused(CallerError):
    """A page of another site asks."""

    code = "origin_refused"

    def __init__(self) -> None:
        super().__init__(
            "Pages of that origin may not ask this server.",
            advice="The operator may add the origin to http_origins.",
        )


class TooManyRequests(CallerError):
    code = "too_many_requests"
    retryable = True

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            "More requests came than this caller may send.",
            advice=f"Wait {retry_after:.0f} s, and send them more slowly.",
        )
        self.retry_after = retry_after


class KeyReused(CallerError):
    """An idempotency key came with another request than before."""

    code = "idempotency_key_reused"

    def __init__(self) -> None:
        super().__init__(
            "This idempotency key was used for another request.",
            advice="Make a new key for each new request.",
        )


class KeyBusy(CallerError):
    """The request with this idempotency key is still at work."""

    code = "idempotency_key_busy"
    retryable = True
    retry_after = 1.0

    def __init__(self) -> None:
        super().__init__(
            "The first request with this idempotency key is not done yet.",
            advice="Ask again in a moment.",
        )


class DeadlineExceeded(ServiceError):
    code = "deadline_exceeded"
    retryable = True

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The request was not done within {seconds:g} s.",
            advice="Try again, or ask for less; http_timeout_seconds has the limit.",
        )


class Overloaded(ServiceError):
    """More requests or jobs wait than there is room for, or a server is about to end."""

    code = "overloaded"
    retryable = True
    advice = "Try again in a moment."
    retry_after = 1.0

    def __init__(
        self,
        message: str = "The server has no room for another request just now.",
        *,
        retry_after: float = 1.0,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
