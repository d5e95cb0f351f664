"""One line at debug level for every request that is refused, whole or in part.

The log of a healthy broker needs no refusals, so a response is searched for error
codes only while this module's logger is at debug level. `kafka-configs --entity-type
broker-loggers` turns it on while the broker runs.
"""

import logging
from collections.abc import Iterable

import structlog

from headrace.broker.call import Call
from headrace.broker.refused_part import RefusedPart
from headrace.telemetry.log_levels import log_levels

log = structlog.get_logger(__name__)

_REASONS = 3


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
