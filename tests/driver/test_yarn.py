"""A flow on YARN, with its checkpoint on HDFS and a login at the broker, loses its executor; each
record counts once.

All of it runs on this machine: a real ResourceManager, two NodeManagers and an HDFS in one Java
process, and a process per container. A new driver costs as much as all the rest, so a plain run
kills an executor only; `HEADRACE_YARN_KILLS=20` kills executors and drivers in turn.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.process.die_with_parent import die_with_parent
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.peer.certificate import Certificate
from testkit.peer.java import SHORT_RUN
from testkit.peer.mini_yarn import MiniYarn
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess

PROGRAM = Path(__file__).with_name("program") / "yarn_words.py"
KILLS = int(os.environ.get("HEADRACE_YARN_KILLS", "1"))
SECONDS = float(os.environ.get("HEADRACE_YARN_SECONDS", "300"))
ROWS = 60
# The driver is killed in every second turn, and YARN starts it again. On a busy machine a Python
# process may not respond to Spark in ten seconds, which costs a driver too.
ATTEMPTS = KILLS // 2 + 3
# Of the installed package: Python would compile a zip again in every process.
PYSPARK = f"local:{Path(pyspark.__file__).parent.parent}"


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[MiniYarn]:
    try:
        with MiniYarn(tmp_path / "yarn", master_attempts=ATTEMPTS) as running:
            yield running
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def login(tmp_path: Path) -> dict[str, str]:
    """What a client needs, with Kafka's names."""
    try:
        made = Certificate.make(tmp_path)
    except PeerMissing as missing:
        require_peer(str(missing))
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(made.certificate),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "anna",
        "sasl.password": "apple",
    }


@pytest.fixture
def broker(tmp_path: Path, login: dict[str, str]) -> Iterator[BrokerProcess]:
    users = tmp_path / "users"
    users.write_text(f"{login['sasl.username']}={login['sasl.password']}")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        # The open one answers the question whether the broker is up.
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "ssl.keystore.location": str(tmp_path / "localhost.pem"),
    }
    with BrokerProcess(tmp_path / "broker", settings) as running:
        yield running


class Flow:
    """The words that were sent, the flow in the cluster, and the totals that it wrote."""

    def __init__(
        self, yarn: MiniYarn, broker: BrokerProcess, login: dict[str, str], folder: Path
    ) -> None:
        self.name = "yarn-words"
        self._yarn, self._folder = yarn, folder
        listening = re.search(r"listens on (\S+), (\S+)", broker.log)
        assert listening is not None
        self._client = {"bootstrap.servers": listening.group(2), **login}
        self._words: Counter[str] = Counter()
        self._producer = Producer({**self._client, "linger.ms": 0})
        admin = AdminClient(self._client)
        topics = [NewTopic(f"{self.name}-in", 2, 1), NewTopic(f"{self.name}-totals", 1, 1)]
        for created in admin.create_topics(topics).values():
            created.result(60)
        self._totals: defaultdict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer({**self._client, "group.id": "test"})
        self._consumer.assign([TopicPartition(f"{self.name}-totals", 0, 0)])

    def submit(self) -> None:
        """Return when YARN has accepted the flow."""
        properties = self._folder / "login.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._client.items()))
        arguments = ["--master", "yarn", "--deploy-mode", "cluster", "-X", f"prefix={self.name}"]
        arguments += ["--checkpoint", f"{self._yarn.hdfs}/flows/words"]
        arguments += [f"-X{key}={value}" for key, value in spark_settings().items()]
        submitted = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", "flow", "run", str(PROGRAM), *arguments],
            env={
                **os.environ,
                **self._yarn.environment,
                "HEADRACE_CLIENT_CONFIG": str(properties),
                "PYSPARK_ARCHIVES_PATH": PYSPARK,
            },
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            preexec_fn=die_with_parent,
            check=False,
        )
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr

    def feed(self, chance: random.Random) -> None:
        for _ in range(ROWS):
            word = chance.choice("abcdefgh")
            self._words[word] += 1
            self._producer.produce(f"{self.name}-in", key=word)
        assert self._producer.flush(60) == 0

    def totals(self) -> dict[str, list[int]]:
        """Return the committed totals of each word, in the order in which they were written."""
        while (message := self._consumer.poll(0.5)) is not None:
            assert message.error() is None, message.error()
            row = json.loads(message.value() or b"")
            self._totals[row["word"]].append(row["n"])
        return self._totals

    def wait_until_counted(self, what: str) -> None:
        def counted() -> bool:
            return {word: numbers[-1] for word, numbers in self.totals().items()} == self._words

        try:
            wait_until(counted, what=what, timeout_seconds=SECONDS)
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{self._yarn.container_logs()}") from None

    def kill(self, *, driver: bool) -> None:
        """Kill the Java process of the driver's container, or of an executor's."""
        victim = next(each for each in self._yarn.containers() if each.master is driver)
        os.kill(victim.pid, signal.SIGKILL)


def spark_settings() -> dict[str, str]:
    """Return settings for a small machine: containers of little memory, and the jars that are
    here."""
    java = " ".join(SHORT_RUN)
    settings = {
        "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
        "spark.yarn.submit.waitAppCompletion": "false",
        "spark.yarn.maxAppAttempts": str(ATTEMPTS),
        "spark.yarn.scheduler.heartbeat.interval-ms": "200",
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "640m",
        "spark.driver.extraJavaOptions": f"-Xss16m {java}",
        "spark.executor.extraJavaOptions": java,
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.pyspark.python": sys.executable,
        # A killed driver must not take the executors that it may still lose along.
        "spark.executor.maxNumFailures": str(KILLS + 10),
    }
    if "PYTHONPATH" in os.environ:
        for place in ("spark.executorEnv", "spark.yarn.appMasterEnv"):
            settings[f"{place}.PYTHONPATH"] = os.environ["PYTHONPATH"]
    return settings


@pytest.mark.timeout(3600)
def test_a_flow_on_yarn_counts_every_record_once_although_its_containers_are_killed(
    yarn: MiniYarn, broker: BrokerProcess, login: dict[str, str], tmp_path: Path
) -> None:
    chance = random.Random(15)
    flow = Flow(yarn, broker, login, tmp_path)
    flow.submit()
    flow.feed(chance)
    flow.wait_until_counted("the first words")

    for turn in range(KILLS):
        flow.feed(chance)
        flow.kill(driver=turn % 2 == 1)
        flow.feed(chance)
        flow.wait_until_counted(f"the words after kill {turn}")

    for numbers in flow.totals().values():
        assert numbers == sorted(set(numbers))
