"""A flow on a standalone cluster of Spark, with a login at the broker, loses an executor and then a
whole worker in the middle of batches; each record counts once.

The driver is the process of `headrace flow run`. The master and two workers are processes of their
own; the workers share no folder but the one of the checkpoint, which is a file:/// as on a mount.
"""

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE
from headrace.process.die_with_parent import die_with_parent
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.spark_archive import spark_java_options
from testkit.peer.spark_cluster import EXECUTOR_MEMORY, SparkCluster
from testkit.peer.spark_session import quiet_config, spark_environment
from testkit.process.broker_process import BrokerProcess

PROGRAM = Path(__file__).with_name("program") / "standalone_words.py"
PASSWORD = "apple"
ROWS = 60
SECONDS = 400.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    try:
        with SparkCluster(tmp_path / "spark") as running:
            yield running
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        **QUICK_SETTINGS,
        # The open one is for the test, the other for the flow.
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    with BrokerProcess(tmp_path / "broker", settings) as running:
        yield running


class Flow:
    """The words that were sent, the driver of the flow, and the totals that it wrote."""

    def __init__(self, cluster: SparkCluster, broker: BrokerProcess, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._checkpoint = folder / "mount" / "words"
        self._log = folder / "run.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._words: Counter[str] = Counter()
        self._totals: defaultdict[str, list[int]] = defaultdict(list)
        self._prepare(broker)

    def _prepare(self, broker: BrokerProcess) -> None:
        """Make the topics and the user, and write the user's login into a file."""
        listening = re.search(r"listens on (\S+), (\S+)", broker.log)
        assert listening is not None
        client = {"bootstrap.servers": listening[1]}
        admin = AdminClient(client)
        topics = [NewTopic("words", 2, 1), NewTopic("totals", 1, 1)]
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("anna", scram, PASSWORD.encode())
        for done in (
            *admin.create_topics(topics).values(),
            *admin.alter_user_scram_credentials([user]).values(),
        ):
            done.result(60)
        self._producer = Producer({**client, "linger.ms": 0})
        self._consumer = Consumer({**client, "group.id": "test"})
        self._consumer.assign([TopicPartition("totals", 0, 0)])
        (self._folder / "login.properties").write_text(
            f"bootstrap.servers={listening[2]}\n"
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f"sasl.username=anna\nsasl.password={PASSWORD}\n"
        )

    def start(self) -> None:
        settings = {
            **quiet_config(self._folder),
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.extraJavaOptions": " ".join(spark_java_options()),
        }
        options = ["--master", self._cluster.url, "--checkpoint", self._checkpoint.as_uri()]
        command = [sys.executable, "-m", "headrace.cli.main", "flow", "run", str(PROGRAM)]
        pairs = [f"-X{key}={value}" for key, value in settings.items()]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, *options, *pairs],
                env={
                    **os.environ,
                    **spark_environment(),
                    FOLDER_VARIABLE: str(self._folder / "flows"),
                    CLIENT_CONFIG_VARIABLE: str(self._folder / "login.properties"),
                },
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )

    def feed(self, chance: random.Random) -> None:
        for _ in range(ROWS):
            word = chance.choice("abcdefgh")
            self._words[word] += 1
            self._producer.produce("words", key=word)
        assert self._producer.flush(60) == 0

    def in_the_middle(self, what: str, kill: Callable[[], None], chance: random.Random) -> None:
        """Kill while a batch runs that has begun since, and go on until all is counted."""
        before = self._batches("offsets")
        self.feed(chance)
        self.wait(f"a batch for {what}", lambda: self._batches("offsets") > before)
        kill()
        self.feed(chance)
        self.wait_until_counted(f"the words after {what}")

    def totals(self) -> dict[str, list[int]]:
        """Return the committed totals of each word, in the order in which they were written."""
        while (message := self._consumer.poll(0.2)) is not None:
            assert message.error() is None, message.error()
            row = json.loads(message.value() or b"")
            self._totals[row["word"]].append(row["n"])
        return self._totals

    def wait_until_counted(self, what: str) -> None:
        def counted() -> bool:
            return {word: numbers[-1] for word, numbers in self.totals().items()} == self._words

        self.wait(what, counted)

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition, while the driver runs."""
        process = self._process
        assert process is not None

        def holds() -> bool:
            assert process.poll() is None, self._log.read_text()
            return condition()

        try:
            wait_until(holds, what=what, timeout_seconds=SECONDS)
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{self._cluster.logs()}") from None

    def stop(self) -> int:
        """Stop as Ctrl-C does, and return the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(SECONDS)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _batches(self, log: str) -> int:
        """Return how many batches Spark has begun (`offsets`) or finished (`commits`)."""
        return sum(1 for path in (self._checkpoint / log).glob("*") if path.name.isdigit())


@pytest.fixture
def flow(cluster: SparkCluster, broker: BrokerProcess, tmp_path: Path) -> Iterator[Flow]:
    made = Flow(cluster, broker, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(1800)
def test_a_flow_counts_every_record_once_although_executors_and_a_worker_are_killed(
    flow: Flow, cluster: SparkCluster
) -> None:
    chance = random.Random(15)
    flow.feed(chance)
    flow.start()
    flow.wait_until_counted("the first words")
    # One executor may have counted them all before the other one was up.
    flow.wait(
        "an executor on each worker",
        lambda: [len(cluster.executors(worker)) for worker in (0, 1)] == [1, 1],
    )

    flow.in_the_middle("the executor", lambda: cluster.kill_executor(0), chance)
    flow.in_the_middle("the worker", lambda: cluster.kill_worker(1), chance)

    wait_until(lambda: cluster.executors(1) == [], what="the end of the worker's executors")
    for numbers in flow.totals().values():
        assert numbers == sorted(set(numbers))
    assert flow.stop() == 0
