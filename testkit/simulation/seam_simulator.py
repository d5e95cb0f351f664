"""Four brokers made of real parts on a virtual clock, faults, and administrators in between.

Theory of operation
-------------------
`cluster_simulator` proves the arithmetic of replication. Faults that were found later sat where two
features meet: a deletion into the middle of a batch, then a new replica; a topic that was deleted
and created again, with a crash in between; a setting of the broker changed while a partition is
led. So the brokers here (`seam_broker`) run the real applier, roles, log directory, logs,
partitions and followers. Besides the faults of `virtual_cluster` these happen at random: a topic is
deleted and created again; records are deleted, by hand and by retention; a log is compacted;
replicas move, in both directions; settings of the topic and of all brokers change; a disk is full
for a while.

What must hold, checked whenever a replica shows more, and at the end:

1. what was below any replica's high watermark stays there, unchanged, in every replica, except
   below a log start that was asked for, and except a record that compaction may remove (*lost
   write*, *inconsistent offset*);
2. no record is in a log of a topic that it was not sent to;
3. in one leader epoch only one broker leads, and it has all that is committed;
4. a batch that was acknowledged with acks=all is committed, and only once (*duplicate*), and at its
   append as many replicas were in sync as min.insync.replicas asks for;
5. a reader that polls whichever broker leads never goes back and skips nothing (*non-monotonic
   poll*);
6. when the faults end, all replicas come to the same log and are in sync, moves have ended, and no
   broker has a log that it should not have.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from uuid import UUID

from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.controller import Controller
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.log.compaction.cleanable_range import cleanable_range
from headrace.log.compaction.compactor import Compactor
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.config_code import ConfigOperation
from headrace.model.error import DiskFull
from headrace.model.ids import BrokerId
from testkit.simulation.seam_broker import PARTITION, TOPIC, SeamBroker
from testkit.simulation.seam_client import SeamProducer, SeamReader
from testkit.simulation.seam_history import SeamHistory
from testkit.simulation.virtual_cluster import FAULT_MS, REST_MS, SESSION_MS, VirtualCluster

BROKERS = (1, 2, 3, 4)
_MIN_INSYNC = "min.insync.replicas"
_COMPACTOR_BYTES = 24 * 64


class SeamSimulator(VirtualCluster):
    """One history. `run()` runs it and raises `Violation` if a rule is broken."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.brokers = {each: SeamBroker(self, each) for each in BROKERS}
        self.history = SeamHistory(self)
        self.done: Counter[str] = Counter()
        self.watch()

    @property
    def members(self) -> Mapping[int, SeamBroker]:
        return self.brokers

    def run(self) -> None:
        try:
            self._run()
        finally:
            for broker in self.brokers.values():
                broker.close()

    def _run(self) -> None:
        for broker in self.brokers.values():
            self.after(self.random.randint(0, 50), broker.start)
        producers = [SeamProducer(self, each) for each in (1, 2)]
        readers = [SeamReader(self, each) for each in (1, 2)]
        for step in (*(each.step for each in producers), *(each.step for each in readers)):
            self.after(200, step)
        self.after(150, self._administer)
        self.after(self.fault_rates.fault_every_ms, self.fault)
        self.play(FAULT_MS)
        self.heal()
        for broker in self.brokers.values():
            broker.make_room()
        self.play(FAULT_MS + 2 * REST_MS)
        self.history.check_end(self.brokers)
        for reader in readers:
            reader.check_end()

    # -- what brokers report

    def begins_to_lead(self, broker: SeamBroker, partition: object) -> None:
        self.history.begins_to_lead(broker)

    def shows(self, broker: SeamBroker, log: PartitionLog) -> None:
        self.history.shows(broker, log)

    # -- administrators

    def _administer(self) -> None:
        if self.calm:
            self._create_if_missing()
            return
        self.after(self.random.randint(1, 300), self._administer)
        serving = [each for each in self.brokers.values() if each.serves]
        if not serving:
            return
        broker = self.random.choice(serving)
        self._create_if_missing()
        kind = self.random.choice(list(_ACTIONS))
        self.done[kind] += 1
        _ACTIONS[kind](self, broker)

    def heal(self) -> None:
        super().heal()
        self.after(SESSION_MS, self._create_if_missing)

    def _create_if_missing(self) -> None:
        serving = [each for each in self.brokers.values() if each.serves]
        for broker in serving[:1]:
            controller = broker.controller
            if controller is not None and TOPIC not in controller.state.topics:
                self._create(broker)

    def _create(self, broker: SeamBroker) -> None:
        controller = broker.controller
        alive = [] if controller is None else sorted(controller.state.brokers)
        if len(alive) < 3:
            return
        replicas = self.random.sample(alive, 3)
        configs: dict[str, str | None] = {}
        if self.random.random() < 0.4:
            configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        if self.random.random() < 0.5:
            configs[_MIN_INSYNC] = "2"
        new = TopicToCreate(name=TOPIC, assignments={0: replicas}, configs=configs)
        self.say("admin", f"creates the topic on {replicas} with {configs}")
        broker.administer(lambda each: each.create_topics([new], defaults=TopicDefaults()))

    def _delete_topic(self, broker: SeamBroker) -> None:
        if self.random.random() < 0.3:
            self.say("admin", "deletes the topic")
            broker.administer(lambda each: each.delete_topics([TOPIC]))

    def _delete_records(self, broker: SeamBroker) -> None:
        for leader in self.brokers.values():
            partition = leader.partition
            if partition is None:
                continue
            log = partition.log
            before = self.random.randint(log.log_start_offset, log.high_watermark)
            self.say("admin", f"deletes records below {before} at broker {leader.broker_id}")
            self.history.deletes(leader, before)
            with suppress(DiskFull):
                log.delete_records(before)

    def _retain(self, broker: SeamBroker) -> None:
        """Let retention run, with little room at times."""
        size = self.random.choice(["300", "1000", "-1"])
        self._alter_topic(broker, "retention.bytes", size)
        for each in self.brokers.values():
            log = each.log
            if log is None or log.config.compacted:
                continue
            self.history.deletes(each, log.high_watermark)
            with suppress(DiskFull):
                for directory in each.storage.directories:
                    directory.maintain()
            self.say("admin", f"broker {each.broker_id} retains {log.log_start_offset} and on")

    def _compact(self, broker: SeamBroker) -> None:
        log = broker.log
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
            self.say("admin", f"compacts at broker {broker.broker_id} below {cleanable.end}")
            self.history.compacts(broker)
            compactor = Compactor(broker.clock, memory_bytes=_COMPACTOR_BYTES, chunk_bytes=1024)
            with suppress(DiskFull):
                compactor.clean(log, cleanable)

    def _alter_topic(self, broker: SeamBroker, key: str, value: str | None) -> None:
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        self.say("admin", f"sets {key} of the topic to {value}")
        alteration = ConfigAlteration(key, operation, value)
        broker.administer(lambda each: each.alter_topic_configs(TOPIC, [alteration]))

    def _alter_min_insync(self, broker: SeamBroker) -> None:
        self._alter_topic(broker, _MIN_INSYNC, self.random.choice(["1", "2", None]))

    def _alter_brokers(self, broker: SeamBroker) -> None:
        value = self.random.choice(["1", "2", None])
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        self.say("admin", f"sets {_MIN_INSYNC} of all brokers to {value}")
        alteration = ConfigAlteration(_MIN_INSYNC, operation, value)
        broker.administer(lambda each: each.alter_broker_configs(None, [alteration]))

    def _reassign(self, broker: SeamBroker) -> None:
        def move(controller: Controller) -> None:
            alive = sorted(controller.state.brokers)
            cancel = self.random.random() < 0.2
            count = min(len(alive), self.random.choice([2, 3]))
            target: list[BrokerId] | None = None if cancel else self.random.sample(alive, count)
            self.say("admin", f"moves the replicas to {target}")
            controller.reassign({PARTITION: target})

        broker.administer(move)

    def _prefer(self, broker: SeamBroker) -> None:
        self.say("admin", "elects the preferred leader")
        broker.administer(lambda each: each.elect_leaders(None))

    def _fill_disk(self, broker: SeamBroker) -> None:
        broker.fill_disk(self.random.randint(50, 600))

    def topic_id(self, broker: SeamBroker) -> UUID | None:
        topic = broker.topics.by_name(TOPIC) if broker.serves else None
        return None if topic is None else topic.topic_id


_ACTIONS = {
    "topic deleted": SeamSimulator._delete_topic,
    "records deleted": SeamSimulator._delete_records,
    "retention": SeamSimulator._retain,
    "compaction": SeamSimulator._compact,
    "topic's min.insync.replicas": SeamSimulator._alter_min_insync,
    "brokers' min.insync.replicas": SeamSimulator._alter_brokers,
    "replicas moved": SeamSimulator._reassign,
    "preferred leader": SeamSimulator._prefer,
    "disk full": SeamSimulator._fill_disk,
}
