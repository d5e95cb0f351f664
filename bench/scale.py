"""The cluster's state at the size of a large cluster: 100 brokers on 10 racks, 200,000 partitions
in 20,000 topics, three replicas each.

No broker runs. The controller of one broker and the one of another work on one store in memory, as
they do in the simulators, so the figures are what our own code costs: CPU seconds of this process,
which a busy machine does not change much. The store counts commits, writes and bytes: what
ZooKeeper would have to take. The last rows are CPU of a real ZooKeeper's process per operation, in
steps of 10 ms over all of them, and are left out where none can be started.

`HEADRACE_BENCH_SCALE_TOPICS` (20,000) changes the size.
"""

import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from bench.row import Row
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.membership.cluster_view import ClusterView
from headrace.broker.membership.packed_topics import PackedTopics
from headrace.broker.replica.topic_table import HostedTopic, TopicTable
from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.cluster.controller import Controller
from headrace.cluster.entity import encode_entity, entity_path
from headrace.cluster.partition_command import IsrProposal
from headrace.cluster.placement import place
from headrace.cluster.store import (
    CheckNode,
    ClusterStore,
    CreateNode,
    Node,
    UpdateNode,
    Write,
    node_path,
)
from headrace.cluster.topic import PartitionRecord, TopicRecord
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.cluster.topic_life import life_path
from headrace.cluster.zookeeper.zookeeper_store import ZooKeeperStore
from headrace.model.error import StorageError
from headrace.model.ids import BrokerId, TopicId, TopicPartition
from testkit.peer.peer import PeerMissing
from testkit.peer.zookeeper import ZooKeeper
from testkit.process.child_process import ServerFailed
from testkit.simulation.memory_store import Ensemble, MemoryStore

TOPICS = int(os.environ.get("HEADRACE_BENCH_SCALE_TOPICS", "20000"))
_BROKERS, _RACKS, _REPLICAS, _PER_TOPIC = 100, 10, 3, 10
_NEW_TOPICS = 1_000
# Small, so that the memory measured next is not what this has freed.
_AT_ONCE = 100
_METADATA_VERSION = 12
_CONTROLLER = BrokerId(0)
_DEFAULTS = TopicDefaults()
_ZOOKEEPER_NODES = 200

T = TypeVar("T")


def run() -> list[Row]:
    rows: list[Row] = []
    for row in _rows():
        print(f"  {row.name}: {row.ours:.3g} {row.unit}", flush=True)
        rows.append(row)
    return rows


def _rows() -> Iterator[Row]:
    what = f"{_BROKERS} brokers, {TOPICS * _PER_TOPIC:,} partitions"
    store = _CountingStore(Ensemble())
    _fill(store)
    before = _resident_bytes()
    controller, loading = _cpu(lambda: Controller(store))
    memory = _resident_bytes() - before
    stored = sum(len(each.data) for each in store.ensemble.nodes.values())
    yield _seconds(f"{what}: a broker reads the whole state", loading)
    yield _size("memory for the whole state", memory)
    yield _size("bytes of the whole state in the store", stored)
    watching = Controller(store)
    controller.claim_term(_CONTROLLER)
    yield from _at_rest(store, controller, watching)
    yield from _creation(store, controller, watching)
    yield from _loss(store, controller, watching, "one broker is lost", [BrokerId(57)])
    yield from _loss(store, controller, watching, "a rack of 10 is lost", _rack(3))
    yield from _metadata(controller)
    yield from _zookeeper(store)


# The cluster


def _broker(number: int) -> BrokerRecord:
    return BrokerRecord(
        broker_id=BrokerId(number),
        endpoints=(Endpoint("PLAINTEXT", f"broker-{number}.example.com", 9092),),
        rack=f"rack-{number % _RACKS}",
        epoch=0,
    )


def _rack(number: int) -> list[BrokerId]:
    return [BrokerId(each) for each in range(_BROKERS) if each % _RACKS == number]


def _fill(store: "_CountingStore") -> None:
    """Write the state of a cluster that has been running: every replica is in sync."""
    brokers = [_broker(number) for number in range(_BROKERS)]
    racks = {each.broker_id: each.rack for each in brokers}
    store.commit([CreateNode(entity_path(each), encode_entity(each)) for each in brokers])
    for first in range(0, TOPICS, _AT_ONCE):
        number_of = min(_AT_ONCE, TOPICS - first)
        placed = place(
            racks,
            partitions=number_of * _PER_TOPIC,
            replication_factor=_REPLICAS,
            start=first * _PER_TOPIC,
        )
        for number in range(number_of):
            replicas = placed[number * _PER_TOPIC : (number + 1) * _PER_TOPIC]
            _add(store, first + number, replicas)


def _add(store: "_CountingStore", number: int, placed: Sequence[tuple[BrokerId, ...]]) -> None:
    topic = TopicRecord(
        name=f"tracking.events-{number:05}",
        topic_id=TopicId(UUID(int=number + 2)),
        partitions=tuple(PartitionRecord.on(each) for each in placed),
    )
    store.commit(
        [CreateNode(life_path(topic), b""), CreateNode(entity_path(topic), encode_entity(topic))]
    )


class _CountingStore(MemoryStore):
    """Counts what ZooKeeper would have to do."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        self.reads = 0
        self.commits = 0
        self.writes = 0
        self.written_bytes = 0

    def get(self, path: str) -> Node | None:
        self.reads += 1
        return super().get(path)

    def scan(self, kind: str) -> list[Node]:
        nodes = super().scan(kind)
        self.reads += len(nodes)
        return nodes

    def commit(self, writes: Sequence[Write]) -> list[int]:
        versions = super().commit(writes)
        self.commits += 1
        for write in writes:
            if not isinstance(write, CheckNode):
                self.writes += 1
            if isinstance(write, CreateNode | UpdateNode):
                self.written_bytes += len(write.data)
        return versions


# Events


def _at_rest(store: _CountingStore, controller: Controller, leader: Controller) -> Iterator[Row]:
    """What the controller pays when nothing has to be done, and for one small change."""
    _, first = _cpu(controller.settle)
    yield _milliseconds("a new controller looks for leaders to elect, and there are none", first)
    _, again = _cpu(controller.settle)
    yield _milliseconds("the controller looks again, and nothing has changed", again)
    topic = controller.state.topics["tracking.events-00000"]
    partition = topic.partitions[0]
    smaller = IsrProposal(
        partition=TopicPartition(topic.name, 0),
        topic_id=topic.topic_id,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=dict.fromkeys(partition.isr[:2], -1),
    )
    leader.alter_isr([smaller])

    def apply() -> None:
        controller.catch_up([entity_path(topic)])
        controller.settle()

    _, applying = _cpu(apply)
    yield _milliseconds("the controller applies one partition's smaller ISR", applying)
    refused = [TopicToCreate(name=topic.name, partitions=1, replication_factor=1)]
    name, reads = "a topic that exists is created, and refused", store.reads
    _, refusing = _cpu(lambda: controller.create_topics(refused, defaults=_DEFAULTS))
    yield _milliseconds(name, refusing)
    yield _count(f"{name}: nodes read", store.reads - reads)
    _, reloading = _cpu(controller.reload)
    yield _seconds("a broker reads the whole state again, as after a conflict", reloading)


def _creation(store: _CountingStore, controller: Controller, watching: Controller) -> list[Row]:
    wanted = [
        TopicToCreate(name=f"new-{each}", partitions=_PER_TOPIC, replication_factor=_REPLICAS)
        for each in range(_NEW_TOPICS)
    ]
    name = f"{_NEW_TOPICS:,} topics of {_PER_TOPIC} partitions are created"
    return _event(
        store,
        watching,
        name,
        lambda: controller.create_topics(wanted, defaults=_DEFAULTS),
    )


def _loss(
    store: _CountingStore,
    controller: Controller,
    watching: Controller,
    name: str,
    lost: list[BrokerId],
) -> list[Row]:
    paths = [node_path(BrokerRecord.KIND, str(each)) for each in lost]
    for path in paths:
        del store.ensemble.nodes[path]

    def replace_leaders() -> None:
        controller.catch_up(paths)
        controller.settle()

    return _event(store, watching, f"{name}, leaders elected", replace_leaders)


def _event(
    store: _CountingStore, watching: Controller, name: str, act: Callable[[], object]
) -> list[Row]:
    changed: set[str] = set()
    store.ensemble.listeners.append(changed.add)
    before = store.commits, store.writes, store.written_bytes
    _, acting = _cpu(act)
    after = store.commits, store.writes, store.written_bytes
    store.ensemble.listeners.remove(changed.add)
    commits, writes, bytes_ = (new - old for new, old in zip(after, before, strict=True))
    topics = [path for path in changed if path.startswith(f"/{TopicRecord.KIND}/")]
    _, hearing = _cpu(lambda: watching.catch_up(topics))
    return [
        _seconds(name, acting),
        _count(f"{name}: commits", commits),
        _count(f"{name}: nodes written", writes),
        _size(f"{name}: bytes written", bytes_),
        _seconds(f"{name}: on each other broker that reads it", hearing),
    ]


def _metadata(controller: Controller) -> list[Row]:
    """What Metadata of all topics costs after a broker came or went, and how long it is."""
    settings = BrokerSettings({"node.id": "0"})
    members = controller.state.brokers
    table = TopicTable(settings, members)
    for record in controller.state.topics.values():
        topic = HostedTopic(record)
        topic.partitions = [None] * len(record.partitions)
        table.add(topic)
    packed = PackedTopics(table, ClusterView(settings, members, {}))
    _, first = _cpu(lambda: packed.all(_METADATA_VERSION))
    some = next(iter(table))
    table.changed(some)
    _, again = _cpu(lambda: packed.all(_METADATA_VERSION))
    return [
        _seconds("Metadata of every topic, after a change of the brokers", first),
        _seconds("Metadata of every topic, after a change of one topic", again),
        _size("Metadata of every topic: bytes", len(packed.all(_METADATA_VERSION).data)),
    ]


# A real ZooKeeper


def _zookeeper(store: _CountingStore) -> list[Row]:
    sample = next(
        node.data for path, node in store.ensemble.nodes.items() if path.startswith("/topics/")
    )
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        try:
            with ZooKeeper(Path(folder)) as zookeeper:
                real = ZooKeeperStore.open(zookeeper.address, session_ms=30_000)
                try:
                    return _unit_costs(real, sample, zookeeper.pid)
                finally:
                    real.close()
        except (PeerMissing, ServerFailed, StorageError) as missing:
            print(missing)
            return []


def _unit_costs(store: ClusterStore, data: bytes, pid: int) -> list[Row]:
    """Commits as large as a failover's, updates and reads one at a time, and reads at once."""
    paths = [f"/topics/unit-{number}" for number in range(_ZOOKEEPER_NODES)]
    for path in paths:
        store.put(path, data, None)
    versions = dict.fromkeys(paths, 0)

    def update() -> None:
        for path in paths:
            versions[path] = store.put(path, data, versions[path])

    def commit() -> None:
        done = store.commit([UpdateNode(path, data, versions[path]) for path in paths])
        versions.update(zip(paths, done, strict=True))

    def read() -> None:
        for path in paths:
            store.get(path)

    def cost(work: Callable[[], object], rounds: int) -> float:
        work()
        before = _cpu_seconds(pid)
        for _ in range(rounds):
            work()
        return (_cpu_seconds(pid) - before) / (rounds * len(paths)) * 1e6

    what = f"ZooKeeper, one server, CPU: nodes of {len(data)} bytes"
    return [
        Row(name=f"{what}, an update, one at a time", ours=cost(update, 2), unit="µs"),
        Row(name=f"{what}, an update in a commit of many", ours=cost(commit, 20), unit="µs"),
        Row(name=f"{what}, a read, one at a time", ours=cost(read, 2), unit="µs"),
        Row(
            name=f"{what}, a read among many at once",
            ours=cost(lambda: store.scan("topics"), 20),
            unit="µs",
        ),
    ]


# Figures


def _cpu(work: Callable[[], T]) -> tuple[T, float]:
    """Return what the work returns, and the CPU seconds of this process for it."""
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of another process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _seconds(name: str, cpu_seconds: float) -> Row:
    return Row(name=name, ours=cpu_seconds, unit="s of CPU")


def _milliseconds(name: str, cpu_seconds: float) -> Row:
    return Row(name=name, ours=cpu_seconds * 1000, unit="ms of CPU")


def _count(name: str, number: int) -> Row:
    return Row(name=name, ours=number, unit="")


def _size(name: str, number: int) -> Row:
    return Row(name=name, ours=number / 2**20, unit="MiB")
