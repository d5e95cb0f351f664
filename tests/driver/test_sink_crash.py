"""Whole drivers, killed with kill -9 at random points: output equals input, each record once.

A driver takes many seconds of processor time to start, so a plain run kills a few of them, at
points that differ from run to run; `HEADRACE_DRIVER_KILLS=20` kills as many as that. What a commit
leaves when it ends at any single one of its requests is in `test_sink_commit.py`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.process.child import die_with_parent
from headrace.testing.broker_process import BrokerProcess
from headrace.testing.readiness import wait_until
from headrace.testing.spark_driver import run_driver
from headrace.testing.spark_session import spark_environment
from headrace.testing.transactional import read_to_end

DRIVER = Path(__file__).with_name("program") / "sink.py"
KILLS = int(os.environ.get("HEADRACE_DRIVER_KILLS", "2"))
PARTITIONS = 2
BATCH_ROWS = 10
_START_SECONDS = 300.0
# About what a micro-batch takes once its offsets are written down.
_BATCH_SECONDS = 1.0


class Copy:
    """A query that copies one topic to another, in drivers that come and go."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._checkpoint = folder / "checkpoint"
        self._drivers = 0
        self.source, self.target = "crash-source", "crash-target"
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = [NewTopic(each, PARTITIONS, 1) for each in (self.source, self.target)]
        for made in admin.create_topics(topics).values():
            made.result(10)
        self.written: list[bytes] = []
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
        self._task = {
            "address": broker.address,
            "folder": str(folder),
            "checkpoint": str(self._checkpoint),
            "batch_rows": BATCH_ROWS,
            "source": self.source,
            "target": self.target,
        }

    def feed(self, batches: int) -> None:
        for _ in range(batches * BATCH_ROWS):
            value = b"record %d" % len(self.written)
            self.written.append(value)
            self._producer.produce(self.source, value, partition=len(self.written) % PARTITIONS)
        assert self._producer.flush(30) == 0

    @contextmanager
    def driver(self) -> Iterator[None]:
        """A driver, once it has begun a batch; killed, with its Java process, at the end."""
        self._drivers += 1
        begun = self.log("offsets")
        log = self._folder / f"driver-{self._drivers}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(DRIVER), json.dumps(self._task)],
                env={**os.environ, **spark_environment()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
            try:
                wait_until(
                    lambda: self.log("offsets") != begun or process.poll() is not None,
                    what="a batch of the driver",
                    timeout_seconds=_START_SECONDS,
                )
                yield
                assert process.poll() is None, log.read_text()[-4000:]
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)

    def finish(self) -> None:
        run_driver(DRIVER, self._task, timeout_seconds=_START_SECONDS)

    def log(self, name: str) -> set[str]:
        """Spark's own log in the checkpoint: of `offsets`, which are written down before a batch,
        or of `commits`, which are behind it."""
        return {path.name for path in (self._checkpoint / name).glob("*") if path.name.isdigit()}

    def target_end(self) -> list[tuple[int, int]]:
        """Where the target topic ends, with what is not committed."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.address,
                "group.id": "looks-at-the-end",
                "isolation.level": "read_uncommitted",
            }
        )
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(self.target, partition), 10)
                for partition in range(PARTITIONS)
            ]
        finally:
            consumer.close()


def wait_for_a_moment_to_die(copy: Copy, chance: random.Random) -> None:
    """While a batch runs: at any time, or just when the sink or Spark has written something."""
    match chance.choice(["anywhere", "rows", "committed"]):
        case "anywhere":
            time.sleep(chance.uniform(0, _BATCH_SECONDS))
        case "rows":
            before = copy.target_end()
            wait_until(
                lambda: copy.target_end() != before, what="rows", timeout_seconds=_START_SECONDS
            )
        case "committed":
            commits = copy.log("commits")
            wait_until(
                lambda: copy.log("commits") != commits,
                what="commits",
                timeout_seconds=_START_SECONDS,
            )


@pytest.mark.timeout(KILLS * 300 + 600)
def test_output_equals_input_whenever_the_driver_is_killed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    copy = Copy(broker, tmp_path)

    for _ in range(KILLS):
        copy.feed(batches=2)
        with copy.driver():
            wait_for_a_moment_to_die(copy, chance)
    copy.finish()

    found = read_to_end(broker.address, copy.target, range(PARTITIONS))
    assert Counter(found) == Counter(copy.written), f"seed {seed}"
