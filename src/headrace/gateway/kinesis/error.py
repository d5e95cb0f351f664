"""The errors of the Kinesis API, as a client sees them.

Rule 1: a `ServiceError` is a response. What raises it says which code and which sentence the client
gets; `app` alone writes it as bytes.
Rule 2: sentences follow those of the service, because programs and people search for them.
"""

from http import HTTPStatus

import structlog

from headrace.client.error import BrokerError
from headrace.model.error import HeadraceError

log = structlog.get_logger()


class ServiceError(HeadraceError):
    """One error response.

    Attributes:
        code: the exception's name in the service model, such as `ResourceNotFoundException`.
        message: the sentence for the client.
        status: the HTTP status; botocore decides by it whether to retry.
    """

    def __init__(
        self, code: str, message: str | None = None, status: HTTPStatus = HTTPStatus.BAD_REQUEST
    ) -> None:
        self.code = code
        self.message = message
        self.status = status
        super().__init__(code if message is None else f"{code}: {message}")


def not_found(message: str) -> ServiceError:
    return ServiceError("ResourceNotFoundException", message)


def in_use(message: str) -> ServiceError:
    return ServiceError("ResourceInUseException", message)


def invalid_argument(message: str) -> ServiceError:
    return ServiceError("InvalidArgumentException", message)


def limit_exceeded(message: str) -> ServiceError:
    return ServiceError("LimitExceededException", message)


def validation(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)


def serialization(message: str | None = None) -> ServiceError:
    return ServiceError("SerializationException", message)


def throughput_exceeded(message: str) -> ServiceError:
    return ServiceError("ProvisionedThroughputExceededException", message)


def internal_failure(message: str) -> ServiceError:
    return ServiceError("InternalFailureException", message, HTTPStatus.INTERNAL_SERVER_ERROR)


def cluster_failure(what: str, error: Exception) -> ServiceError:
    """Return what a client may know of a failure behind the gateway; the log has the rest.

    The text of a client's error names brokers and their addresses.
    """
    log.warning("kinesis_cluster_failure", what=what, error=repr(error))
    if isinstance(error, BrokerError):
        return internal_failure(f"{what}: {error.name}.")
    return internal_failure(f"{what}: the cluster does not answer.")


def not_built(operation: str) -> ServiceError:
    """An operation of the service that this gateway lacks: never a silent success."""
    return ServiceError(
        "UnsupportedOperationException",
        f"{operation} is not supported by Headrace yet: docs/kinesis.md lists what is.",
        HTTPStatus.NOT_IMPLEMENTED,
    )
