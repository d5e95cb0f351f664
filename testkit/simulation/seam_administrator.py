"""What administrators do, at random, in a history of the seam simulator."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import ClassVar, Protocol

from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.controller import Controller
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.log.compaction.cleanable_range import cleanable_range
from headrace.log.compaction.compactor import Compactor
from headrace.model.config_code import ConfigOperation
from headrace.model.error import DiskFull
from headrace.model.ids import BrokerId, TopicPartition
from testkit.simulation.seam_broker import TOPIC, SeamBroker
from testkit.simulation.seam_history import SeamHistory
from testkit.simulation.virtual_cluster import SESSION_MS

_MIN_INSYNC = "min.insync.replicas"
_COMPACTOR_BYTES = 24 * 64
_PAUSE_MS = 300


class AdministratorHost(Protocol):
    """What administrators need of the simulator."""

    calm: bool
    random: Random
    brokers: dict[int, SeamBroker]
    history: SeamHistory
    partition_count: int

    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...
    def say(self, who: object, what: str) -> None: ...


class SeamAdministrator:
    """Acts through whichever broker serves.

    Attributes:
        done: how often each action was taken.
    """

    def __init__(self, host: AdministratorHost) -> None:
        self.done: Counter[str] = Counter()
        self._host = host
        self._random = host.random

    def step(self) -> None:
        """Act, and again after a random time until it is calm."""
        if self._host.calm:
            return
        self._host.after(self._random.randint(1, _PAUSE_MS), self.step)
        serving = [each for each in self._host.brokers.values() if each.serves]
        if not serving:
            return
        broker = self._random.choice(serving)
        self._create_if_missing()
        kind = self._random.choice(list(self.actions))
        self.done[kind] += 1
        self.actions[kind](self, broker)

    def heal(self) -> None:
        """Let there be a topic in the end."""
        self._host.after(SESSION_MS, self._create_until_there)

    def _create_until_there(self) -> None:
        self._create_if_missing()
        if not any(each.serves and TOPIC in each.state.state.topics for each in self._all):
            self._host.after(SESSION_MS, self._create_until_there)

    @property
    def _all(self) -> list[SeamBroker]:
        return list(self._host.brokers.values())

    def _say(self, what: str) -> None:
        self._host.say("admin", what)

    # -- topics

    def _create_if_missing(self) -> None:
        serving = [each for each in self._all if each.serves]
        for broker in serving[:1]:
            if TOPIC not in broker.state.state.topics:
                self._create(broker)

    def _create(self, broker: SeamBroker) -> None:
        alive = sorted(broker.state.state.brokers)
        if len(alive) < 3:
            return
        count = self._host.partition_count
        replicas = {each: self._random.sample(alive, 3) for each in range(count)}
        configs: dict[str, str | None] = {}
        if self._random.random() < 0.4:
            configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        if self._random.random() < 0.5:
            configs[_MIN_INSYNC] = "2"
        new = TopicToCreate(name=TOPIC, assignments=replicas, configs=configs)
        self._say(f"creates the topic on {replicas} with {configs}")
        broker.administer(lambda each: each.create_topics([new], defaults=TopicDefaults()))

    def _delete_topic(self, broker: SeamBroker) -> None:
        if self._random.random() < 0.3:
            self._say("deletes the topic")
            broker.administer(lambda each: each.delete_topics([TOPIC]))

    def _partition(self, broker: SeamBroker) -> TopicPartition:
        """Choose one of all partitions that there are, also of coordinators."""
        topics = broker.state.state.topics.values()
        names = [
            TopicPartition(each.name, index)
            for each in topics
            for index in range(len(each.partitions))
        ]
        return self._random.choice(names or [TopicPartition(TOPIC, 0)])

    # -- records

    def _delete_records(self, broker: SeamBroker) -> None:
        name = TopicPartition(TOPIC, self._random.randrange(self._host.partition_count))
        for leader in self._all:
            partition = leader.led(name)
            if partition is None:
                continue
            log = partition.log
            before = self._random.randint(log.log_start_offset, log.high_watermark)
            self._say(f"deletes records of {name} below {before} at broker {leader.broker_id}")
            self._host.history.deletes(leader, name, before)
            with suppress(DiskFull):
                log.delete_records(before)

    def _retain(self, broker: SeamBroker) -> None:
        """Let retention run, with little room at times."""
        size = self._random.choice(["300", "1000", "-1"])
        self._alter_topic(broker, "retention.bytes", size)
        for each in self._all:
            for index in range(self._host.partition_count):
                name = TopicPartition(TOPIC, index)
                log = each.log_of(name)
                if log is not None and not log.config.compacted:
                    self._host.history.deletes(each, name, log.high_watermark)
            if each.serves:
                with suppress(DiskFull):
                    for directory in each.storage.directories:
                        directory.maintain()
        self._say("lets every broker retain what it must")

    def _compact(self, broker: SeamBroker) -> None:
        name = self._partition(broker)
        log = broker.log_of(name)
        if log is None or not log.config.compacted:
            return
        cleanable = cleanable_range(
            log.segments,
            log.config,
            first_dirty=log.log_start_offset,
            last_stable=log.last_stable_offset,
            now_ms=broker.clock.wall_ms(),
        )
        if cleanable.dirty_bytes:
            self._say(f"compacts {name} at broker {broker.broker_id} below {cleanable.end}")
            self._host.history.compacts(broker, name)
            compactor = Compactor(broker.clock, memory_bytes=_COMPACTOR_BYTES, chunk_bytes=1024)
            with suppress(DiskFull):
                compactor.clean(log, cleanable)

    # -- settings

    def _alter_topic(self, broker: SeamBroker, key: str, value: str | None) -> None:
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        self._say(f"sets {key} of the topic to {value}")
        alteration = ConfigAlteration(key, operation, value)
        broker.administer(lambda each: each.alter_topic_configs(TOPIC, [alteration]))

    def _alter_min_insync(self, broker: SeamBroker) -> None:
        self._alter_topic(broker, _MIN_INSYNC, self._random.choice(["1", "2", None]))

    def _alter_brokers(self, broker: SeamBroker) -> None:
        value = self._random.choice(["1", "2", None])
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        self._say(f"sets {_MIN_INSYNC} of all brokers to {value}")
        alteration = ConfigAlteration(_MIN_INSYNC, operation, value)
        broker.administer(lambda each: each.alter_broker_configs(None, [alteration]))

    # -- replicas

    def _reassign(self, broker: SeamBroker) -> None:
        name = self._partition(broker)

        def move(controller: Controller) -> None:
            alive = sorted(controller.state.brokers)
            cancel = self._random.random() < 0.2
            count = min(len(alive), self._random.choice([2, 3]))
            target: list[BrokerId] | None = None if cancel else self._random.sample(alive, count)
            self._say(f"moves the replicas of {name} to {target}")
            controller.reassign({name: target})

        broker.administer(move)

    def _prefer(self, broker: SeamBroker) -> None:
        self._say("elects the preferred leader")
        broker.administer(lambda each: each.elect_leaders(None))

    def _fill_disk(self, broker: SeamBroker) -> None:
        broker.fill_disk(self._random.randint(50, 600))

    actions: ClassVar[Mapping[str, Callable[..., None]]] = {
        "topic deleted": _delete_topic,
        "records deleted": _delete_records,
        "retention": _retain,
        "compaction": _compact,
        "topic's min.insync.replicas": _alter_min_insync,
        "brokers' min.insync.replicas": _alter_brokers,
        "replicas moved": _reassign,
        "preferred leader": _prefer,
        "disk full": _fill_disk,
    }
