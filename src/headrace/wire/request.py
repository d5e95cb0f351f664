"""A request: from a frame to a header and a body, and back for the client side."""

from collections.abc import Mapping
from typing import Any, Final

from headrace.wire.api import APIS, Api, ApiKey
from headrace.wire.error import MalformedRequest, UnknownApi, UnsupportedVersion
from headrace.wire.fetch_request import read_fetch_request
from headrace.wire.header import FRONT, RequestHeader, request_head
from headrace.wire.list_offsets import read_list_offsets_request
from headrace.wire.message import read_request_body, write_request_body
from headrace.wire.message_check import REQUEST_MAX_ITEMS
from headrace.wire.primitive import INT32, READ_ERRORS, Frame, read_string, read_tags
from headrace.wire.produce_request import read_produce_request

__all__ = ["Request", "RequestHeader", "pack_request", "parse_request"]

_HAND_READ: Final = {
    ApiKey.PRODUCE: read_produce_request,
    ApiKey.FETCH: read_fetch_request,
    ApiKey.LIST_OFFSETS: read_list_offsets_request,
}


class Request:
    """One request of a served version. It keeps its frame alive until the body has been read.

    A Produce body refers to the frame's bytes for as long as its records are held.
    """

    __slots__ = ("_at", "_body", "_frame", "api", "header")

    def __init__(
        self, api: Api, header: RequestHeader, frame: Frame | None, at: int, body: Any = None
    ) -> None:
        """Keep `frame` and where the body begins in it, or, without a frame, the body itself."""
        self.api = api
        self.header = header
        self._frame = frame
        self._at = at
        self._body = body

    @property
    def body(self) -> Any:
        """`ProduceRequest`, `FetchRequest`, `ListOffsetsRequest`, or the kio entity of this API and
        version.

        Raises:
            MalformedRequest: the bytes are not such a body.
        """
        if self._frame is None:
            return self._body
        key, version = self.api.key, self.header.api_version
        hand_read = _HAND_READ.get(key)
        try:
            if hand_read is not None:
                self._body = hand_read(version, self._frame, self._at)
            else:
                self._body = read_request_body(
                    key, version, self._frame, self._at, REQUEST_MAX_ITEMS
                )
        except READ_ERRORS as cause:
            raise MalformedRequest(
                f"a {self.api.name} request v{version} cannot be read: {cause}"
            ) from cause
        self._frame = None
        return self._body

    def __repr__(self) -> str:
        return f"<Request {self.api.name} v{self.header.api_version} {self.header}>"


def parse_request(frame: Frame) -> Request:
    """Read the header of a frame (without its size); the body follows on first use.

    Raises:
        MalformedRequest: the header does not hold.
        UnknownApi, UnsupportedVersion: with the header as far as it can be read.
    """
    try:
        api_key, version, correlation_id = FRONT.unpack_from(frame)
        api = APIS.get(api_key)
        if api is None or not api.lowest <= version <= api.highest:
            raise _unserved(api, RequestHeader(api_key, version, correlation_id, None))
        client_id, at = read_string(frame, FRONT.size, False)
        if api.flexible(version):
            if frame[at]:
                _, at = read_tags(frame, at)
            else:
                at += 1
    except READ_ERRORS as cause:
        raise MalformedRequest(f"a request's header cannot be read: {cause}") from cause
    return Request(api, RequestHeader(api_key, version, correlation_id, client_id), frame, at)


def _unserved(api: Api | None, header: RequestHeader) -> UnknownApi | UnsupportedVersion:
    if api is None:
        return UnknownApi(f"API {header.api_key} is not served here", header)
    return UnsupportedVersion(
        f"{api.name} v{header.api_version} is not served here: use v{api.lowest} to v{api.highest}",
        header,
    )


def pack_request(
    api_key: int,
    version: int,
    correlation_id: int,
    client_id: str | None,
    body: Mapping[str, Any] | Any,
) -> bytes:
    """Return a request with its size in front, from a mapping of plain values or a kio entity.

    A field that `version` lacks is left out silently: callers that need one look at the version.

    >>> pack_request(ApiKey.LIST_GROUPS, 0, 7, "me", {}).hex()
    '0000000c001000000000000700026d65'

    Raises:
        InvalidArgument: an API or version we cannot write, or a body that does not fit it.
    """
    out = bytearray(4)
    out += request_head(api_key, version, correlation_id, client_id)
    write_request_body(api_key, version, body, out)
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)
