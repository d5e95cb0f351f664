"""What the replicas of the seam simulator have shown so far, and the rules that it must keep."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn, Protocol
from uuid import UUID

from headrace.cluster.controller import Controller
from headrace.cluster.topic import NO_LEADER, TopicRecord
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import TopicPartition
from headrace.records.control import ControlType, read_control
from testkit.sample.keyed_batch import ReadBatch, read_batches
from testkit.simulation.seam_broker import TOPIC, SeamBroker

_READ_BYTES = 1 << 20
_MIN_INSYNC = "min.insync.replicas"


class Shown(NamedTuple):
    """A record that a replica showed below its high watermark.

    Attributes:
        producer_id: of the transaction that it is part of; -1 if it is in none.
        ends: what a marker says, which ends the transaction of this producer here.
    """

    key: bytes
    value: bytes
    producer_id: int = -1
    ends: ControlType | None = None


class HistoryHost(Protocol):
    """What the history needs of the simulator."""

    def say(self, who: object, what: str) -> None: ...
    def fail(self, what: str) -> NoReturn: ...


class ShownPartition:
    """One partition of one topic, from its creation to its deletion: another topic of the same name
    is another one.

    Attributes:
        committed: by offset, everything that was ever below a high watermark.
        frontier: the highest high watermark so far.
        deleted_to: below it records may be gone.
        aborted: the offsets of records of transactions that were aborted.
    """

    def __init__(self, name: TopicPartition, number: int) -> None:
        self.name = name
        self.number = number
        self.committed: dict[int, Shown] = {}
        self.frontier = 0
        self.deleted_to = 0
        self.compacted = False
        self.sent: set[bytes] = set()
        self.acknowledged: dict[bytes, int] = {}
        self.leaders: dict[int, int] = {}
        self.aborted: set[int] = set()
        self._last_of_key: dict[bytes, int] = {}
        self._open: dict[int, list[int]] = defaultdict(list)

    def __str__(self) -> str:
        return f"{self.name} of topic {self.number}"

    def add(self, offset: int, shown: Shown) -> None:
        """Note what is committed at the next offset."""
        self.committed[offset] = shown
        if shown.ends is not None:
            self._end(shown.producer_id, shown.ends)
        elif shown.producer_id >= 0:
            self._open[shown.producer_id].append(offset)
        else:
            self._last_of_key[shown.key] = offset

    def _end(self, producer_id: int, ends: ControlType) -> None:
        for offset in self._open.pop(producer_id, ()):
            key = self.committed[offset].key
            if ends is ControlType.ABORT:
                self.aborted.add(offset)
            else:
                self._last_of_key[key] = max(self._last_of_key.get(key, -1), offset)

    @property
    def open_transactions(self) -> list[int]:
        """The producers whose transactions have records here, and no marker."""
        return sorted(self._open)

    def is_open(self, offset: int) -> bool:
        return any(offset in offsets for offsets in self._open.values())

    def may_be_gone(self, offset: int) -> bool:
        """Whether compaction may have removed a committed record."""
        shown = self.committed[offset]
        if not self.compacted:
            return False
        if shown.ends is not None or offset in self.aborted:
            return True
        return self._last_of_key.get(shown.key, -1) > offset


class SeamHistory:
    """By topic id and partition, what was committed; a `Violation` is raised through the
    simulator."""

    def __init__(self, host: HistoryHost) -> None:
        self.partitions: dict[tuple[UUID, int], ShownPartition] = {}
        self._host = host
        self._numbers: dict[UUID, int] = {}
        self._verified: dict[PartitionLog, int] = defaultdict(int)

    def find(self, broker: SeamBroker, name: TopicPartition) -> ShownPartition | None:
        """Return what is known of the partition that a broker has under this name."""
        hosted = broker.topics.by_name(name.topic)
        if hosted is None:
            return None
        return self.known(hosted.topic_id, name)

    def known(self, topic_id: UUID, name: TopicPartition) -> ShownPartition:
        key = (topic_id, name.partition)
        known = self.partitions.get(key)
        if known is None:
            number = self._numbers.setdefault(topic_id, len(self._numbers) + 1)
            known = self.partitions[key] = ShownPartition(name, number)
        return known

    # -- what happens

    def deletes(self, broker: SeamBroker, name: TopicPartition, before: int) -> None:
        """Note that a log may start there from now on."""
        known = self.find(broker, name)
        if known is not None:
            known.deleted_to = max(known.deleted_to, before)

    def compacts(self, broker: SeamBroker, name: TopicPartition) -> None:
        known = self.find(broker, name)
        if known is not None:
            known.compacted = True

    def sends(self, broker: SeamBroker, name: TopicPartition, values: list[bytes]) -> None:
        """Note that the partition that this broker leads may have these from now on."""
        known = self.find(broker, name)
        if known is not None:
            known.sent.update(values)

    def accepts(self, broker: SeamBroker, name: TopicPartition) -> None:
        """Check an append with acks=all that was not refused."""
        partition = broker.led(name)
        assert partition is not None
        wanted = _min_insync(broker.state, broker, name)
        state = partition.state
        if len(state.isr) < min(wanted, len(state.replicas)):
            self._host.fail(
                f"broker {broker.broker_id} took records with {sorted(state.isr)} in sync, and "
                f"min.insync.replicas is {wanted}"
            )

    def acknowledges(
        self, broker: SeamBroker, name: TopicPartition, base_offset: int, values: list[bytes]
    ) -> None:
        known, log = self.find(broker, name), broker.log_of(name)
        if known is None or log is None:
            return
        self.shows(broker, name, log)
        self._host.say(f"broker {broker.broker_id}", f"acknowledged {values} at {base_offset}")
        for offset, value in enumerate(values, base_offset):
            shown = known.committed.get(offset)
            if offset < known.frontier and shown is not None and shown.value == value:
                known.acknowledged[value] = offset
            elif offset >= known.deleted_to:
                self._host.fail(f"{value!r} was acknowledged at {offset}, where {shown} is")

    # -- what must hold

    def begins_to_lead(self, broker: SeamBroker, name: TopicPartition) -> None:
        known, partition = self.find(broker, name), broker.led(name)
        assert known is not None
        assert partition is not None
        epoch = partition.leader_epoch
        self._host.say(
            f"broker {broker.broker_id}",
            f"leads {known} in epoch {epoch} with {sorted(partition.state.isr)}, "
            f"{partition.log.log_start_offset}..{partition.log.log_end_offset}",
        )
        other = known.leaders.setdefault(epoch, broker.broker_id)
        if other != broker.broker_id:
            self._host.fail(
                f"brokers {other} and {broker.broker_id} both lead {known} in epoch {epoch}"
            )
        if partition.log.log_end_offset < known.frontier:
            self._host.fail(
                f"broker {broker.broker_id} leads {known} up to "
                f"{partition.log.log_end_offset}, and {known.frontier} is committed"
            )
        self._compare(broker, known, partition.log, 0, known.frontier)

    def shows(self, broker: SeamBroker, name: TopicPartition, log: PartitionLog) -> None:
        """Check what a replica shows that it did not show before."""
        known = self.find(broker, name)
        if known is None:
            return
        if log.log_start_offset > known.deleted_to:
            self._host.fail(
                f"broker {broker.broker_id} starts {known} at {log.log_start_offset}, and records "
                f"below {known.deleted_to} at most were deleted"
            )
        high_watermark = log.high_watermark
        seen = self._verified[log]
        if high_watermark > seen:
            self._compare(broker, known, log, seen, high_watermark)
        self._verified[log] = high_watermark

    def _compare(
        self, broker: SeamBroker, known: ShownPartition, log: PartitionLog, start: int, end: int
    ) -> None:
        start = max(start, log.log_start_offset)
        found = dict(_records(log, start, end))
        for offset, shown in found.items():
            if offset >= known.frontier:
                if known.name.topic == TOPIC and shown.ends is None:
                    self._check_sent(broker, known, offset, shown)
                known.add(offset, shown)
            elif known.committed.get(offset) != shown:
                self._host.fail(
                    f"broker {broker.broker_id} shows {shown} at {offset} of {known}, where "
                    f"{known.committed.get(offset)} was"
                )
        if end > known.frontier:
            where = f"{known.frontier}..{end} of {known}"
            self._host.say(f"broker {broker.broker_id}", f"is the first to show {where}")
        known.frontier = max(known.frontier, end)
        for offset in range(start, end):
            if offset in found or offset not in known.committed:
                continue
            if not known.may_be_gone(offset):
                self._host.fail(
                    f"broker {broker.broker_id} lost {known.committed[offset]} at {offset} of "
                    f"{known}"
                )

    def _check_sent(
        self, broker: SeamBroker, known: ShownPartition, offset: int, shown: Shown
    ) -> None:
        if shown.value not in known.sent:
            self._host.fail(
                f"broker {broker.broker_id} shows {shown} at {offset}, which was never sent to "
                f"{known}"
            )

    # -- the end

    def unsettled(self, brokers: Mapping[int, SeamBroker]) -> Iterator[str]:
        """Yield what has not come to its end."""
        if not all(each.serves for each in brokers.values()):
            yield "a broker did not come back"
            return
        topics = next(iter(brokers.values())).state.state.topics
        if TOPIC not in topics:
            yield "there is no topic in the end"
        for record in topics.values():
            for index in range(len(record.partitions)):
                yield from self._unsettled(record, index, brokers)

    def _unsettled(
        self, record: TopicRecord, index: int, brokers: Mapping[int, SeamBroker]
    ) -> Iterator[str]:
        name, partition = TopicPartition(record.name, index), record.partitions[index]
        if partition.leader == NO_LEADER or set(partition.isr) != set(partition.replicas):
            yield f"{name} did not recover: {partition}"
        if partition.adding or partition.removing:
            yield f"a move of {name} did not end: {partition}"
        known = self.known(record.topic_id, name)
        ends = {}
        for number, broker in brokers.items():
            log = broker.log_of(name)
            if number not in partition.replicas:
                # One of an earlier topic stays if there was no topic at all when it was opened.
                found = [each for each in broker.storage.directories if name in each]
                if any(each.topic_id(name) == record.topic_id for each in found):
                    yield f"broker {number} has a log of {name} that is no replica"
            elif log is None or self.find(broker, name) is not known:
                yield f"broker {number} does not serve its replica of {name}"
            else:
                ends[number] = (log.high_watermark, log.log_end_offset, known.frontier)
                if log.last_stable_offset != log.high_watermark:
                    yield (
                        f"a transaction hangs in {name} at {log.last_stable_offset}, of "
                        f"{known.open_transactions}"
                    )
        if len({each for pair in ends.values() for each in pair}) > 1:
            yield f"{name} differs in high watermark, end and frontier: {ends}"

    def check_end(self, brokers: Mapping[int, SeamBroker]) -> None:
        for problem in self.unsettled(brokers):
            self._host.fail(problem)
        for record in next(iter(brokers.values())).state.state.topics.values():
            for index, partition in enumerate(record.partitions):
                name = TopicPartition(record.name, index)
                known = self.known(record.topic_id, name)
                for number in partition.replicas:
                    log = brokers[number].log_of(name)
                    assert log is not None
                    self._compare(brokers[number], known, log, 0, log.high_watermark)
        for known in self.partitions.values():
            if known.name.topic == TOPIC:
                self._check_values(known)

    def _check_values(self, known: ShownPartition) -> None:
        places: dict[bytes, list[int]] = defaultdict(list)
        for offset, shown in known.committed.items():
            if shown.ends is None:
                places[shown.value].append(offset)
        for value, offsets in places.items():
            alive = [each for each in offsets if each >= known.deleted_to]
            if len(alive) > 1:
                self._host.fail(f"{value!r} is in {known} twice, at {alive}")


def shown_records(batch: ReadBatch) -> Iterator[tuple[int, Shown]]:
    """Yield the records of a batch, with their offsets."""
    head = batch.head
    if head.is_control:
        control = read_control(head)
        assert control is not None
        yield head.base_offset, Shown(b"", b"", head.producer_id, control.type)
        return
    producer_id = head.producer_id if head.is_transactional else -1
    for record in batch.records:
        if record.offset is not None:
            yield record.offset, Shown(record.key or b"", record.value or b"", producer_id)


def _records(log: PartitionLog, start: int, end: int) -> Iterator[tuple[int, Shown]]:
    offset = start
    while offset < end:
        piece = log.read(offset, _READ_BYTES, max_offset=end, at_least_one=True).read()
        last = offset
        for batch in read_batches(piece):
            last = batch.head.last_offset + 1
            for at, shown in shown_records(batch):
                if start <= at < end:
                    yield at, shown
        if last <= offset:
            return
        offset = last


def _min_insync(controller: Controller, broker: SeamBroker, name: TopicPartition) -> int:
    """Work out min.insync.replicas from the cluster's state alone, as Kafka's manual says."""
    state = controller.state
    sources = [state.topics[name.topic].configs] if name.topic in state.topics else []
    sources += [
        state.broker_configs[each].configs
        for each in (broker.broker_id, None)
        if each in state.broker_configs
    ]
    return next((int(each[_MIN_INSYNC]) for each in sources if _MIN_INSYNC in each), 1)
