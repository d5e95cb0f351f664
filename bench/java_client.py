"""Apache Kafka's own performance tools as clients, with the JVM options of Kafka's scripts."""

import re
import subprocess
from pathlib import Path

from testkit.peer.java import find_java
from testkit.peer.kafka_jars import KAFKA_JARS
from testkit.peer.kafka_tool import KafkaTool, KafkaTools

_JVM = ("-server", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_TIMEOUT_SECONDS = 120.0
_SENT = re.compile(r"records sent, ([0-9.]+) records/sec")
# Of the line that ConsumerPerformance prints: messages, and messages a second while fetching.
_CONSUMED_COLUMN, _FETCH_RATE_COLUMN = 4, 9


class JavaClient:
    """One JVM a run; the rates are the tools' own, so starting the JVM is not in them."""

    def __init__(self, folder: Path) -> None:
        self._logging = KafkaTools.find(folder).logging

    def produce(self, address: str, topic: str, *, records: int, record_bytes: int) -> float:
        """Records a second with acks=1, after a fifth of them has warmed the JVM up."""
        output = self._run(
            KafkaTool.PRODUCER_PERFORMANCE,
            *("--bootstrap-server", address, "--topic", topic, "--throughput", "-1"),
            *("--num-records", str(records), "--record-size", str(record_bytes)),
            *("--warmup-records", str(records // 5), "--command-property", "acks=1"),
        )
        rates = _SENT.findall(output)
        if not rates:
            raise AssertionError(f"ProducerPerformance said nothing of a rate:\n{output}")
        return float(rates[-1])

    def consume(self, address: str, topic: str, *, records: int) -> float:
        """Records a second from the first fetch on: joining the group is not in it."""
        output = self._run(
            KafkaTool.CONSUMER_PERFORMANCE,
            *("--bootstrap-server", address, "--topic", topic, "--hide-header"),
            *("--num-records", str(records), "--timeout", "30000"),
        )
        columns = output.strip().splitlines()[-1].split(",")
        if len(columns) <= _FETCH_RATE_COLUMN or int(columns[_CONSUMED_COLUMN]) < records:
            raise AssertionError(f"ConsumerPerformance did not read {records} records:\n{output}")
        return float(columns[_FETCH_RATE_COLUMN])

    def _run(self, tool: KafkaTool, *arguments: str) -> str:
        command = find_java().command(
            tool.value,
            arguments,
            classpath=KAFKA_JARS.find().classpath,
            options=[*_JVM, f"-Dlog4j2.configurationFile={self._logging}"],
        )
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
        if done.returncode:
            raise AssertionError(f"{tool.value} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout
