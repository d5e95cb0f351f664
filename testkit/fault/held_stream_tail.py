"""A Kinesis gateway that does not see what other gateways change."""

from threading import Event
from typing import Any

import pytest

from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.store.stream_tail import StreamTail


class HeldStreamTail:
    """Holds a gateway's view of the streams where it is now, until `release`.

    Example:
        held = HeldStreamTail(gateway, monkeypatch)
        change_a_stream_elsewhere()
        assert held.tail.streams[name].status == "ACTIVE"  # the gateway has not seen it
        held.release()
    """

    def __init__(self, gateway: KinesisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """Return when the step under way has ended."""
        self.tail = gateway._app.service.store.tail
        self._may_go_on = Event()
        is_held = Event()
        step = StreamTail._step

        def hold(tail: StreamTail, *arguments: Any) -> None:
            if tail is self.tail:
                is_held.set()
                self._may_go_on.wait(120)
            step(tail, *arguments)

        monkeypatch.setattr(StreamTail, "_step", hold)
        assert is_held.wait(90), "the step under way has ended"

    def release(self) -> None:
        """Let the gateway read the streams again."""
        self._may_go_on.set()
