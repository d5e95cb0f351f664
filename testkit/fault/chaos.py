"""Faults on a cluster of real processes, one after the other, while clients write and read."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from headrace.client.error import ClientError
from headrace.model.error import InvalidArgument
from headrace.testing.readiness import wait_until
from testkit.fault.broken_network import CLIENTS, Point, broker_point, zookeeper_point
from testkit.fault.cluster_process import ClusterProcess
from testkit.fault.history import Anomaly
from testkit.fault.operator_seam import OperatorSeams
from testkit.fault.seam import Seams
from testkit.fault.seam_cluster import SeamCluster
from testkit.fault.small_disk import SmallDisk
from testkit.fault.workload import Workload

_MORE_RECORDS = 10
_WAIT_SECONDS = 120.0
_LOOK_SECONDS = 5.0
_SYNC_ON_THE_LOOP = "event_loop_synced"


@dataclass(slots=True)
class ChaosReport:
    """What was done, and what the clients and the checker say of it."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    acknowledged: int = 0
    transactions: int = 0
    replaced: int = 0
    alone: int = 0
    silences: list[tuple[float, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        rare = self.alone <= max(3, sum(self.faults.values()) // 20)
        answered = self.sent == self.acknowledged
        return not self.failures and not self.anomalies and answered and rare

    def text(self) -> str:
        longest: dict[str, float] = {}
        for seconds, name in self.silences:
            longest[name] = max(seconds, longest.get(name, 0.0))
        faults = "\n".join(
            f"| {name} | {times} | {longest.get(name, 0.0):.1f} s |"
            for name, times in sorted(self.faults.items())
        )
        return (
            "| fault | times | longest wait for acknowledgements |\n"
            f"|---|---:|---:|\n{faults}\n\n"
            f"Seed {self.seed}: {sum(self.faults.values())} faults, {self.sent} records sent, "
            f"{self.acknowledged} acknowledged, {self.transactions} transactions, "
            f"{self.replaced} producers replaced after an abort that no coordinator knew of, "
            f"{len(self.failures)} errors at the clients, {len(self.anomalies)} violations. "
            f"{self.alone} times the only replica in sync was down, and was waited for. A wait "
            "is from a fault, or its end, until every partition has acknowledged records that were "
            "sent later.\n"
        )


class Chaos:
    """Breaks a cluster, mends it, and goes on when clients do.

    A fault begins only when the one before is over and all replicas are in sync: two replicas of
    three must be enough, and one is not. Which faults there are depends on the cluster: network
    cuts need its network, full disks need `disks`, single ZooKeeper servers an ensemble.

    Args:
        rate: how many records per second the workload writes, besides its transactions.
    """

    def __init__(
        self,
        cluster: ClusterProcess,
        topic: str,
        partitions: int,
        seed: int,
        *,
        disks: Mapping[int, SmallDisk] | None = None,
        rate: int = 500,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._disks = dict(disks or {})
        self._random = random.Random(seed)
        self._workload = Workload(cluster.address, topic, partitions, rate=rate)
        self._now = ""
        self._away: set[int] = set()
        self._seam_cluster = SeamCluster(cluster, self._random)
        self._seams = Seams(self._seam_cluster, self._random, self._go_on)
        self._operator_seams = OperatorSeams(self._seam_cluster, self._random, self._go_on)
        self.report = ChaosReport(seed)

    def faults(self) -> dict[str, Callable[[], None]]:
        found: dict[str, Callable[[], None]] = {
            "leader killed": lambda: self._kill(self._leader()),
            "follower killed": lambda: self._kill(self._follower()),
            "controller killed": lambda: self._kill(self._controller()),
            "leader stopped and started": lambda: self._restart(self._leader()),
            "follower stopped and started": lambda: self._restart(self._follower()),
            "leader asleep past its session": lambda: self._sleep(self._leader()),
            "follower asleep past its session": lambda: self._sleep(self._follower()),
            "all ZooKeeper servers killed": self._kill_zookeeper,
        }
        if len(self._cluster.zookeeper.servers) > 2:
            found["ZooKeeper server killed"] = self._kill_zookeeper_server
        if self._cluster.network is not None:
            found |= {
                "two brokers cut off from each other": self._cut_two,
                "leader cut off from brokers and ZooKeeper": lambda: self._isolate(self._leader()),
                "follower cut off from ZooKeeper": lambda: self._cut_zookeeper(self._follower()),
            }
            if self._cluster.network.CUTS_CLIENTS:
                found["leader unplugged"] = lambda: self._isolate(self._leader(), CLIENTS)
        found["replica moved away and back, leader killed"] = self._move_away_and_back
        for name, seam in (self._seams.all() | self._operator_seams.all()).items():
            found[name] = partial(self._cross, seam)
        if self._disks:
            found["leader's disk full"] = lambda: self._fill_disk(self._leader())
            found["follower's disk full"] = lambda: self._fill_disk(self._follower())
        return found

    def kinds(self, only: str = "") -> list[str]:
        """Return the names of the faults that have `only` in them.

        Raises:
            InvalidArgument: there are none; the message lists all names.
        """
        known = list(self.faults())
        kinds = [name for name in known if only in name]
        if not kinds:
            names = "\n  ".join(["write a part of one of:", *known])
            raise InvalidArgument(f"no fault has {only!r} in its name; {names}")
        return kinds

    def run(
        self,
        faults: int,
        only: str = "",
        tell: Callable[[str], None] = lambda _: None,
        enough: Callable[[], bool] = lambda: False,
    ) -> ChaosReport:
        """Make `faults` faults, each kind as often as the others, in an order that the seed gives.

        Args:
            only: faults whose names have this in them.
            enough: it stops early when this returns true.

        Raises:
            InvalidArgument: there are none.
        """
        kinds = self.kinds(only)
        order = [name for _ in range(-(-faults // len(kinds))) for name in kinds][:faults]
        self._random.shuffle(order)
        return self.run_all(order, tell, enough)

    def run_all(
        self,
        order: Sequence[str],
        tell: Callable[[str], None] = lambda _: None,
        enough: Callable[[], bool] = lambda: False,
    ) -> ChaosReport:
        """Make just these faults, one after the other."""
        workload, report, kinds = self._workload, self.report, self.faults()
        with workload.running():
            self._go_on()
            for name in order:
                if enough():
                    break
                self._now = name
                report.faults[name] += 1
                tell(name)
                try:
                    kinds[name]()
                    self._cluster.wait_in_sync(self._topic)
                except (TimeoutError, RuntimeError, ClientError) as error:
                    # What was acknowledged so far is checked all the same.
                    report.failures.append(f"{name}: {error}")
                    self._bring_all_back()
                    break
        self._cluster.wait_in_sync(self._topic)
        report.sent, report.acknowledged = workload.sent, workload.acknowledged
        report.transactions, report.replaced = workload.transactions, workload.replaced
        report.failures += workload.failures
        report.anomalies += workload.history.check(workload.read_all())
        report.anomalies += self._syncs_on_the_loop()
        return report

    def _syncs_on_the_loop(self) -> list[Anomaly]:
        """Return what the brokers say of syncs that their event loops waited for."""
        return [
            Anomaly("sync on the loop", f"broker {number}: {line}")
            for number, broker in self._cluster.brokers.items()
            for line in broker.whole_log.splitlines()
            if _SYNC_ON_THE_LOOP in line
        ]

    def _go_on(self) -> None:
        """Wait until records that are sent from now on are acknowledged, by every partition."""
        began, workload = time.monotonic(), self._workload
        goes_on = workload.goes_on(_MORE_RECORDS)
        look_at = began + _LOOK_SECONDS

        def is_over() -> bool:
            nonlocal look_at
            if workload.has_lost_a_client or goes_on():
                return True
            if time.monotonic() < look_at:
                return False
            look_at = time.monotonic() + _LOOK_SECONDS
            return self._waits_for_the_only_one()

        try:
            wait_until(
                is_over,
                what=f"acknowledged records ({self._now})",
                timeout_seconds=_WAIT_SECONDS,
            )
        except TimeoutError as late:
            raise TimeoutError(f"{late}; {workload}{self._cluster.last_log_lines()}") from None
        if workload.has_lost_a_client:
            raise RuntimeError(f"a client ended ({self._now}): {workload.failures}; {workload}")
        if not goes_on():
            self.report.alone += 1
            return
        self.report.silences.append((time.monotonic() - began, self._now))

    def _waits_for_the_only_one(self) -> bool:
        """Return whether a partition has no leader because all that were in sync with it are away:
        the others were too slow when that happened. Only its return can help then."""
        try:
            metadata = self._cluster.metadata(self._topic)
        except (ClientError, TimeoutError):
            return False
        topic = metadata.topics.get(self._topic)
        brokers = self._cluster.brokers.items()
        away = self._away | {number for number, broker in brokers if not broker.running}
        return topic is not None and any(
            each.leader < 0 and each.in_sync and away.issuperset(each.in_sync)
            for each in topic.partitions.values()
        )

    def _bring_all_back(self) -> None:
        for broker in self._cluster.brokers.values():
            if not broker.running:
                broker.start()

    # -- whom it hits

    def _leader(self) -> int:
        partition = self._random.randrange(3)
        found = self._ask(lambda: self._cluster.leader(self._topic, partition))
        return found if found in self._cluster.brokers else self._any()

    def _follower(self) -> int:
        leader = self._leader()
        return self._random.choice([each for each in self._cluster.brokers if each != leader])

    def _controller(self) -> int:
        found = self._ask(lambda: self._cluster.metadata(self._topic).controller)
        return found if found in self._cluster.brokers else self._any()

    def _ask(self, question: Callable[[], int]) -> int:
        """Return -1 when the broker that was asked does not know itself."""
        try:
            return question()
        except ClientError:
            return -1

    def _any(self) -> int:
        return self._random.choice(list(self._cluster.brokers))

    def _wait_until_counted_out(self, number: int) -> None:
        others = [each for each in self._cluster.brokers if each != number]

        def gone() -> bool:
            try:
                return number not in self._cluster.metadata(self._topic, asked=others).brokers
            except ClientError:
                return False

        wait_until(gone, what=f"the end of broker {number}'s session", timeout_seconds=60)

    def _is_out_of_sync(self, number: int) -> bool:
        try:
            found = self._cluster.metadata(self._topic).topics[self._topic]
        except ClientError:
            return False
        return all(number not in each.in_sync for each in found.partitions.values())

    # -- what happens to it

    def _kill(self, number: int) -> None:
        self._cluster.broker(number).kill()
        self._go_on()
        self._cluster.broker(number).start()
        self._go_on()

    def _restart(self, number: int) -> None:
        self._cluster.broker(number).stop()
        self._go_on()
        self._cluster.broker(number).start()
        self._go_on()

    def _sleep(self, number: int) -> None:
        pid = self._cluster.broker(number).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            self._wait_until_counted_out(number)
            self._away = {number}
            self._go_on()
        finally:
            self._away = set()
            os.kill(pid, signal.SIGCONT)
        self._go_on()

    def _kill_zookeeper(self) -> None:
        self._cluster.zookeeper.kill()
        self._go_on()
        self._cluster.zookeeper.start()
        self._go_on()

    def _kill_zookeeper_server(self) -> None:
        server = self._random.choice(list(self._cluster.zookeeper.servers.values()))
        server.kill()
        self._go_on()
        server.start()
        self._go_on()

    def _cut_two(self) -> None:
        one, other = self._random.sample(list(self._cluster.brokers), 2)
        self._cut(broker_point(one), broker_point(other))

    def _isolate(self, number: int, *more: Point) -> None:
        """Cut a broker off from the others. Clients reach it, unless they are cut off too. It
        takes records that it can never commit: those must vanish."""
        others = [broker_point(each) for each in self._cluster.brokers if each != number]
        others += [*self._zookeepers(), *more]
        self._cut(broker_point(number), *others, counted_out=number)

    def _cut_zookeeper(self, number: int) -> None:
        self._cut(broker_point(number), *self._zookeepers(), counted_out=number)

    def _zookeepers(self) -> list[str]:
        return [zookeeper_point(each) for each in self._cluster.zookeeper.servers]

    def _cut(self, one: str, *others: str, counted_out: int | None = None) -> None:
        network = self._cluster.network
        assert network is not None
        network.cut(one, *others)
        try:
            if counted_out is not None:
                self._wait_until_counted_out(counted_out)
                self._away = {counted_out}
            self._go_on()
        finally:
            self._away = set()
            network.mend()
        self._go_on()

    def _cross(self, seam: Callable[[], list[Anomaly]]) -> None:
        """Break the cluster where two features meet, and note what must not be."""
        self.report.anomalies += seam()
        self._go_on()

    def _move_away_and_back(self) -> None:
        """Move the replica of one broker away from a partition of the workload, and back."""
        partition = self._random.randrange(3)
        everyone = sorted(self._cluster.brokers)
        gone = self._follower()
        self._seam_cluster.move(self._topic, partition, [each for each in everyone if each != gone])
        # Two are left, and two must be in sync: no broker may be killed now.
        self._go_on()
        self._seam_cluster.move(self._topic, partition, everyone)
        self._kill(self._leader())

    def _fill_disk(self, number: int) -> None:
        """Fill a disk. A broker whose disk was full is started again, as Kafka's would be."""
        disk = self._disks[number]
        disk.fill()
        try:
            wait_until(lambda: self._is_out_of_sync(number), what="a full disk", timeout_seconds=60)
            self._go_on()
        finally:
            disk.make_room()
        self._cluster.broker(number).stop()
        self._cluster.broker(number).start()
        self._go_on()
