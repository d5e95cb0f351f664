"""Reads and changes the state of channels: documents beside the streams, in the same topic."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from headrace.gateway.kinesis.channel.channel_state import ChannelState
from headrace.gateway.kinesis.error import internal_failure
from headrace.gateway.kinesis.store.stream_store import DocumentStep
from headrace.gateway.kinesis.store.stream_topic import CHANNEL_PREFIX

log = structlog.get_logger()

ChannelStep = Callable[[ChannelState | None], ChannelState | None]
"""Computes the next state of a channel from the present one; None is no channel."""


class Documents(Protocol):
    """The part of `StreamStore` that channels need."""

    @property
    def documents(self) -> Mapping[str, dict[str, Any]]: ...

    def change_document(self, name: str, step: DocumentStep) -> None: ...


class ChannelStore:
    """The channels of one cluster, as one instance sees them. Threads: any."""

    def __init__(self, store: Documents) -> None:
        self._store = store
        self._read: tuple[Mapping[str, dict[str, Any]], Mapping[str, ChannelState]] = ({}, {})

    @property
    def channels(self) -> Mapping[str, ChannelState]:
        """All channels by name. One that this version cannot read is left out."""
        documents = self._store.documents
        before = self._read  # one load: another thread may replace it meanwhile
        if before[0] is not documents:
            self._read = before = (documents, _channels(documents))
        return before[1]

    def of(self, stream: str) -> list[ChannelState]:
        """Return the channels of a stream."""
        return [each for each in self.channels.values() if each.stream == stream]

    def change(self, name: str, step: ChannelStep) -> ChannelState | None:
        """Change a channel; return its new state. When this returns, this instance's view has it.

        Args:
            step: returns the state that it was given to change nothing. It may be called several
                times, and raises to refuse.

        Raises:
            ServiceError: InternalFailure, or what `step` raises.
        """
        outcome: list[ChannelState | None] = [None]

        def change(raw: dict[str, Any] | None) -> dict[str, Any] | None:
            try:
                current = None if raw is None else ChannelState.from_json(raw)
            except ValueError as error:
                raise internal_failure(f"Channel {name} is of a newer version.") from error
            outcome[0] = changed = step(current)
            if changed is current:
                return raw
            return None if changed is None else changed.as_json()

        self._store.change_document(f"{CHANNEL_PREFIX}{name}", change)
        return outcome[0]


def _channels(documents: Mapping[str, dict[str, Any]]) -> dict[str, ChannelState]:
    found: dict[str, ChannelState] = {}
    for key, raw in documents.items():
        if key.startswith(CHANNEL_PREFIX):
            try:
                channel = ChannelState.from_json(raw)
            except ValueError as error:
                log.error("kinesis_channel_unreadable", channel=key[:140], error=str(error))
                continue
            found[channel.name] = channel
    return found
