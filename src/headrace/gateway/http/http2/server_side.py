"""The server's side of HTTP/2 by `h2`, with bounds on what `h2` keeps for a client.

Rule 1: the client may allow any header table; responses use `_TABLE_BYTES` of it. `hpack`
searches its table from end to end, and every response adds its request id.
Rule 2: the bounds on the client's heads hold before it knows of them. That on its requests does
not: a client that sends more of them before it has our settings is no error. The connection
refuses them one by one.
"""

from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from hpack import Encoder

MAX_CONCURRENT_REQUESTS: Final = 128
"""Twice the responses without a length that a gateway allows: a client may have all of them, and
make other requests."""

HEAD_BYTES: Final = 32 << 10
STREAM_WINDOW: Final = 128 << 10
CONNECTION_WINDOW: Final = 256 << 10

_DEFAULT_WINDOW: Final = 65_535
_TABLE_BYTES: Final = 4096


class ServerSide(H2Connection):
    """The protocol of one connection."""

    MAX_CLOSED_STREAMS = 1024
    """What may still be on its way to a closed stream is less than a window of the connection."""

    def __init__(self) -> None:
        super().__init__(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.encoder = BoundedEncoder()
        self.decoder.max_header_list_size = HEAD_BYTES
        self.local_settings = _settings(MAX_CONCURRENT_REQUESTS)

    def initiate_connection(self) -> None:
        """Send our settings."""
        super().initiate_connection()
        self.local_settings = _settings(1 << 30)
        self.increment_flow_control_window(CONNECTION_WINDOW - _DEFAULT_WINDOW)


def _settings(requests: int) -> Settings:
    return Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: requests,
            SettingCodes.MAX_HEADER_LIST_SIZE: HEAD_BYTES,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        },
    )


class BoundedEncoder(Encoder):
    """Writes heads with a table that is as large as the client allows, but not larger than ours."""

    @property
    def header_table_size(self) -> int:
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        size = min(value, _TABLE_BYTES)
        if size == self.header_table.maxsize:
            return
        self.header_table.maxsize = size
        # The next head tells the smallest size since the last one, and the size now (RFC 7541 4.2).
        changes = [*self.table_size_changes, size]
        self.table_size_changes = [min(changes), size] if min(changes) < size else [size]
        self.header_table.resized = True
