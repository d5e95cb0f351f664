"""A flow on YARN that counts words with state, whose containers a test kills.

Its checkpoint is on HDFS, its broker asks for a login, and its driver runs in YARN's application
master. The totals that it writes say whether each record was counted once.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE
from headrace.process.die_with_parent import die_with_parent
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.peer.certificate import Certificate
from testkit.peer.java import SHORT_RUN, SHORT_RUNS
from testkit.peer.mini_yarn import MiniYarn
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace

ROWS = 60
# Of the installed package: Python would compile a zip again in every process.
_PYSPARK = f"local:{Path(pyspark.__file__).parent.parent}"
_SECONDS = float(os.environ.get("HEADRACE_YARN_SECONDS", "600"))


@contextmanager
def secure_broker(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the settings of a client of a broker with TLS and a login.

    Raises:
        PeerMissing: there is nothing to make a certificate with.
    """
    made = Certificate.make(folder)
    users = folder / "users"
    users.write_text("anna=apple")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        # The open one answers the question whether the broker is up.
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "ssl.keystore.location": str(folder / "localhost.pem"),
    }
    with BrokerProcess(folder / "broker", settings) as running:
        listening = re.search(r"listens on (\S+), (\S+)", running.log)
        assert listening is not None
        yield {
            "bootstrap.servers": listening.group(2),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(made.certificate),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "anna",
            "sasl.password": "apple",
        }


class YarnFlow:
    """The words that were sent, the flow in the cluster, and the totals that it wrote.

    Args:
        client: how to reach the broker, with Kafka's names.
        program: a file with the topology, which is called `yarn-words`.
        folder: for files of commands, and where they run.
        attempts: how many drivers YARN starts at most.
        environment: an archive of `headrace flow pack` whose Python containers start; None: they
            start the one of this process.
    """

    NAME = "yarn-words"

    def __init__(
        self,
        yarn: MiniYarn,
        client: Mapping[str, str],
        program: Path,
        folder: Path,
        *,
        attempts: int,
        environment: Path | None = None,
    ) -> None:
        self._yarn, self._program, self._folder = yarn, program, folder
        self._attempts, self._archive = attempts, environment
        self._client = dict(client)
        self._login = folder / "login.properties"
        self._login.write_text("".join(f"{key}={value}\n" for key, value in client.items()))
        self._words: Counter[str] = Counter()
        self._producer = Producer({**self._client, "linger.ms": 0})
        admin = AdminClient(self._client)
        topics = [NewTopic(f"{self.NAME}-in", 2, 1), NewTopic(f"{self.NAME}-totals", 1, 1)]
        for created in admin.create_topics(topics).values():
            created.result(60)
        self._totals: defaultdict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer({**self._client, "group.id": "test"})
        self._consumer.assign([TopicPartition(f"{self.NAME}-totals", 0, 0)])

    @property
    def fed(self) -> int:
        """How many words were sent."""
        return self._words.total()

    def submit(self) -> None:
        """Run the flow with its driver in the cluster; return when YARN has accepted it."""
        self._run("--deploy-mode", "cluster", "-Xspark.yarn.submit.waitAppCompletion=false")

    def run_here(self) -> None:
        """Run the flow with its driver on this machine; return when it has read what there is."""
        self._run("--available-now")

    def _run(self, *arguments: str) -> None:
        words = ["flow", "run", str(self._program), "--master", "yarn", *arguments]
        words += ["-X", f"prefix={self.NAME}", "--checkpoint", f"{self._yarn.hdfs}/flows/words"]
        words += [f"-X{key}={value}" for key, value in self._spark_settings().items()]
        if self._archive is not None:
            words += ["--environment", str(self._archive)]
        shipped = {} if self._archive is not None else {"PYSPARK_ARCHIVES_PATH": _PYSPARK}
        ended = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", *words],
            env={**os.environ, **SHORT_RUNS, **self._environment(), **shipped},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            preexec_fn=die_with_parent,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def command(self, *arguments: str) -> Finished:
        """Run `headrace flow` as on another machine than the driver's."""
        return run_headrace("flow", *arguments, environment=self._environment())

    def listed(self) -> list[dict[str, Any]]:
        """Return the rows of `headrace flow list`."""
        rows: list[dict[str, Any]] = json.loads(self.command("list", "--format=json").out)
        return rows

    def _environment(self) -> dict[str, str]:
        return {
            **self._yarn.environment,
            CLIENT_CONFIG_VARIABLE: str(self._login),
            FOLDER_VARIABLE: str(self._folder / "flows"),
        }

    def feed(self, chance: random.Random) -> None:
        for _ in range(ROWS):
            word = chance.choice("abcdefgh")
            self._words[word] += 1
            self._producer.produce(f"{self.NAME}-in", key=word)
        assert self._producer.flush(60) == 0

    def totals(self) -> Mapping[str, Sequence[int]]:
        """Return the committed totals of each word, in the order in which they were written."""
        while (message := self._consumer.poll(0.1)) is not None:
            assert message.error() is None, message.error()
            row = json.loads(message.value() or b"")
            self._totals[row["word"]].append(row["n"])
        return self._totals

    def wait_until_counted(self, what: str) -> None:
        def counted() -> bool:
            return {word: numbers[-1] for word, numbers in self.totals().items()} == self._words

        try:
            wait_until(counted, what=what, timeout_seconds=_SECONDS)
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{self._yarn.container_logs()}") from None

    def problems(self) -> list[str]:
        """Return what is wrong with the totals: each word's only grow, and none comes twice."""
        return [
            f"the totals of {word} were {list(numbers)}"
            for word, numbers in self.totals().items()
            if list(numbers) != sorted(set(numbers))
        ]

    def kill(self, *, driver: bool) -> None:
        """Kill the Java process of the driver's container, or of an executor's."""

        def pids() -> list[int]:
            return [each.pid for each in self._yarn.containers() if each.master is driver]

        wait_until(lambda: bool(pids()), what="a container to kill", timeout_seconds=_SECONDS)
        os.kill(pids()[0], signal.SIGKILL)

    def _spark_settings(self) -> dict[str, str]:
        """Return settings for a small machine: containers of little memory, and the jars that are
        here."""
        java = " ".join(SHORT_RUN)
        settings = {
            "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
            "spark.yarn.maxAppAttempts": str(self._attempts),
            "spark.yarn.scheduler.heartbeat.interval-ms": "200",
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "640m",
            "spark.driver.extraJavaOptions": f"-Xss16m {java}",
            "spark.executor.extraJavaOptions": java,
            "spark.yarn.am.extraJavaOptions": java,
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.enabled": "false",
            # A killed driver must not take the executors that it may still lose along.
            "spark.executor.maxNumFailures": str(self._attempts + 10),
        }
        if self._archive is not None:
            return settings
        settings["spark.pyspark.python"] = sys.executable
        if "PYTHONPATH" in os.environ:
            for place in ("spark.executorEnv", "spark.yarn.appMasterEnv"):
                settings[f"{place}.PYTHONPATH"] = os.environ["PYTHONPATH"]
        return settings
