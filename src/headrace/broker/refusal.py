"""One line at debug level for every request that is refused, whole or in part.

The log of a healthy broker needs no refusals, so a response is searched for error
codes only while this module's logger is at debug level. `kafka-configs --entity-type
broker-loggers` turns it on while the broker runs.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from headrace.broker.call import Call
from headrace.telemetry.log_level import log_levels
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger(__name__)

_REASONS = 3
_NAME_FIELDS = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "resource_name",
    "transactional_id",
    "feature",
    "user",
    "partition_index",
    "partition",
)


class RefusedPart(NamedTuple):
    """One part of a request that was refused: which one, the code, and the reason if there is."""

    part: str
    code: int
    message: str | None = None

    def __str__(self) -> str:
        code = _code_name(self.code)
        return " ".join(
            filter(None, (self.part, code, f"({self.message})" if self.message else ""))
        )


def refusals_are_logged() -> bool:
    """Return whether it is worth looking for refusals at all."""
    return log_levels.level(__name__) <= logging.DEBUG


def log_refusals(call: Call, refused: Iterable[RefusedPart]) -> None:
    """Write one line with the client, the API, and why; none when nothing was refused."""
    log_refused_request(
        call.request.api.name,
        refused,
        version=call.version,
        client=call.client_id,
        peer=call.connection.peer_host,
        principal=call.principal,
    )


def log_refused_request(api: str, refused: Iterable[RefusedPart], **client: object) -> None:
    """Write the line for a client that is known by these fields."""
    parts = list(refused)
    if parts:
        reasons = "; ".join(str(each) for each in parts[:_REASONS])
        log.debug("request_refused", api=api, **client, parts=len(parts), reasons=reasons)


def refused_in(fields: Mapping[str, Any]) -> Iterator[RefusedPart]:
    """Find every error code in the fields of a response, however deep it lies.

    >>> [str(each) for each in refused_in({"topics": [{"name": "a", "error_code": 3}]})]
    ['a unknown_topic_or_partition']
    """
    code = fields.get("error_code")
    if code:
        yield RefusedPart(_name_of(fields), code, fields.get("error_message"))
    for value in fields.values():
        if isinstance(value, Mapping):
            yield from refused_in(value)
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            for each in value:
                if isinstance(each, Mapping):
                    yield from refused_in(each)


def _name_of(fields: Mapping[str, Any]) -> str:
    return next((str(fields[name]) for name in _NAME_FIELDS if fields.get(name) is not None), "")


def _code_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
