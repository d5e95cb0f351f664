"""A response: from a mapping to bytes, and back for the client side.

The header is the correlation id alone (version 0), followed by tagged fields in version 1, which
goes with flexible versions. ApiVersions always has version 0 (KIP-511).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.model.error import InvalidArgument
from headrace.wire.api import APIS, Api, ApiKey
from headrace.wire.error import MalformedResponse
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_response import read_fetch_response
from headrace.wire.message import read_response_body, write_response_body
from headrace.wire.message_check import RESPONSE_MAX_ITEMS
from headrace.wire.primitive import INT16, INT32, NOTHING, READ_ERRORS, Frame, read_tags
from headrace.wire.produce_response import read_produce_response

_HAND_READ = {
    ApiKey.PRODUCE: read_produce_response,
    ApiKey.FETCH: read_fetch_response,
}


def pack_response(
    api_key: int, version: int, correlation_id: int, body: Mapping[str, Any] | Any
) -> bytes:
    """Return a response with its size in front, from a mapping of plain values or a kio entity.

    One mapping serves all versions: fields that `version` lacks are left out, missing ones take
    Kafka's default. Times are milliseconds.

    >>> pack_response(ApiKey.HEARTBEAT, 0, 7, {"throttle_time": 0, "error_code": 27}).hex()
    '0000000600000007001b'

    Raises:
        InvalidArgument: an API or version we do not serve, or a body that does not fit it.
    """
    api = APIS.get(api_key)
    if api is None or not api.serves(version):
        raise InvalidArgument(f"there is no version {version} of API {api_key} to be answered")
    out = bytearray(4)
    out += INT32.pack(correlation_id)
    if api.response_header_version(version):
        out += NOTHING
    write_response_body(api_key, version, body, out)
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def api_versions_body(
    apis: Iterable[Api] = APIS.values(), error_code: int = ErrorCode.none, **more: Any
) -> dict[str, Any]:
    """Return the body of an ApiVersions response for `apis`.

    Args:
        apis: what this listener serves.
        more: further fields, such as `finalized_features`.
    """
    return {
        "error_code": error_code,
        "api_keys": [
            {"api_key": api.key, "min_version": api.advertised_lowest, "max_version": api.highest}
            for api in apis
        ],
        "throttle_time": 0,
        **more,
    }


def api_versions_fallback(correlation_id: int, apis: Iterable[Api] = APIS.values()) -> bytes:
    """Return the response to an ApiVersions request of a version we do not know.

    It has the layout of version 0, which every client reads, and holds the served ranges, so that
    the client can retry (KIP-511).
    """
    body = api_versions_body(apis, ErrorCode.unsupported_version)
    return pack_response(ApiKey.API_VERSIONS, 0, correlation_id, body)


def parse_response(api_key: int, version: int, frame: Frame) -> tuple[int, Any]:
    """Return the correlation id and the body of a frame (without its size).

    The body is a `ProduceResponse`, a `FetchResponse`, or the kio entity of this API and version.
    Records of a Fetch response are views into `frame`.

    Raises:
        InvalidArgument: an API or version we cannot read.
        MalformedResponse: the bytes are not such a response.
    """
    api = APIS.get(api_key)
    if api is None or not api.serves(version):
        raise InvalidArgument(f"there is no version {version} of API {api_key} to be read")
    try:
        (correlation_id,) = INT32.unpack_from(frame)
        return correlation_id, _read_body(api, version, frame)
    except READ_ERRORS as cause:
        raise MalformedResponse(
            f"a {api.name} response v{version} cannot be read: {cause}"
        ) from cause


def _read_body(api: Api, version: int, frame: Frame) -> Any:
    at = 4
    if api.response_header_version(version):
        _, at = read_tags(frame, at)
    hand_read = _HAND_READ.get(api.key)
    if hand_read is not None:
        return hand_read(version, frame, at)
    if api.key is ApiKey.API_VERSIONS:
        (code,) = INT16.unpack_from(frame, at)
        if code == ErrorCode.unsupported_version:
            version = 0  # whatever we asked for: see `api_versions_fallback`
    return read_response_body(api.key, version, frame, at, RESPONSE_MAX_ITEMS)
