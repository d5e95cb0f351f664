"""The header in front of every request.

Version 1 is api key, api version, correlation id and a nullable client id; version 2 adds tagged
fields and goes with flexible versions. The client id keeps its old int16 length in both (KIP-511),
so that the front can be read before the version is known.
"""

from struct import Struct
from typing import Final, NamedTuple

from headrace.model.error import InvalidArgument
from headrace.wire.api import APIS
from headrace.wire.primitive import NOTHING, pack_string

FRONT: Final = Struct(">hhi")
"""Api key, api version and correlation id: the same in every version there was or will be."""


class RequestHeader(NamedTuple):
    """A request's header.

    `client_id` is None when the peer named none, and for a request whose version we do not know:
    then only the three numbers can be read.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_head(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a header's bytes, without the size in front.

    Raises:
        InvalidArgument: an API or a version we cannot write.
    """
    api = APIS.get(api_key)
    if api is None or not api.serves(version):
        raise InvalidArgument(f"there is no version {version} of API {api_key} to be written")
    head = FRONT.pack(api_key, version, correlation_id) + pack_string(client_id, False)
    return head + NOTHING if api.flexible(version) else head
