"""What the replicas of the seam simulator have shown so far, and the rules that it must keep."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn, Protocol
from uuid import UUID

from headrace.cluster.controller import Controller
from headrace.cluster.topic import NO_LEADER
from headrace.log.partition.partition_log import PartitionLog
from testkit.sample.keyed_batch import read_batches
from testkit.simulation.seam_broker import PARTITION, TOPIC, SeamBroker

_READ_BYTES = 1 << 20
_MIN_INSYNC = "min.insync.replicas"


class Shown(NamedTuple):
    """A record that a replica showed below its high watermark."""

    key: bytes
    value: bytes


class HistoryHost(Protocol):
    """What the history needs of the simulator."""

    def say(self, who: object, what: str) -> None: ...
    def fail(self, what: str) -> NoReturn: ...


class _Topic:
    """One topic, from its creation to its deletion: another of the same name is another one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.committed: dict[int, Shown] = {}
        self.frontier = 0
        self.deleted_to = 0
        self.compacted = False
        self.sent: set[bytes] = set()
        self.acknowledged: dict[bytes, int] = {}
        self.leaders: dict[int, int] = {}
        self.last_of_key: dict[bytes, int] = {}


class SeamHistory:
    """By topic id, what was committed; each `Violation` is raised through the simulator."""

    def __init__(self, host: HistoryHost) -> None:
        self.topics: dict[UUID, _Topic] = {}
        self._host = host
        self._verified: dict[PartitionLog, int] = defaultdict(int)

    def topic_of(self, broker: SeamBroker) -> _Topic | None:
        hosted = broker.topics.by_name(TOPIC)
        if hosted is None:
            return None
        known = self.topics.get(hosted.topic_id)
        if known is None:
            known = self.topics[hosted.topic_id] = _Topic(len(self.topics) + 1)
        return known

    # -- what happens

    def deletes(self, broker: SeamBroker, before: int) -> None:
        """Note that a log may start there from now on."""
        topic = self.topic_of(broker)
        if topic is not None:
            topic.deleted_to = max(topic.deleted_to, before)

    def compacts(self, broker: SeamBroker) -> None:
        topic = self.topic_of(broker)
        if topic is not None:
            topic.compacted = True

    def sends(self, broker: SeamBroker, values: list[bytes]) -> None:
        """Note that the topic that this broker leads may have these from now on."""
        topic = self.topic_of(broker)
        if topic is not None:
            topic.sent.update(values)

    def accepts(self, broker: SeamBroker) -> None:
        """Check an append with acks=all that was not refused."""
        partition, controller = broker.partition, broker.controller
        assert partition is not None
        assert controller is not None
        wanted = _min_insync(controller, broker)
        state = partition.state
        if len(state.isr) < min(wanted, len(state.replicas)):
            self._host.fail(
                f"broker {broker.broker_id} took records with {sorted(state.isr)} in sync, and "
                f"min.insync.replicas is {wanted}"
            )

    def acknowledges(self, broker: SeamBroker, base_offset: int, values: list[bytes]) -> None:
        topic, log = self.topic_of(broker), broker.log
        if topic is None or log is None:
            return
        self.shows(broker, log)
        self._host.say(f"broker {broker.broker_id}", f"acknowledged {values} at {base_offset}")
        for offset, value in enumerate(values, base_offset):
            shown = topic.committed.get(offset)
            if offset < topic.frontier and shown is not None and shown.value == value:
                topic.acknowledged[value] = offset
            elif offset >= topic.deleted_to:
                self._host.fail(f"{value!r} was acknowledged at {offset}, where {shown} is")

    # -- what must hold

    def begins_to_lead(self, broker: SeamBroker) -> None:
        topic, partition = self.topic_of(broker), broker.partition
        assert topic is not None
        assert partition is not None
        epoch = partition.leader_epoch
        self._host.say(
            f"broker {broker.broker_id}",
            f"leads topic {topic.number} in epoch {epoch} with {sorted(partition.state.isr)}, "
            f"{partition.log.log_start_offset}..{partition.log.log_end_offset}",
        )
        other = topic.leaders.setdefault(epoch, broker.broker_id)
        if other != broker.broker_id:
            self._host.fail(f"brokers {other} and {broker.broker_id} both lead in epoch {epoch}")
        if partition.log.log_end_offset < topic.frontier:
            self._host.fail(
                f"broker {broker.broker_id} leads up to {partition.log.log_end_offset}, and "
                f"{topic.frontier} is committed"
            )
        self._compare(broker, topic, partition.log, 0, topic.frontier)

    def shows(self, broker: SeamBroker, log: PartitionLog) -> None:
        """Check what a replica shows that it did not show before."""
        topic = self.topic_of(broker)
        if topic is None:
            return
        if log.log_start_offset > topic.deleted_to:
            self._host.fail(
                f"broker {broker.broker_id} starts at {log.log_start_offset}, and records below "
                f"{topic.deleted_to} at most were deleted"
            )
        high_watermark = log.high_watermark
        seen = self._verified[log]
        if high_watermark > seen:
            self._compare(broker, topic, log, seen, high_watermark)
        self._verified[log] = high_watermark

    def _compare(
        self, broker: SeamBroker, topic: _Topic, log: PartitionLog, start: int, end: int
    ) -> None:
        start = max(start, log.log_start_offset)
        found = dict(_records(log, start, end))
        for offset, shown in found.items():
            if offset >= topic.frontier:
                if shown.value not in topic.sent:
                    self._host.fail(
                        f"broker {broker.broker_id} shows {shown} at {offset}, which was never "
                        f"sent to topic {topic.number}"
                    )
                topic.committed[offset] = shown
                topic.last_of_key[shown.key] = offset
            elif topic.committed.get(offset) != shown:
                self._host.fail(
                    f"broker {broker.broker_id} shows {shown} at {offset}, where "
                    f"{topic.committed.get(offset)} was"
                )
        if end > topic.frontier:
            where = f"{topic.frontier}..{end} of topic {topic.number}"
            self._host.say(f"broker {broker.broker_id}", f"is the first to show {where}")
        topic.frontier = max(topic.frontier, end)
        for offset in range(start, end):
            if offset in found or offset not in topic.committed:
                continue
            superseded = topic.last_of_key[topic.committed[offset].key] > offset
            if not (topic.compacted and superseded):
                self._host.fail(
                    f"broker {broker.broker_id} lost {topic.committed[offset]} at {offset}"
                )

    def check_end(self, brokers: Mapping[int, SeamBroker]) -> None:
        states = [each.controller for each in brokers.values() if each.serves]
        if len(states) < len(brokers) or states[0] is None:
            self._host.fail("a broker did not come back")
        record = states[0].state.topics.get(TOPIC)
        if record is None:
            self._host.fail("there is no topic in the end")
        partition = record.partitions[0]
        if partition.leader == NO_LEADER or set(partition.isr) != set(partition.replicas):
            self._host.fail(f"the partition did not recover: {partition}")
        if partition.adding or partition.removing:
            self._host.fail(f"a move did not end: {partition}")
        ends = {}
        for number, broker in brokers.items():
            log = broker.log
            if number not in partition.replicas:
                # One of an earlier topic stays if there was no topic at all when it was opened.
                found = [each for each in broker.storage.directories if PARTITION in each]
                if any(each.topic_id(PARTITION) == record.topic_id for each in found):
                    self._host.fail(f"broker {number} has a log that it has no replica of")
                continue
            topic = self.topic_of(broker)
            if log is None or topic is not self.topics.get(record.topic_id) or topic is None:
                self._host.fail(f"broker {number} does not serve its replica")
            self._compare(broker, topic, log, 0, log.high_watermark)
            ends[number] = (log.high_watermark, log.log_end_offset, topic.frontier)
        if len({each for pair in ends.values() for each in pair}) != 1:
            self._host.fail(f"the logs differ in high watermark, end and frontier: {ends}")
        for topic in self.topics.values():
            self._check_values(topic)

    def _check_values(self, topic: _Topic) -> None:
        places: dict[bytes, list[int]] = defaultdict(list)
        for offset, shown in topic.committed.items():
            places[shown.value].append(offset)
        for value, offsets in places.items():
            alive = [each for each in offsets if each >= topic.deleted_to]
            if len(alive) > 1:
                self._host.fail(f"{value!r} is in topic {topic.number} twice, at {alive}")


def _records(log: PartitionLog, start: int, end: int) -> Iterator[tuple[int, Shown]]:
    offset = start
    while offset < end:
        piece = log.read(offset, _READ_BYTES, max_offset=end, at_least_one=True).read()
        last = offset
        for batch in read_batches(piece):
            last = batch.head.last_offset + 1
            for record in batch.records:
                at = record.offset
                if at is not None and start <= at < end:
                    yield at, Shown(record.key or b"", record.value or b"")
        if last <= offset:
            return
        offset = last


def _min_insync(controller: Controller, broker: SeamBroker) -> int:
    """Work out min.insync.replicas from the cluster's state alone, as Kafka's manual says."""
    state = controller.state
    sources = [state.topics[TOPIC].configs] if TOPIC in state.topics else []
    sources += [
        state.broker_configs[each].configs
        for each in (broker.broker_id, None)
        if each in state.broker_configs
    ]
    return next((int(each[_MIN_INSYNC]) for each in sources if _MIN_INSYNC in each), 1)
