"""A real worker of Kafka Connect in distributed mode."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.testing.readiness import free_port, wait_until
from testkit.peer.connect_jars import CONNECT_FILE_JARS
from testkit.peer.jar_set import JarSet
from testkit.peer.java import SHORT_RUN, find_java
from testkit.peer.java_process import JavaProcess
from testkit.peer.kafka_jars import KAFKA_JARS

_ANSWER_SECONDS = 60
_CONFLICT = 409
_LOGGING = """\
status = error
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = stdout
"""


class ConnectWorker(JavaProcess):
    """One worker, whose sources may be exactly once; killed, it starts again as a new member of its
    group.

    Args:
        plugins: the jars of its connectors.
        settings: of the worker, on top of those that let tests be quick.
        java_options: of the JVM, heap included.

    Raises:
        PeerMissing: when Java or the jars are not there.
    """

    NAME = "Connect"
    START_SECONDS = 180.0

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        group: str,
        plugins: Sequence[JarSet] = (CONNECT_FILE_JARS,),
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (*SHORT_RUN, "-Xmx256m"),
    ) -> None:
        super().__init__(folder)
        self._java = find_java()
        jars = [each.find().classpath for each in (KAFKA_JARS, *plugins)]
        self._classpath = ":".join(jars)
        self._port = 0
        self._java_options = java_options
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "500",
            # A killed worker is a member until its session ends; 6 s is the broker's minimum.
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            # Scanning all jars for plugins takes as long as the rest of the start.
            "plugin.discovery": "service_load",
            **{
                f"{kind}.storage.{key}": value
                for kind in ("config", "offset", "status")
                for key, value in (("topic", f"{group}-{kind}"), ("replication.factor", "1"))
            },
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            **(settings or {}),
        }

    def _command(self) -> Sequence[str]:
        self._port = free_port()
        settings = {**self._settings, "listeners": f"http://127.0.0.1:{self._port}"}
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.folder / "worker.properties").write_text(lines)
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        return self._java.command(
            "org.apache.kafka.connect.cli.ConnectDistributed",
            ["worker.properties"],
            classpath=self._classpath,
            options=[*self._java_options, logging],
        )

    def _is_up(self) -> bool:
        try:
            self.call("GET", "/connectors")
        except OSError:
            return False
        return True

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call Connect's REST API and return its answer; wait for the end of a rebalance.

        Raises:
            OSError: it does not answer, or answers with an error.
        """
        answers: list[Any] = []

        def answered() -> bool:
            try:
                answers.append(self._call(method, path, body))
            except urllib.error.HTTPError as error:
                with error:
                    reason = error.read().decode()
                if error.code == _CONFLICT and "rebalance" in reason:
                    return False
                raise OSError(f"{error.code}: {reason}") from None
            return True

        wait_until(answered, what=f"{method} {path}", timeout_seconds=_ANSWER_SECONDS)
        return answers[0]

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
            content = answer.read()
        return json.loads(content) if content else None
