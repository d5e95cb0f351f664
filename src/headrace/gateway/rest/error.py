"""The errors of the REST API, as a client sees them.

Rule 1: a `RestError` is a response: an HTTP status, an error code and a sentence. `app` writes the
error of a whole request as bytes; a response for many records has one per record.
Rule 2: a code has the status as its first three digits, and is the status itself where Confluent's
API has no finer one.
Rule 3: what a client error says beyond a broker's answer names brokers and their addresses. It goes
to the log, not to the client.
"""

from collections.abc import Iterable
from typing import Any, Final, Self

import structlog

from headrace.client.error import BrokerError, ClientError, Unsupported
from headrace.client.network.retry import STALE_COORDINATOR, STALE_LEADER
from headrace.model.error import HeadraceError
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

_BAD: Final = (400, 40002)
_DENIED: Final = (403, 40301)
_MISSING: Final = (404, 40403)
_TOO_LARGE: Final = (413, 413)
_FAILED: Final = (500, 50002)
_MAY_PASS: Final = (500, 50003)

_CODES: Final = {
    ErrorCode.topic_already_exists: _BAD,
    ErrorCode.invalid_topic_exception: _BAD,
    ErrorCode.invalid_partitions: _BAD,
    ErrorCode.invalid_replication_factor: _BAD,
    ErrorCode.invalid_replica_assignment: _BAD,
    ErrorCode.invalid_config: _BAD,
    ErrorCode.invalid_request: _BAD,
    ErrorCode.policy_violation: _BAD,
    ErrorCode.security_disabled: _BAD,
    ErrorCode.invalid_timestamp: _BAD,
    ErrorCode.invalid_group_id: _BAD,
    ErrorCode.topic_deletion_disabled: _BAD,
    ErrorCode.topic_authorization_failed: _DENIED,
    ErrorCode.group_authorization_failed: _DENIED,
    ErrorCode.cluster_authorization_failed: _DENIED,
    ErrorCode.unknown_topic_or_partition: _MISSING,
    ErrorCode.unknown_topic_id: _MISSING,
    ErrorCode.group_id_not_found: _MISSING,
    ErrorCode.no_reassignment_in_progress: _MISSING,
    ErrorCode.message_too_large: _TOO_LARGE,
    ErrorCode.record_list_too_large: _TOO_LARGE,
    ErrorCode.not_enough_replicas: _MAY_PASS,
    ErrorCode.not_enough_replicas_after_append: _MAY_PASS,
    ErrorCode.request_timed_out: _MAY_PASS,
}


MOST_MESSAGE_CHARACTERS: Final = 500
"""Of a sentence for the client: errors of schemas and values quote them, and may have megabytes."""


class RestError(HeadraceError):
    """One error response.

    Attributes:
        status: of HTTP.
        code: Confluent's code; the status itself where it has no finer one.
        message: the sentence for the client, cut to `MOST_MESSAGE_CHARACTERS`.
    """

    def __init__(self, status: int, message: str, code: int | None = None) -> None:
        self.status = status
        self.code = status if code is None else code
        if len(message) > MOST_MESSAGE_CHARACTERS:
            message = f"{message[: MOST_MESSAGE_CHARACTERS - 3]}..."
        self.message = message
        super().__init__(f"{self.code}: {message}")

    def detached(self) -> Self:
        """Return it for a response with many errors: without the errors behind it, and without the
        frames it came through, which hold the data that it is about."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)

    @property
    def document(self) -> dict[str, Any]:
        """The response's body."""
        return {"error_code": self.code, "message": self.message}


class MethodNotAllowed(RestError):
    """A path that takes other methods than that of the request.

    Attributes:
        allowed: for the header Allow.
    """

    def __init__(self, methods: Iterable[str]) -> None:
        super().__init__(405, "HTTP 405 Method Not Allowed")
        self.allowed = ", ".join(sorted(methods))


class Refused(Exception):
    """The rest of the request is not read; its connection is closed."""

    def __init__(self, error: RestError) -> None:
        super().__init__(error)
        self.error = error


def bad_request(message: str) -> RestError:
    return RestError(400, message)


def unprocessable(message: str, code: int = 422) -> RestError:
    return RestError(422, message, code)


def not_found(message: str = "HTTP 404 Not Found", code: int = 404) -> RestError:
    return RestError(404, message, code)


def needs_registry(what: str) -> RestError:
    """Return the error of data that needs a schema: never a silent success."""
    return unprocessable(
        f"Payload error. {what[0].upper()}{what[1:]} needs a schema registry, and this proxy was "
        "started without --registry URL: write BINARY, STRING or JSON (API v2: binary or json)",
        42206,
    )


def cluster_error(error: ClientError) -> RestError:
    """Return what a client may know of a failure behind the proxy; the log has the rest."""
    if isinstance(error, BrokerError):
        status, code = _CODES.get(error.code, _FAILED)
        if error.code in STALE_LEADER or error.code in STALE_COORDINATOR:
            status, code = _CODES.get(error.code, _MAY_PASS)
        if status == 500:
            log.warning("rest_cluster_failure", error=repr(error))
        return RestError(status, error.detail or f"{str(error).capitalize()}.", code)
    log.warning("rest_cluster_failure", error=repr(error))
    if isinstance(error, Unsupported):
        return RestError(400, "The cluster does not support this operation.", 40001)
    return RestError(500, "Retriable Kafka error: the cluster does not answer.", 50003)
