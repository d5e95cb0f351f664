"""A real Apache Kafka broker: the oracle of the interop tests, the other side of the benchmarks."""

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.testing.readiness import free_port
from testkit.peer.java import SHORT_RUN, find_java
from testkit.peer.kafka_jars import KAFKA_JARS
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.process.child_process import ServerFailed
from testkit.process.server_process import ServerProcess

# Another process may take a free port between our choosing it and Kafka's binding it.
_START_ATTEMPTS = 3

_LOGGING = """\
status = error
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
"""


@dataclass(frozen=True, slots=True)
class KafkaProfile:
    """How the JVM and the broker are tuned.

    Attributes:
        java_options: options of the JVM, heap included.
        settings: broker settings on top of what one node needs to run at all.
    """

    java_options: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


# Ready in about two seconds: few internal partitions, no waiting for group members.
FOR_TESTS = KafkaProfile(
    java_options=(*SHORT_RUN, "-Xms64m", "-Xmx384m"),
    settings={
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # As in QUICK_SETTINGS: records of years ago stay.
        "log.retention.check.interval.ms": "86400000",
        # A killed broker may register again only when its old session has run out.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "num.network.threads": "1",
        "num.io.threads": "2",
    },
)

# For a broker that is not killed: its own controller must not fence it because a busy machine
# delays heartbeats. While it is fenced its partitions have no leader.
LONG_SESSION: Mapping[str, str] = {"broker.session.timeout.ms": "60000"}

# What kafka-server-start.sh gives: the options Kafka's scripts set, a 1 GiB heap, default settings.
STOCK = KafkaProfile(
    java_options=(
        "-server",
        "-Xms1g",
        "-Xmx1g",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-XX:MaxInlineLevel=15",
        "-Djava.awt.headless=true",
    ),
)


def new_cluster_id() -> str:
    """Return a random id that does not begin with a dash: Kafka would read it as an option."""
    raw = uuid.uuid4().bytes
    return urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")


class ApacheKafka(ServerProcess):
    """One broker that is its own controller (KRaft), on loopback and free ports.

    `folder` holds all of it: `data/` (the log directory), `server.properties`, `server.log`. A
    stopped or killed broker starts again on the same data, at a new address. The JVM dies with the
    thread that started it (the kernel sees to that), so start it from the main thread.

    Example:
        with ApacheKafka(tmp_path / "kafka") as kafka:
            Producer({"bootstrap.servers": kafka.address})

    Raises:
        PeerMissing: when Java or the jars are not there.
    """

    NAME = "Apache Kafka"

    def __init__(
        self,
        folder: Path,
        *,
        profile: KafkaProfile = FOR_TESTS,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder)
        self._profile = profile
        self._settings = dict(settings or {})
        self._cluster_id = new_cluster_id()
        self._java = find_java()
        self._jars = KAFKA_JARS.find()

    def start(self) -> None:
        """Return when the broker answers requests. Formats the data directory the first time.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self._check_stopped()
        self.folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._configure()
            if not (self.data / "meta.properties").exists():
                self._format()
            try:
                self._serve(self._command())
                return
            except ServerFailed as error:
                if attempt == _START_ATTEMPTS or "BindException" not in str(error):
                    raise

    def _configure(self) -> None:
        self._port, controller_port = free_port(), free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.HOST}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.HOST}:{self._port},CONTROLLER://{self.HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.HOST}:{self._port}",
            "log.dirs": str(self.data),
            # One broker cannot replicate: these are part of every single-node set-up.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._profile.settings,
            **self._settings,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        self._properties.write_text(text)
        self._logging.write_text(_LOGGING)

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _logging(self) -> Path:
        return self.folder / "server-log4j2.properties"

    def _format(self) -> None:
        result = KafkaTools.find(self.folder).run(
            KafkaTool.STORAGE,
            *("format", "--cluster-id", self._cluster_id, "-c", str(self._properties)),
        )
        if result.exit_code != 0:
            raise ServerFailed(str(result))

    def _command(self) -> list[str]:
        return self._java.command(
            "kafka.Kafka",
            [str(self._properties)],
            classpath=self._jars.classpath,
            options=[
                *self._profile.java_options,
                f"-Dlog4j2.configurationFile={self._logging}",
                f"-Dkafka.logs.dir={self.folder}",
            ],
        )
