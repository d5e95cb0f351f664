"""One run of `headrace cluster restart`: the brokers of one `headrace up`, one after the other.

Rule 1: a broker is restarted only while the cluster is whole: every broker serves, and every
partition has a leader and all replicas in sync. Brokers may learn of a change a moment late, so all
of them are asked. The one that was just restarted has read the cluster's state since: if it says
that it is in sync everywhere, the others did not just miss that it was away. Each of them must also
read the cluster's store: without ZooKeeper a broker that ends could not join again.
It must not be moving partitions either: a move that loses its source or target begins again.
Rule 2: it is restarted only if every partition can be written to without it.
Rule 3: what does not come about in time ends the command with the reason, and no further broker is
touched. A broker that was asked to restart comes back by itself (`cli.supervisor`). One that hangs
in its hand-over is killed by the supervisor; the command ends when it is back, with exit code 3.
Rule 4: the controller is the last one, so that it moves once.
Rule 5: one restart at a time goes on in a cluster (`restart_lock`): two that saw a whole cluster at
the same moment would each take a broker away.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from headrace.cli.cluster_health import troubled_partitions
from headrace.cli.supervisor.broker_count import broker_folder
from headrace.cli.supervisor.restart_lock import RestartLock
from headrace.cli.supervisor.supervisor_socket import ask_supervisor
from headrace.client.admin.admin import Admin
from headrace.client.admin.held_partition import hidden_partitions, listed
from headrace.client.admin.replica_admin import ReplicaAdmin
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.log.filesystem import Disk
from headrace.log.meta_properties import MetaProperties
from headrace.model.config_code import ConfigResourceType
from headrace.model.error import StorageError
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_POLL_SECONDS = 0.2
_NAMES_PER_REQUEST = 500
_MIN_IN_SYNC = "min.insync.replicas"
# Another election was faster, or the topic was deleted meanwhile.
_NO_ELECTION = (ErrorCode.election_not_needed, ErrorCode.unknown_topic_or_partition)


@dataclass(frozen=True, slots=True)
class _Status:
    """What the supervisor says of a broker: how often it was started and killed, and whether it
    serves."""

    starts: int
    ready: bool
    kills: int


class RollingRestart:
    """One run of the command.

    Args:
        home: the data directory of the supervisor.
        settings: those of the clients that look at the cluster.
        timeout: seconds to wait for each broker to serve, and to be in sync.
        hand_over: seconds that a broker has to hand over its leaders and end, before it is killed.
        cluster_id: that of the supervisor's brokers. Another cluster at the address of `settings`
            could be whole while theirs is not, so it is refused. None: it is not compared.
        lock: fences other restarts off. None: there are none.

    Attributes:
        killed: the brokers that did not end in time.
    """

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str],
        timeout: float,
        *,
        hand_over: float = 120.0,
        cluster_id: str | None = None,
        allow_unavailable: bool = False,
        lock: RestartLock | None = None,
    ) -> None:
        self._home = home
        self._cluster_id = cluster_id
        self._settings = dict(settings)
        self._timeout = timeout
        self._hand_over = hand_over
        self._allow_unavailable = allow_unavailable
        self._lock = lock
        self.killed: list[int] = []
        self._addresses: dict[int, str] = {}

    def check(self, numbers: Sequence[int]) -> list[int]:
        """Return the brokers in the order of their restart, if all of them can be restarted.

        Raises:
            ClientError: it is another cluster, is not whole, or cannot do without one of them.
        """
        with ConnectionPool(ClientSettings.of(self._settings)) as pool:
            metadata = pool.metadata()
            if self._cluster_id not in (None, metadata.cluster_id):
                raise ClientError(
                    f"no broker is restarted: the brokers in {self._home} belong to cluster "
                    f"{self._cluster_id}, and {self._settings['bootstrap.servers']} is cluster "
                    f"{metadata.cluster_id}: leave -b out, or name the cluster of this --data"
                )
            for number in numbers:
                if number not in metadata.brokers:
                    raise ClientError(
                        f"there is no broker {number}: the cluster has {sorted(metadata.brokers)}"
                    )
            self._check_all_visible(pool, numbers)
            self._addresses = {
                number: str(each.address) for number, each in metadata.brokers.items()
            }
            problem = self._problem()
            if problem is not None:
                raise ClientError(f"no broker is restarted: {problem}")
            for number in numbers:
                self._check_available(pool, metadata, number)
        return sorted(set(numbers), key=lambda each: (each == metadata.controller, each))

    def restart(self, number: int) -> dict[str, Any]:
        """Restart one broker, and return when the cluster is whole again.

        Raises:
            ClientError: the cluster cannot do without it, or it does not serve, or is not in sync,
                in time.
        """
        # Again: something else may have happened while the broker before was restarted.
        self._wait(self._problem, f"broker {number} is not restarted, the cluster is not whole")
        with ConnectionPool(ClientSettings.of(self._settings)) as pool:
            self._check_available(pool, pool.metadata(), number)
        before = self._status(number)
        if self._lock is not None:
            self._lock.check()
        began = time.monotonic()
        ask_supervisor(
            self._home,
            {"command": "restart", "broker": number, "hand_over_seconds": self._hand_over},
        )

        def away() -> str | None:
            now = self._status(number)
            if now.kills > before.kills and number not in self.killed:
                self.killed.append(number)
            return None if now.ready and now.starts > before.starts else "it does not serve"

        self._wait(
            away,
            f"broker {number} has not come back: see its lines in the output of headrace up",
            self._hand_over + self._timeout,
        )
        served = time.monotonic()
        state = "was killed because it did not end, and" if self.killed else "serves again, but"
        self._wait(self._problem, f"broker {number} {state} the cluster is not whole")
        return {
            "broker": number,
            "away_seconds": round(served - began, 3),
            "in_sync_seconds": round(time.monotonic() - began, 3),
            "killed": number in self.killed,
        }

    def balance_leaders(self, restarted: Collection[int]) -> str | None:
        """Let the restarted brokers lead again what they led: they lead nothing when they come
        back. Return why they do not lead all of it; the restart is done all the same."""
        try:
            with ConnectionPool(ClientSettings.of(self._settings)) as pool:
                wanted = to_lead_again(pool.metadata(), restarted)
                found = ReplicaAdmin(pool).elect(wanted) if wanted else {}
        except ClientError as error:
            return str(error)
        failed = [
            f"{partition}: {error}"
            for partition, error in sorted(found.items())
            if error is not None and error.code not in _NO_ELECTION
        ]
        return listed(failed) if failed else None

    def _status(self, number: int) -> "_Status":
        status = ask_supervisor(self._home, {"command": "status"})
        found = next((each for each in status["brokers"] if each["id"] == number), None)
        if found is None:
            raise ClientError(f"broker {number} is not one of the headrace up in {self._home}")
        return _Status(found["starts"], found["ready"], found["kills"])

    def _wait(
        self, problem: Callable[[], str | None], failure: str, seconds: float | None = None
    ) -> None:
        limit = self._timeout if seconds is None else seconds
        deadline = time.monotonic() + limit
        while (found := problem()) is not None:
            if time.monotonic() > deadline:
                raise ClientError(
                    f"{failure} after {limit:g} s: {found}. The other brokers are not "
                    "touched; run the command again when headrace cluster health is good"
                )
            time.sleep(_POLL_SECONDS)

    def _problem(self) -> str | None:
        """Return why the cluster is not whole, as one of the brokers sees it (rule 1)."""
        for number, address in self._addresses.items():
            settings = ClientSettings.of({**self._settings, "bootstrap.servers": address})
            try:
                with ConnectionPool(settings) as pool:
                    metadata = pool.metadata()
                    missing = sorted(set(self._addresses) - set(metadata.brokers))
                    unread = None if missing else store_problem(pool, number)
                    moving = [] if missing or unread else sorted(ReplicaAdmin(pool).moves())
            except ClientError as error:
                return f"broker {number} does not answer: {error}"
            if unread is not None:
                return f"broker {number} does not show that it reads ZooKeeper: {unread}"
            if missing:
                return f"broker {missing[0]} is missing in the cluster, says broker {number}"
            if metadata.controller not in metadata.brokers:
                return f"there is no controller, says broker {number}"
            if moving:
                return f"partitions are being moved: {listed(moving)}"
            for name, found in troubled_partitions(metadata).items():
                if found:
                    return f"{name.replace('_', ' ')}: {listed(found)}"
        return None

    def _check_all_visible(self, pool: ConnectionPool, numbers: Sequence[int]) -> None:
        """Refuse a user that does not see all topics: what it does not see is not checked."""
        hidden = hidden_partitions(pool, numbers)
        if hidden:
            raise ClientError(
                f"no broker is restarted: {listed(hidden)} cannot be seen by this user, so that "
                "nothing says whether all replicas are in sync. Log in as one who may describe all "
                "topics; if a topic was deleted just now, run the command again"
            )

    def _check_available(self, pool: ConnectionPool, metadata: Metadata, number: int) -> None:
        if self._allow_unavailable:
            return
        names = sorted(
            topic.name
            for topic in metadata.topics.values()
            if any(number in each.replicas for each in topic.partitions.values())
        )
        stuck = unavailable_without(metadata, number, min_in_sync(pool, names))
        if stuck:
            raise ClientError(
                f"broker {number} is not restarted: {listed(stuck)} could not be written to "
                f"meanwhile, because fewer than {_MIN_IN_SYNC} replicas would be left. Add "
                "replicas, or accept that with --allow-unavailable"
            )


def to_lead_again(metadata: Metadata, brokers: Collection[int]) -> list[TopicPartition]:
    """Return the partitions that others lead although one of these brokers is to (KIP-460)."""
    return [
        topic.partition(index)
        for _, topic in sorted(metadata.topics.items())
        for index, each in sorted(topic.partitions.items())
        if each.replicas and each.replicas[0] in brokers and each.leader != each.replicas[0]
    ]


def cluster_of(home: Path, brokers: Sequence[int]) -> str:
    """Return the id of the cluster that the brokers of a supervisor belong to.

    Their directories say it: no address, login or certificate can be mistaken.

    Raises:
        ClientError: none of them says so, or they cannot be read.
    """
    for number in brokers:
        try:
            found = MetaProperties.read(Disk(), broker_folder(home, number))
        except (OSError, StorageError) as error:
            raise ClientError(f"the cluster of broker {number} cannot be read: {error}") from error
        if found is not None and found.cluster_id:
            return found.cluster_id
    raise ClientError(f"no broker in {home} has joined a cluster yet: try again when they serve")


def unavailable_without(
    metadata: Metadata, broker: int, min_in_sync: Mapping[str, int]
) -> list[str]:
    """Return the partitions that take no records with acks=all while a broker is away.

    Args:
        min_in_sync: `min.insync.replicas` by topic; a topic with fewer replicas needs all it has,
            and one that is not named was deleted meanwhile.
    """
    return [
        str(topic.partition(index))
        for _, topic in sorted(metadata.topics.items())
        for index, each in sorted(topic.partitions.items())
        if topic.name in min_in_sync
        and broker in each.replicas
        and len(set(each.in_sync) - {broker})
        < max(1, min(min_in_sync[topic.name], len(each.replicas)))
    ]


def store_problem(pool: ConnectionPool, broker: int) -> str | None:
    """Return why a broker cannot read the cluster's store, None if it can.

    A broker reads the store before it says that a partition is unknown to an election. It says
    nothing to a user who may not alter the cluster.
    """
    nowhere = TopicPartition(f"no-such-topic-{uuid4()}", 0)
    try:
        found = ReplicaAdmin(pool).elect([nowhere], broker=broker).get(nowhere)
    except BrokerError as refused:
        found = refused
        if refused.code == ErrorCode.cluster_authorization_failed:
            return "log in as a user who may alter the cluster (-X)"
    if found is None:
        return "it does not answer what it was asked"
    return None if found.code == ErrorCode.unknown_topic_or_partition else str(found)


def min_in_sync(pool: ConnectionPool, names: Sequence[str]) -> dict[str, int]:
    """Return `min.insync.replicas` by topic, without topics that are gone."""
    found: dict[str, int] = {}
    for at in range(0, len(names), _NAMES_PER_REQUEST):
        part = names[at : at + _NAMES_PER_REQUEST]
        described = Admin(pool).describe_configs(ConfigResourceType.TOPIC, part)
        for name, entries in described.items():
            if isinstance(entries, BrokerError):
                if entries.code == ErrorCode.unknown_topic_or_partition:
                    continue  # deleted since
                raise ClientError(f"cannot describe the configuration of topic {name}: {entries}")
            values = [each.value for each in entries if each.name == _MIN_IN_SYNC]
            found[name] = int(values[0] or 1) if values else 1
    return found
