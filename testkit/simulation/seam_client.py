"""Clients of the seam simulator: idempotent producers with acks=all, and readers."""

from collections.abc import Callable, Mapping
from random import Random
from typing import NoReturn, Protocol
from uuid import UUID

from headrace.broker.replica.partition import Partition
from headrace.model.error import HeadraceError
from testkit.sample.batch import sample_batch
from testkit.sample.keyed_batch import read_batches
from testkit.simulation.seam_broker import TOPIC, SeamBroker
from testkit.simulation.seam_history import SeamHistory

_CLIENT = 99
_PATIENCE_MS = 300
_KEYS = 4
_READ_BYTES = 500


class ClientHost(Protocol):
    """What a client needs of the simulator."""

    now_ms: int
    calm: bool
    random: Random
    history: SeamHistory

    @property
    def members(self) -> Mapping[int, SeamBroker]: ...
    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...
    def say(self, who: object, what: str) -> None: ...
    def fail(self, what: str) -> NoReturn: ...
    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None: ...


class SeamProducer:
    """Sends one batch after the other, each again and again until it is acknowledged."""

    def __init__(self, host: ClientHost, number: int) -> None:
        self._host = host
        self._producer_id = 1000 + number
        self._name = f"p{number}"
        self._sequence = 0
        self._value = 0
        self._values: list[bytes] = []
        self._sent_ms = 0

    def step(self) -> None:
        host = self._host
        if not host.calm or self._values:
            host.after(host.random.randint(1, 40), self.step)
        if not self._values:
            count = host.random.choice([1, 1, 2, 4])
            self._values = [f"{self._name}-{self._value + each}".encode() for each in range(count)]
            self._value += count
        elif host.now_ms - self._sent_ms < _PATIENCE_MS:
            return
        self._send()

    def _send(self) -> None:
        host, values, sequence = self._host, self._values, self._sequence
        leaders = [each for each in host.members.values() if each.leads]
        if not leaders:
            return
        broker = host.random.choice(leaders)
        self._sent_ms = host.now_ms
        keys = [f"k{host.random.randrange(_KEYS)}".encode() for _ in values]
        batch = sample_batch(
            *values,
            keys=keys,
            producer_id=self._producer_id,
            producer_epoch=0,
            sequence=sequence,
        )

        def answered(done: bool) -> None:
            if self._sequence != sequence:
                return
            if done:
                self._sequence += len(values)
                self._values = []
            else:
                self._sent_ms = -_PATIENCE_MS

        def arrive() -> None:
            self._append(broker, batch, values, answered)

        host.send(_CLIENT, broker.broker_id, arrive)

    def _append(
        self,
        broker: SeamBroker,
        batch: bytes,
        values: list[bytes],
        answered: Callable[[bool], None],
    ) -> None:
        host, partition = self._host, broker.partition
        if partition is None:
            return

        def reply(done: bool) -> None:
            host.send(broker.broker_id, _CLIENT, lambda: answered(done))

        host.history.sends(broker, values)
        try:
            appended = partition.append_plain(memoryview(batch), acks_all=True)
            if appended is None:
                appended = partition.append(batch, acks_all=True)
        except HeadraceError as error:
            host.say(f"broker {broker.broker_id}", f"refused {values}: {error}")
            reply(False)
            return
        if not appended.duplicate:
            host.say(f"broker {broker.broker_id}", f"appended {values} at {appended.base_offset}")
            host.history.accepts(broker)
        base_offset = appended.base_offset
        committed = partition.when_committed(appended.last_offset + 1)

        def finished(_: object) -> None:
            if committed.exception() is None and broker.partition is partition:
                host.history.acknowledges(broker, base_offset, values)
            reply(committed.exception() is None)

        committed.add_done_callback(finished)
        log = broker.log
        if log is not None:
            host.history.shows(broker, log)


class SeamReader:
    """Polls whichever broker leads, from where it was; a new topic is read from its start."""

    def __init__(self, host: ClientHost, number: int) -> None:
        self._host = host
        self._name = f"reader {number}"
        self._topic_id: UUID | None = None
        self._position = 0
        self.seen = 0

    def step(self) -> None:
        host = self._host
        host.after(host.random.randint(20, 120), self.step)
        leaders = [each for each in host.members.values() if each.leads]
        if leaders:
            self._poll(host.random.choice(leaders))

    def _poll(self, broker: SeamBroker) -> None:
        hosted, partition = broker.topics.by_name(TOPIC), broker.partition
        if hosted is None or partition is None:
            return
        known = self._host.history.topic_of(broker)
        if hosted.topic_id != self._topic_id:
            if known is not None and self._topic_id is not None and self._is_older(hosted.topic_id):
                return
            self._topic_id, self._position = hosted.topic_id, partition.log.log_start_offset
        log = partition.log
        self._host.history.shows(broker, log)
        if self._position < log.log_start_offset:
            self._position = log.log_start_offset
        if self._position >= log.high_watermark:
            return
        self._read(partition)

    def _is_older(self, topic_id: UUID) -> bool:
        topics = list(self._host.history.topics)
        assert self._topic_id is not None
        return topics.index(topic_id) < topics.index(self._topic_id)

    def _read(self, partition: Partition) -> None:
        log, host = partition.log, self._host
        end = log.high_watermark
        piece = log.read(self._position, _READ_BYTES, max_offset=end, at_least_one=True).read()
        assert self._topic_id is not None
        topic = host.history.topics[self._topic_id]
        position = self._position
        for batch in read_batches(_whole(piece)):
            for record in batch.records:
                offset = record.offset
                if offset is None or offset < self._position:
                    continue
                if offset < position:
                    host.fail(f"{self._name} was sent back to {offset} from {position}")
                shown = topic.committed.get(offset)
                if shown is None or shown.value != record.value:
                    host.fail(f"{self._name} read {record.value!r} at {offset}, where {shown} is")
                for between in range(position, offset):
                    self._skipped(between)
                position = offset + 1
                self.seen += 1
            position = max(position, batch.head.last_offset + 1)
        self._position = position

    def _skipped(self, offset: int) -> None:
        assert self._topic_id is not None
        topic = self._host.history.topics[self._topic_id]
        shown = topic.committed.get(offset)
        if shown is None:
            return
        if not (topic.compacted and topic.last_of_key[shown.key] > offset):
            self._host.fail(f"{self._name} went past {shown} at {offset}")

    def check_end(self) -> None:
        """Check that the reader came to the end of what is committed."""
        topics = self._host.history.topics
        if self._topic_id is not None and self._topic_id == list(topics)[-1]:
            topic = topics[self._topic_id]
            if self._position < topic.frontier:
                self._host.fail(f"{self._name} stopped at {self._position} of {topic.frontier}")


def _whole(piece: bytes) -> bytes:
    """Return the whole batches of a piece whose last one may be cut off."""
    at = 0
    while at + 12 <= len(piece):
        size = 12 + int.from_bytes(piece[at + 8 : at + 12], "big")
        if at + size > len(piece):
            break
        at += size
    return piece[:at]
