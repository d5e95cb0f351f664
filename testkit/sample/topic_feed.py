"""A topic for a test, made and filled over the wire."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import BatchWriter, WrittenBatch
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import wait_until
from headrace.wire.error_code import ErrorCode
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

_NOT_YET = (ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower)


class TopicFeed:
    """Makes the topic unless it is there, and writes a batch at a time.

    Example:
        with TopicFeed(broker.address, "clicks", partitions=2) as feed:
            feed.write(b"a", b"b", partition=1)
    """

    def __init__(
        self,
        address: str,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self._pool = ConnectionPool(ClientSettings.of({"bootstrap.servers": address}))
        self._admin = Admin(self._pool)
        made = self._admin.create_topics([NewTopic(topic, partitions, 1, configs or {})])[topic]
        if made is not None and made.code is not ErrorCode.topic_already_exists:
            raise made

    def write(
        self,
        *values: bytes,
        partition: int = 0,
        keys: Sequence[bytes | None] | None = None,
        timestamp_ms: int = SAMPLE_TIME_MS,
        step_ms: int = 0,
    ) -> int:
        """Append one batch, in the log when this returns; its first offset.

        Args:
            keys: one for each value; without them each record has the key `k`.
            step_ms: how much later each record is than the one before.
        """
        batch = sample_batch(*values, keys=keys, timestamp_ms=timestamp_ms, step_ms=step_ms)
        where = TopicPartition(self.topic, partition)
        outcomes: list[object] = []

        def taken() -> bool:
            written = BatchWriter(self._pool).write({where: memoryview(batch)})[where]
            outcomes.append(written)
            return not (isinstance(written, BrokerError) and written.code in _NOT_YET)

        # Apache Kafka answers that a topic is made before its brokers have heard of it.
        wait_until(taken, what=f"a leader of {where}")
        written = outcomes[-1]
        assert isinstance(written, WrittenBatch), written
        return written.base_offset

    def forget_before(self, offset: int, partition: int = 0) -> None:
        """Move the log start, as retention does."""
        self._done(self._admin.delete_records({TopicPartition(self.topic, partition): offset}))

    def grow(self, partitions: int) -> None:
        self._done(self._admin.create_partitions({self.topic: partitions}))

    def delete(self) -> None:
        self._done(self._admin.delete_topics([self.topic]))

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> "TopicFeed":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @staticmethod
    def _done(outcomes: Mapping[Any, object]) -> None:
        for outcome in outcomes.values():
            if isinstance(outcome, ClientError):
                raise outcome
