"""Clients of the seam simulator: idempotent producers with acks=all, and readers of everything."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import NoReturn, Protocol
from uuid import UUID

from headrace.broker.replica.partition import Partition
from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from testkit.sample.batch import sample_batch
from testkit.sample.keyed_batch import ReadBatch, read_batches
from testkit.simulation.seam_broker import SeamBroker
from testkit.simulation.seam_history import SeamHistory, ShownPartition, shown_records
from testkit.simulation.transaction_ledger import TransactionLedger

CLIENT = 99
_PATIENCE_MS = 300
_KEYS = 4
_READ_BYTES = 500


class ClientHost(Protocol):
    """What a client needs of the simulator."""

    now_ms: int
    calm: bool
    random: Random
    history: SeamHistory
    ledger: TransactionLedger

    @property
    def members(self) -> Mapping[int, SeamBroker]: ...
    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...
    def say(self, who: object, what: str) -> None: ...
    def fail(self, what: str) -> NoReturn: ...
    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None: ...


class SeamClient(Protocol):
    """A client of a history.

    Attributes:
        busy: whether it still has something to do, now that it is calm.
    """

    @property
    def busy(self) -> bool: ...
    def start(self) -> None: ...


class SeamProducer:
    """Sends one batch after the other, each again and again until it is acknowledged."""

    def __init__(self, host: ClientHost, number: int, name: TopicPartition) -> None:
        self._host = host
        self._partition = name
        # Above all that the brokers hand out to transactional producers.
        self._producer_id = 1_000_000_000 + number
        self._name = f"p{number}"
        self._sequence = 0
        self._value = 0
        self._values: list[bytes] = []
        self._sent_ms = 0

    @property
    def busy(self) -> bool:
        return bool(self._values)

    def start(self) -> None:
        host = self._host
        if not host.calm or self._values:
            host.after(host.random.randint(1, 40), self.start)
        if not self._values:
            count = host.random.choice([1, 1, 2, 4])
            self._values = [f"{self._name}-{self._value + each}".encode() for each in range(count)]
            self._value += count
        elif host.now_ms - self._sent_ms < _PATIENCE_MS:
            return
        self._send()

    def _send(self) -> None:
        host, values, sequence = self._host, self._values, self._sequence
        leaders = [each for each in host.members.values() if each.led(self._partition)]
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

        host.send(CLIENT, broker.broker_id, arrive)

    def _append(
        self,
        broker: SeamBroker,
        batch: bytes,
        values: list[bytes],
        answered: Callable[[bool], None],
    ) -> None:
        host, name = self._host, self._partition
        partition = broker.led(name)
        if partition is None:
            return

        def reply(done: bool) -> None:
            host.send(broker.broker_id, CLIENT, lambda: answered(done))

        host.history.sends(broker, name, values)
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
            host.history.accepts(broker, name)
        base_offset = appended.base_offset
        committed = partition.when_committed(appended.last_offset + 1)

        def finished(_: object) -> None:
            if committed.exception() is None and broker.led(name) is partition:
                host.history.acknowledges(broker, name, base_offset, values)
            reply(committed.exception() is None)

        committed.add_done_callback(finished)
        log = broker.log_of(name)
        if log is not None:
            host.history.shows(broker, name, log)


class SeamReader:
    """Polls whichever broker leads, from where it was; a new topic is read from its start.

    Args:
        committed: read what is committed alone: nothing of a transaction that is open, or aborted.
    """

    def __init__(
        self, host: ClientHost, number: int, name: TopicPartition, *, committed: bool
    ) -> None:
        self._host = host
        self._name = f"reader {number} of {name}"
        self._partition = name
        self._committed = committed
        self._topic_id: UUID | None = None
        self._position = 0
        self.seen = 0

    @property
    def busy(self) -> bool:
        return self._topic_id is not None and self._position < self._known().frontier

    def start(self) -> None:
        host = self._host
        host.after(host.random.randint(20, 120), self.start)
        leaders = [each for each in host.members.values() if each.led(self._partition)]
        if leaders:
            self._poll(host.random.choice(leaders))

    def _poll(self, broker: SeamBroker) -> None:
        name = self._partition
        hosted, partition = broker.topics.by_name(name.topic), broker.led(name)
        if hosted is None or partition is None:
            return
        known = self._host.history.known(hosted.topic_id, name)
        log = partition.log
        if hosted.topic_id != self._topic_id:
            if self._topic_id is not None and known.number < self._known().number:
                return
            self._topic_id, self._position = hosted.topic_id, log.log_start_offset
        self._host.history.shows(broker, name, log)
        self._position = max(self._position, log.log_start_offset)
        end = log.last_stable_offset if self._committed else log.high_watermark
        if self._position < end:
            self._read(partition, known, end)

    def _known(self) -> ShownPartition:
        assert self._topic_id is not None
        return self._host.history.known(self._topic_id, self._partition)

    def _read(self, partition: Partition, known: ShownPartition, end: int) -> None:
        log, host = partition.log, self._host
        piece = log.read(self._position, _READ_BYTES, max_offset=end, at_least_one=True)
        aborted = _Aborted(log.aborted_in(self._position, piece) if self._committed else ())
        position = self._position
        for batch in read_batches(_whole(piece.read())):
            dropped = aborted.drops(batch)
            for offset, shown in shown_records(batch):
                if offset < self._position:
                    continue
                if offset < position:
                    host.fail(f"{self._name} was sent back to {offset} from {position}")
                if known.committed.get(offset) != shown:
                    host.fail(
                        f"{self._name} read {shown} at {offset}, where "
                        f"{known.committed.get(offset)} is"
                    )
                for between in range(position, offset):
                    self._skipped(known, between)
                position = offset + 1
                self.seen += 1
                if self._committed and shown.ends is None:
                    self._check_committed(known, offset, dropped=dropped)
            position = max(position, batch.head.last_offset + 1)
        self._position = position

    def _check_committed(self, known: ShownPartition, offset: int, *, dropped: bool) -> None:
        """Check a record that the leader says is committed, or (`dropped`) aborted."""
        shown, host = known.committed[offset], self._host
        if dropped != (offset in known.aborted):
            host.fail(f"{self._name} read {shown}, which is aborted by the response: {dropped}")
        if not dropped:
            host.ledger.reads(self._name, shown.value)

    def _skipped(self, known: ShownPartition, offset: int) -> None:
        if offset in known.committed and not known.may_be_gone(offset):
            self._host.fail(f"{self._name} went past {known.committed[offset]} at {offset}")

    def check_end(self) -> None:
        """Check that the reader came to the end of what is committed."""
        last = [
            each for each in self._host.history.partitions.values() if each.name == self._partition
        ][-1]
        if self._topic_id is not None and self._known() is last and self._position < last.frontier:
            self._host.fail(f"{self._name} stopped at {self._position} of {last.frontier}")


class _Aborted:
    """What a read_committed client drops of a response, as Kafka's clients do it."""

    def __init__(self, listed: Iterable[AbortedTransactionEntry]) -> None:
        self._listed = sorted(listed, key=lambda each: each.first_offset)
        self._producers: set[int] = set()

    def drops(self, batch: ReadBatch) -> bool:
        head = batch.head
        while self._listed and self._listed[0].first_offset <= head.last_offset:
            self._producers.add(self._listed.pop(0).producer_id)
        if head.is_control:
            self._producers.discard(head.producer_id)
            return False
        return head.is_transactional and head.producer_id in self._producers


def _whole(piece: bytes) -> bytes:
    """Return the whole batches of a piece whose last one may be cut off."""
    at = 0
    while at + 12 <= len(piece):
        size = 12 + int.from_bytes(piece[at + 8 : at + 12], "big")
        if at + size > len(piece):
            break
        at += size
    return piece[:at]
