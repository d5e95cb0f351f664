"""A topology with state, its driver killed with kill -9: every total once, and every total right.

A driver takes long to start, so a plain run kills one; `HEADRACE_DRIVER_KILLS=10` kills as many.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.audit.confluent import AuditedProducer
from headrace.audit.feed import read_audit
from headrace.audit.reconciliation import Reconciliation, Row
from headrace.audit.reporter import Reporter
from headrace.audit.tally import Tally
from headrace.client.settings import ClientSettings
from headrace.process.child import die_with_parent
from headrace.testing.broker_process import BrokerProcess
from headrace.testing.readiness import wait_until
from headrace.testing.spark_driver import run_driver
from headrace.testing.spark_session import spark_environment
from headrace.testing.transactional import read_to_end

DRIVER = Path(__file__).with_name("program") / "topology.py"
KILLS = int(os.environ.get("HEADRACE_DRIVER_KILLS", "1"))
BATCH_ROWS = 20
BUCKET_MS = 10_000
_START_SECONDS = 300.0


class Counting:
    """A word count in drivers that come and go."""

    def __init__(self, broker: BrokerProcess, folder: Path, topic: str) -> None:
        self._address, self._folder = broker.address, folder
        self.source, self.target = f"{topic}-in", f"{topic}-out"
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = [NewTopic(each, 1, 1) for each in (self.source, self.target)]
        for made in admin.create_topics(topics).values():
            made.result(10)
        self.fed: Counter[str] = Counter()
        self._audit_topic = f"{topic}-audit"
        self._sent = Tally("producer", bucket_ms=BUCKET_MS)
        config = {"bootstrap.servers": broker.address, "linger.ms": 0}
        self._producer = AuditedProducer(config, self._sent)
        self.task = {
            "address": broker.address,
            "folder": str(folder),
            "checkpoint": str(folder / "checkpoint"),
            "batch_rows": BATCH_ROWS,
            "source": self.source,
            "target": self.target,
            "guarantee": "exactly-once",
            "settings": {
                "audit": "on",
                "audit.topic": self._audit_topic,
                "audit.bucketMs": str(BUCKET_MS),
            },
        }

    def feed(self, batches: int, chance: random.Random) -> None:
        for _ in range(batches * BATCH_ROWS):
            word = chance.choice("abcdefgh")
            self.fed[word] += 1
            self._producer.produce(self.source, word)
        assert self._producer.flush(30) == 0

    def audit(self) -> list[Row]:
        """What was sent, and what of it the topology has counted."""
        settings = ClientSettings.of({"bootstrap.servers": self._address})
        Reporter(self._sent, settings, topic=self._audit_topic).report()
        found = Reconciliation()
        found.add(read_audit(settings, 0, self._audit_topic))
        return found.rows(now_ms=2**60, grace_ms=0)

    @contextmanager
    def driver(self, number: int) -> Iterator[subprocess.Popen[bytes]]:
        """A driver; killed, with its Java process, at the end."""
        log = self._folder / f"driver-{number}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(DRIVER), json.dumps(self.task)],
                env={**os.environ, **spark_environment()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
            try:
                yield process
                assert process.poll() is None, log.read_text()[-4000:]
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)

    def noted(self, log: str) -> int:
        """How many batches Spark has begun (`offsets`) or finished (`commits`)."""
        folder = self._folder / "checkpoint" / log
        return sum(path.name.isdigit() for path in folder.glob("*"))

    def wait_for(self, log: str, count: int, process: subprocess.Popen[bytes]) -> None:
        wait_until(
            lambda: self.noted(log) >= count or process.poll() is not None,
            what=f"{count} {log}",
            timeout_seconds=_START_SECONDS,
        )


@pytest.mark.timeout(KILLS * 300 + 600)
def test_totals_are_right_and_written_once_whenever_the_driver_is_killed(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    counting = Counting(broker, tmp_path, topic)

    for number in range(KILLS):
        counting.feed(batches=4, chance=chance)
        done = counting.noted("commits")
        with counting.driver(number) as process:
            # In the middle of a batch whose state may be written and whose totals may be out, or
            # right behind one.
            counting.wait_for(chance.choice(["offsets", "commits"]), done + 2, process)
    counting.feed(batches=1, chance=chance)
    run_driver(DRIVER, counting.task, timeout_seconds=_START_SECONDS)

    totals: defaultdict[str, list[int]] = defaultdict(list)
    for row in map(json.loads, read_to_end(broker.address, counting.target)):
        totals[row["word"]].append(row["n"])
    assert {word: max(each) for word, each in totals.items()} == dict(counting.fed), f"seed {seed}"
    for word, each in totals.items():
        assert each == sorted(set(each)), f"{word} was written twice or out of order, seed {seed}"
    rows = counting.audit()
    assert sum(row.sent for row in rows) == counting.fed.total()
    counted = {(tier.tier, tier.percent) for row in rows for tier in row.tiers}
    assert counted == {("crash", 100.0)}, f"seed {seed}"
