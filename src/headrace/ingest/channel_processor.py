"""The way of a batch from a source to its channels: intercept, select, put."""

from collections.abc import Callable, Sequence

import structlog

from headrace.ingest.backoff import Backoff
from headrace.ingest.error import ChannelError
from headrace.ingest.event import EventBatch
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.selector import Part, Selector

_log = structlog.get_logger(__name__)


class ChannelProcessor:
    """Puts the batches of a source into its channels.

    Rule 1: required channels first, each in a transaction of its own; then optional ones, whose
        failures are only logged.
    Rule 2: a batch is delivered when every required channel has all of it. A retry continues where
        the failed attempt stopped, so that no channel gets the events twice.
    Rule 3: a part larger than a channel's transactionCapacity is put in several transactions.

    Threads: any, each with its own batches.
    """

    def __init__(self, name: str, interceptors: Sequence[Interceptor], selector: Selector) -> None:
        self._name = name
        self._interceptors = interceptors
        self._selector = selector

    @property
    def transaction_capacity(self) -> int:
        """The smallest capacity of the channels: batches of this size are never split."""
        return min(each.transaction_capacity for each in self._selector.channels.values())

    def process(self, batch: EventBatch) -> None:
        """Deliver a batch, without a retry.

        Raises:
            ChannelError: a required channel did not accept its part. The source retries, or lets
                its peer retry.
        """
        _put_all(self._parts(batch))

    def process_with_retries(self, batch: EventBatch, stopping: Callable[[float], bool]) -> bool:
        """Deliver a batch, and retry until it works: backpressure for sources whose peers do not
        retry.

        Args:
            stopping: waits up to so many seconds, and returns whether the source must stop.

        Returns:
            False if the source was stopped before everything was delivered.
        """
        parts = self._parts(batch)
        backoff = Backoff()
        while True:
            try:
                _put_all(parts)
                return True
            except ChannelError as error:
                _log.warning("channel_not_ready", source=self._name, reason=str(error))
            if stopping(backoff.next_seconds()):
                return False

    def _parts(self, batch: EventBatch) -> list[Part]:
        marks = batch.marks
        for interceptor in self._interceptors:
            batch = interceptor.intercept(batch)
        if batch.marks is not marks:  # the source's position does not depend on dropped events
            batch = batch.with_marks(marks)
        parts: list[Part] = []
        for part in self._selector.route(batch):
            limit = part.channel.transaction_capacity
            parts += (part._replace(batch=piece) for piece in part.batch.pieces(limit))
        return parts


def _put_all(parts: list[Part]) -> None:
    """Put the parts in order and remove each from the list, so that a retry continues there."""
    while parts:
        channel, batch, optional = parts[0]
        try:
            with channel.begin() as transaction:
                transaction.put(batch)
        except ChannelError as error:
            if not optional:
                raise
            _log.warning("optional_channel_failed", channel=channel.name, reason=str(error))
        del parts[0]
