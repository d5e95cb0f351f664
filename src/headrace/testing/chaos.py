"""Faults on a cluster of real processes, one after the other, while clients write and read."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.testing.cluster_process import ClusterProcess
from headrace.testing.history import Anomaly
from headrace.testing.readiness import wait_until
from headrace.testing.workload import Workload

_MORE_RECORDS = 30


@dataclass(slots=True)
class ChaosReport:
    """What was done, and what the clients and the checker say of it."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    acknowledged: int = 0
    longest_silence_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.failures and not self.anomalies and self.sent == self.acknowledged

    def text(self) -> str:
        faults = "\n".join(f"| {name} | {times} |" for name, times in sorted(self.faults.items()))
        return (
            f"| fault | times |\n|---|---|\n{faults}\n\n"
            f"Seed {self.seed}: {sum(self.faults.values())} faults, {self.sent} records sent, "
            f"{self.acknowledged} acknowledged, {len(self.failures)} errors at the producer, "
            f"{len(self.anomalies)} violations. Longest wait from a fault to the next acknowledged "
            f"records: {self.longest_silence_seconds:.1f} s.\n"
        )


class Chaos:
    """Breaks a cluster, mends it, and goes on when clients do.

    A fault begins only when the one before is over and all replicas are in sync: two replicas of
    three must be enough, and one is not.
    """

    def __init__(self, cluster: ClusterProcess, topic: str, partitions: int, seed: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._random = random.Random(seed)
        self._workload = Workload(cluster.address, topic, partitions)
        self.report = ChaosReport(seed)
        self._faults: list[tuple[str, Callable[[], None]]] = [
            ("leader killed", lambda: self._kill(self._leader())),
            ("follower killed", lambda: self._kill(self._follower())),
            ("leader stopped and started", lambda: self._restart(self._leader())),
            ("follower stopped and started", lambda: self._restart(self._follower())),
            ("leader asleep past its session", lambda: self._sleep(self._leader())),
            ("follower asleep past its session", lambda: self._sleep(self._follower())),
            ("ZooKeeper killed", self._kill_zookeeper),
        ]

    def run(self, faults: int) -> ChaosReport:
        workload, report = self._workload, self.report
        with workload.running():
            self._go_on()
            for _ in range(faults):
                name, fault = self._random.choice(self._faults)
                report.faults[name] += 1
                fault()
                self._cluster.wait_in_sync(self._topic)
        self._cluster.wait_in_sync(self._topic)
        report.sent, report.acknowledged = workload.sent, workload.acknowledged
        report.failures = workload.failures
        report.anomalies = workload.history.check(workload.read_all())
        return report

    def _go_on(self) -> None:
        """Wait until records that are sent from now on are acknowledged."""
        began = time.monotonic()
        wanted = self._workload.sent + _MORE_RECORDS
        wait_until(
            lambda: self._workload.acknowledged > wanted,
            what="acknowledged records",
            timeout_seconds=90,
        )
        silence = time.monotonic() - began
        self.report.longest_silence_seconds = max(self.report.longest_silence_seconds, silence)

    def _leader(self) -> int:
        return self._cluster.leader(self._topic)

    def _follower(self) -> int:
        leader = self._leader()
        return self._random.choice([each for each in self._cluster.brokers if each != leader])

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
            self._go_on()
        finally:
            os.kill(pid, signal.SIGCONT)
        self._go_on()

    def _kill_zookeeper(self) -> None:
        self._cluster.zookeeper.kill()
        self._go_on()
        self._cluster.zookeeper.start()
        self._go_on()
