"""Where what an operator does meets a fault, on a cluster of real processes.

As in `seam`, with a look at what else may be hit: logs on a broker's disk, rights, and requests
that have nothing to do with it.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.admin.log_dir_admin import LogDirAdmin
from headrace.client.error import ClientError
from headrace.model.config_code import ConfigResourceType
from headrace.model.ids import TopicPartition as Place
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from testkit.fault.history import Anomaly
from testkit.fault.seam_cluster import BATCH, WAIT_SECONDS, SeamCluster
from testkit.process.child_process import ServerFailed
from testkit.process.wire_client import WireClient

# A right to a topic holds only where rights are asked for; everything else stays open.
OPERATOR_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_MANY = 300
# The deletion of as many partitions once held the controller for 20 s.
_ANSWER_SECONDS = 5.0
_MANY_SECONDS = 60.0


class OperatorSeams:
    """Each public method is one seam. All replicas are in sync when it begins.

    Args:
        go_on: waits until the workload's records are acknowledged.
    """

    def __init__(self, cluster: SeamCluster, rng: random.Random, go_on: Callable[[], None]) -> None:
        self._cluster, self._processes = cluster, cluster.processes
        self._random = rng
        self._go_on = go_on

    def all(self) -> dict[str, Callable[[], list[Anomaly]]]:
        return {
            "broker started with a mistyped ZooKeeper root": self.mistyped_root,
            "broker killed while it moves a log to another directory": self.log_moved,
            "topic of 300 partitions created and deleted": self.many_partitions,
            "coordinator killed under a regular expression without rights": self.hidden_topic,
        }

    # -- the seams

    def mistyped_root(self) -> list[Anomaly]:
        """A broker that finds no topic in its cluster keeps all of its logs."""
        topic, victim = self._cluster.topic(3), self._cluster.any()
        values = [f"{topic}-{each}" for each in range(BATCH)]
        self._cluster.produce(topic, values)
        broker = self._processes.broker(victim)
        broker.stop()
        right = broker.settings["zookeeper.connect"]
        before = _log_names(broker.data)
        broker.settings["zookeeper.connect"] = f"{right}/mistyped"
        try:
            # It may refuse to start: its data belong to another cluster.
            with suppress(ServerFailed):
                broker.start()
                broker.stop()
        finally:
            broker.settings["zookeeper.connect"] = right
        lost = sorted(before - _log_names(broker.data))
        broker.start()
        self._go_on()
        self._processes.wait_in_sync(topic)
        problems = self._cluster.check(topic, values)
        if lost:
            problems.append(Anomaly("lost log", f"broker {victim} gave up {lost}"))
        return problems

    def log_moved(self) -> list[Anomaly]:
        """A log moves between two directories of a broker that is killed meanwhile."""
        topic, victim = self._cluster.topic(3), self._cluster.any()
        values = [f"{topic}-{each}".ljust(1000, ".") for each in range(50 * BATCH)]
        self._cluster.produce(topic, values[: 25 * BATCH])
        broker, place = self._processes.broker(victim), Place(topic, 0)
        home = self._home(victim, place)
        target = next(each for each in broker.settings["log.dirs"].split(",") if each != home)
        # The wish is kept for a log that is only about to be made; a move is kept on the disk.
        self._until(lambda: self._move(victim, place, target), "a move that has begun")
        self._cluster.produce(topic, values[25 * BATCH :])
        broker.kill()
        self._go_on()
        broker.start()
        self._until(lambda: self._move(victim, place, target), "a move that goes on")
        wait_until(
            lambda: self._home(victim, place) == target,
            what=f"{place} in {target}",
            timeout_seconds=WAIT_SECONDS,
        )
        self._processes.wait_in_sync(topic)
        # What the moved log holds is seen when it leads.
        for other in self._processes.brokers:
            if other != victim:
                self._cluster.move(topic, 0, [victim, other])
                break
        self._cluster.admin_of_replicas(lambda admin: admin.elect([place]))
        return self._cluster.check(topic, values)

    def many_partitions(self) -> list[Anomaly]:
        """A topic of many partitions comes and goes, and no other request waits for that."""
        topic = f"many-{time.monotonic_ns()}"
        began = time.monotonic()
        with self._asking() as waits:
            self._cluster.admin(
                lambda admin: (
                    admin.create_topics([NewTopic(topic, _MANY, 3)])
                    if not self._cluster.exists(topic)
                    else {}
                )
            )
            self._processes.wait_in_sync(topic)
            self._cluster.admin(
                lambda admin: admin.delete_topics([topic]) if self._cluster.exists(topic) else {}
            )
            wait_until(
                lambda: not self._cluster.exists(topic),
                what="the deletion",
                timeout_seconds=WAIT_SECONDS,
            )
        seconds, longest = time.monotonic() - began, max(waits, default=0.0)
        problems = []
        if longest > _ANSWER_SECONDS:
            problems.append(Anomaly("blocked request", f"{longest:.1f} s behind {topic}"))
        if seconds > _MANY_SECONDS:
            problems.append(Anomaly("slow topic", f"{topic} took {seconds:.1f} s"))
        return problems

    def hidden_topic(self) -> list[Anomaly]:
        """A member learns nothing of a topic that it may not see, from no coordinator."""
        number = time.monotonic_ns()
        hidden, shown, group = f"hidden-{number}", f"shown-{number}", f"group-{number}"
        binding = AclBinding(
            ResourceType.TOPIC,
            hidden,
            ResourcePatternType.LITERAL,
            "User:owner",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        self._cluster.create(shown, 3)
        self._cluster.create(hidden, 3)
        hidden_id = self._topic_id(hidden)
        admin = AdminClient({"bootstrap.servers": self._processes.address, "log_level": 0})
        admin.create_acls([binding])[binding].result(WAIT_SECONDS)
        # A broker that has not heard of the entry yet still answers as before.
        wait_until(lambda: not self._cluster.exists(hidden), what="an ACL", timeout_seconds=60)
        seen: set[UUID] = set()
        try:
            member, pattern = f"member-{number}", f"(hidden|shown)-{number}"
            for victim in (None, self._coordinator(group)):
                if victim is not None:
                    self._processes.broker(victim).kill()
                    self._go_on()
                    self._processes.broker(victim).start()
                    self._go_on()
                seen |= self._assigned(group, f"{member}-{victim}", pattern)
        finally:
            admin = AdminClient({"bootstrap.servers": self._processes.address, "log_level": 0})
            self._until(lambda: _delete_acl(admin, binding), "the end of an ACL")
        if hidden_id in seen:
            return [Anomaly("ACL", f"a member without a right was given {hidden}")]
        if not seen:
            return [Anomaly("ACL", f"a member was not given {shown}")]
        return []

    # -- what they need

    def _until(self, step: Callable[[], bool], what: str) -> None:
        def done() -> bool:
            try:
                return step()
            except ClientError:
                return False

        wait_until(done, what=what, timeout_seconds=WAIT_SECONDS)

    def _move(self, broker: int, place: Place, target: str) -> bool:
        with self._cluster.pool() as pool:
            pool.metadata(())
            return LogDirAdmin(pool).move(broker, place, target) is None

    def _home(self, broker: int, place: Place) -> str | None:
        """Return the directory of a log; None while the broker does not say."""
        found: list[str] = []
        with suppress(ClientError), self._cluster.pool() as pool:
            pool.metadata(())
            found = [
                each.path
                for each in LogDirAdmin(pool).describe([broker])
                if any(log.partition == place and not log.moving for log in each.logs)
            ]
        return found[0] if found else None

    @contextmanager
    def _asking(self) -> Iterator[list[float]]:
        """Ask for configurations all the while, and note how long each answer took."""
        waits: list[float] = []
        enough = Event()

        def ask() -> None:
            while not enough.is_set():
                with suppress(ClientError), self._cluster.pool() as pool:
                    admin = Admin(pool)
                    while not enough.is_set():
                        began = time.monotonic()
                        admin.describe_configs(ConfigResourceType.TOPIC, ["orders"])
                        waits.append(time.monotonic() - began)
                        enough.wait(0.1)

        thread = Thread(target=ask, daemon=True)
        thread.start()
        try:
            yield waits
        finally:
            enough.set()
            thread.join()

    def _topic_id(self, topic: str) -> UUID:
        with self._cluster.pool() as pool:
            return pool.metadata([topic]).topics[topic].topic_id

    def _coordinator(self, group: str) -> int:
        """Return the broker that coordinates a group, once there is one."""
        found: list[int] = []

        def known() -> bool:
            body = {"key_type": 0, "coordinator_keys": [group]}
            answers = [each.coordinators[0] for each in self._ask(ApiKey.FIND_COORDINATOR, 4, body)]
            found.extend(each.node_id for each in answers if each.error_code == 0)
            return bool(found)

        wait_until(known, what="a coordinator", timeout_seconds=WAIT_SECONDS)
        return found[0]

    def _assigned(self, group: str, member: str, pattern: str) -> set[UUID]:
        """Join as a new member with a regular expression, and leave with what it was given."""
        body = {
            "group_id": group,
            "member_id": member,
            "rebalance_timeout": 60_000,
            "subscribed_topic_regex": pattern,
            "server_assignor": None,
        }
        epoch, topics = [0], list[UUID]()

        def given() -> bool:
            fresh = {"member_epoch": epoch[0], "topic_partitions": [] if epoch[0] == 0 else None}
            for answer in self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {**body, **fresh}):
                if answer.error_code == 0:
                    epoch[0] = answer.member_epoch
                    if answer.assignment is not None:
                        topics[:] = [each.topic_id for each in answer.assignment.topic_partitions]
                    break
            return bool(topics)

        try:
            wait_until(given, what=f"an assignment in {group}", timeout_seconds=WAIT_SECONDS)
        finally:
            list(self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {**body, "member_epoch": -1}))
        return set(topics)

    def _ask(self, api: ApiKey, version: int, body: dict[str, Any]) -> Iterator[Any]:
        """Ask every broker that runs; yield the answers."""
        for address in self._processes.address.split(","):
            with suppress(OSError), WireClient(address) as client:
                yield client.ask(api, version, body)


def _log_names(data: Path) -> set[str]:
    """Return the logs below a broker's directories, without those that are set aside."""
    return {
        each.name
        for each in data.glob("*/*")
        if each.is_dir() and not each.name.endswith(("-delete", "-stray", "-future"))
    }


def _delete_acl(admin: AdminClient, binding: AclBinding) -> bool:
    chosen = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    try:
        admin.delete_acls([chosen])[chosen].result(WAIT_SECONDS)
    except KafkaException:
        return False
    return True
