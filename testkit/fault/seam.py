"""Where two features meet, on a cluster of real processes: each with a topic of its own.

The workload of `chaos` goes on meanwhile on its own topic. Each seam here breaks the cluster in a
way that one feature alone does not, and returns what it saw that must not be.
"""

import random
import time
from collections.abc import Callable

from confluent_kafka import Consumer

from headrace.model.ids import TopicPartition as Place
from headrace.testing.readiness import wait_until
from testkit.fault.history import Anomaly
from testkit.fault.seam_cluster import BATCH, WAIT_SECONDS, SeamCluster

_MIN_INSYNC = "min.insync.replicas"
_QUOTA_BYTES = 50_000
_BULK_BYTES = 1_000_000
# Held to the quota a follower would need 20 s and more.
_BULK_SECONDS = 18.0
_KEYS = 20


class Seams:
    """Each public method is one seam. All replicas are in sync when it begins.

    Args:
        go_on: waits until the workload's records are acknowledged.
    """

    def __init__(self, cluster: SeamCluster, rng: random.Random, go_on: Callable[[], None]) -> None:
        self._cluster, self._processes = cluster, cluster.processes
        self._random = rng
        self._go_on = go_on
        self._rounds = 0
        self._table = ""

    def all(self) -> dict[str, Callable[[], list[Anomaly]]]:
        return {
            "follower killed under client quotas": self.quota,
            "broker killed under a stricter min.insync.replicas": self.min_insync,
            "topic created again while a broker is down": self.created_again,
            "replica moved into the middle of a batch": self.moved_after_deletion,
            "compacted topic's leader killed": self.compacted,
            "broker killed while a group changes its protocol": self.group_protocol,
        }

    # -- the seams

    def quota(self) -> list[Anomaly]:
        """A default quota for consumers: followers copy at full speed all the same."""
        topic, victim = self._cluster.topic(3), self._cluster.any()
        self._cluster.alter_quota(_QUOTA_BYTES)
        try:
            began = time.monotonic()
            values = [f"{topic}-{each}".ljust(1000, ".") for each in range(_BULK_BYTES // 1000)]
            self._cluster.produce(topic, values)
            seconds = time.monotonic() - began
            self._processes.broker(victim).kill()
            self._go_on()
            self._processes.broker(victim).start()
            self._go_on()
            self._processes.wait_in_sync(topic)
        finally:
            self._cluster.alter_quota(None)
        if seconds > _BULK_SECONDS:
            return [Anomaly("throttled follower", f"{topic} took {seconds:.1f} s under a quota")]
        return self._cluster.check(topic, values)

    def min_insync(self) -> list[Anomaly]:
        """A setting of all brokers, changed while they lead: acks=all needs it from then on."""
        topic, victim = self._cluster.topic(3), self._cluster.any()
        self._cluster.produce(topic, ["before"])
        self._cluster.alter_brokers(_MIN_INSYNC, "3")
        try:
            self._processes.broker(victim).kill()
            wait_until(
                lambda: self._cluster.in_sync(topic) == 2, what="two in sync", timeout_seconds=60
            )
            taken = self._cluster.try_to_produce(topic, ["refused-1", "refused-2"])
        finally:
            self._cluster.alter_brokers(_MIN_INSYNC, None)
        self._go_on()
        self._processes.broker(victim).start()
        self._processes.wait_in_sync(topic)
        return [
            Anomaly("too few in sync", f"{each} of {topic} was acknowledged with 2 of 3")
            for each in taken
        ]

    def created_again(self) -> list[Anomaly]:
        """A topic that is deleted and created again while a broker is down."""
        topic, victim = self._cluster.topic(3), self._cluster.any()
        self._cluster.produce(topic, [f"old-{each}" for each in range(5 * BATCH)])
        self._processes.broker(victim).kill()
        # While it counts as alive, the new topic would get a replica there, and wait for it.
        wait_until(
            lambda: self._cluster.is_gone(victim), what="a session's end", timeout_seconds=60
        )
        self._cluster.admin(lambda admin: admin.delete_topics([topic]))
        wait_until(lambda: not self._cluster.exists(topic), what="the deletion", timeout_seconds=60)
        self._cluster.create(topic, 2)
        values = [f"new-{each}" for each in range(2 * BATCH)]
        self._cluster.produce(topic, values)
        self._processes.broker(victim).start()
        others = [each for each in self._processes.brokers if each != victim]
        self._cluster.move(topic, 0, [victim, self._random.choice(others)])
        self._go_on()
        return self._cluster.check(topic, values)

    def moved_after_deletion(self) -> list[Anomaly]:
        """DeleteRecords into the middle of a batch, then another replica, and back again."""
        topic = self._cluster.topic(2)
        values = [f"{topic}-{each}" for each in range(6 * BATCH)]
        self._cluster.produce(topic, values)
        first = self._random.randrange(1, len(values))
        self._cluster.admin(lambda admin: admin.delete_records({Place(topic, 0): first}))
        before = self._cluster.replicas(topic)
        newcomer = next(each for each in self._processes.brokers if each not in before)
        kept = self._random.choice(before)
        self._cluster.move(topic, 0, [newcomer, kept])
        self._processes.broker(kept).kill()
        self._go_on()
        self._processes.broker(kept).start()
        self._processes.wait_in_sync(topic)
        self._cluster.move(topic, 0, before)
        return self._cluster.check(topic, values[first:], first)

    def compacted(self) -> list[Anomaly]:
        """One table for the whole run: every key has the value that was acknowledged last."""
        if not self._table:
            configs = {"cleanup.policy": "compact", "segment.ms": "1000"}
            configs |= {"min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1000"}
            self._table = f"table-{time.monotonic_ns()}"
            self._cluster.create(self._table, 3, configs)
        leader = self._processes.leader(self._table)
        for _ in range(5):
            self._rounds += 1
            self._cluster.produce(self._table, [str(self._rounds)] * _KEYS, keyed=True)
        if leader in self._processes.brokers:
            self._processes.broker(leader).kill()
            self._go_on()
            self._processes.broker(leader).start()
        self._rounds += 1
        self._cluster.produce(self._table, [str(self._rounds)] * _KEYS, keyed=True)
        found: dict[bytes, int] = {}
        problems = []
        for message in self._cluster.read(self._table):
            key, value = message.key() or b"", int(message.value() or b"-1")
            if value < found.get(key, 0):
                problems.append(
                    Anomaly("older value", f"{key!r} went from {found[key]} to {value}")
                )
            found[key] = value
        if found != {f"k{each}".encode(): self._rounds for each in range(_KEYS)}:
            problems.append(Anomaly("lost value", f"round {self._rounds} of {found}"))
        return problems

    def group_protocol(self) -> list[Anomaly]:
        """A group passes from the classic to the consumer protocol and back, and misses nothing."""
        topic, victim = self._cluster.topic(3), self._cluster.any()
        sent, seen = [0], set[str]()

        def all_seen(*members: Consumer) -> bool:
            """Write some more, and return whether these members got all there is."""
            values = [f"{topic}-{each}" for each in range(sent[0], sent[0] + BATCH)]
            sent[0] += BATCH
            self._cluster.produce(topic, values)
            deadline = time.monotonic() + WAIT_SECONDS
            while len(seen) < sent[0] and time.monotonic() < deadline:
                for member in members:
                    message = member.poll(0.1)
                    if message is not None and message.error() is None:
                        seen.add((message.value() or b"").decode())
            return len(seen) == sent[0]

        self._cluster.wait_known(topic)
        classic = self._cluster.member(topic, "classic")
        steps = [all_seen(classic)]
        first_assignment = classic.assignment()
        modern = self._cluster.member(topic, "consumer")
        steps.append(all_seen(classic, modern))
        self._processes.broker(victim).kill()
        classic.close()
        steps.append(all_seen(modern))
        self._processes.broker(victim).start()
        classic = self._cluster.member(topic, "classic")
        steps.append(all_seen(classic, modern))
        modern.close()
        steps.append(all_seen(classic))
        classic.close()
        if all(steps):
            return []
        what = f"{len(seen)} of {sent[0]} records of {topic}: {steps}"
        return [Anomaly("undelivered", f"{what}; at first the member had {first_assignment}")]
