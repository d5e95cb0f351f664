"""A real Apache Kafka broker: the oracle of the interop tests, the other side of the benchmarks."""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from headrace.model.error import HeadraceError, InvalidArgument
from headrace.testing.child_process import die_with_parent
from headrace.testing.java import SHORT_RUN, find_java
from headrace.testing.kafka_jars import kafka_jars
from headrace.testing.kafka_tool import KafkaTool, KafkaTools
from headrace.testing.process_usage import ProcessUsage
from headrace.testing.readiness import answers_kafka, free_port, wait_until

_HOST = "127.0.0.1"
_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
# Between choosing a free port and Kafka binding it somebody else may take it.
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


class ApacheKafkaFailed(HeadraceError):
    """The broker did not start, or ended by itself; the message ends with its last log lines."""


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
        # A killed broker may register again only when its old session has run out.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "num.network.threads": "1",
        "num.io.threads": "2",
    },
)

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


class ApacheKafka:
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

    def __init__(
        self,
        folder: Path,
        *,
        profile: KafkaProfile = FOR_TESTS,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._profile = profile
        self._settings = dict(settings or {})
        self._java = find_java()
        self._jars = kafka_jars()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def data(self) -> Path:
        """The log directory: partitions, checkpoints, meta.properties."""
        return self.folder / "data"

    @property
    def server_log(self) -> Path:
        return self.folder / "server.log"

    @property
    def address(self) -> str:
        """`host:port` for `bootstrap.servers`."""
        if self._process is None:
            raise InvalidArgument("a broker that is not started has no address: call start() first")
        return f"{_HOST}:{self._port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise InvalidArgument("a broker that is not started has no pid: call start() first")
        return self._process.pid

    def usage(self) -> ProcessUsage:
        """What the broker's process has cost since it started."""
        return ProcessUsage.of(self.pid)

    def start(self) -> None:
        """Return when the broker answers requests. Formats the data directory the first time.

        Raises:
            ApacheKafkaFailed: with the last lines of its log.
        """
        if self._process is not None:
            raise InvalidArgument(f"the broker in {self.folder} runs already: stop() it first")
        self.folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._configure()
            if not (self.data / "meta.properties").exists():
                self._format()
            try:
                self._launch()
                return
            except ApacheKafkaFailed as error:
                if attempt == _START_ATTEMPTS or "BindException" not in str(error):
                    raise

    def stop(self) -> None:
        """Stop cleanly: logs flushed, the clean-shutdown marker written. Harmless when not running.

        Raises:
            ApacheKafkaFailed: when it had to be killed; its data is not in a clean state then.
        """
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failed(f"did not stop in {_STOP_SECONDS:g} s and was killed") from None
        self._process = None

    def kill(self) -> None:
        """End it with SIGKILL, as a crash of the process does. Harmless when not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> "ApacheKafka":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()

    def _configure(self) -> None:
        self._port, controller_port = free_port(), free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{_HOST}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{_HOST}:{self._port},CONTROLLER://{_HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{self._port}",
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
        # With the top bit clear the text cannot begin with a dash and look like an option.
        raw = uuid.uuid4().bytes
        cluster_id = urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")
        result = KafkaTools.find(self.folder).run(
            KafkaTool.STORAGE, "format", "--cluster-id", cluster_id, "-c", str(self._properties)
        )
        if result.exit_code != 0:
            raise ApacheKafkaFailed(str(result))

    def _launch(self) -> None:
        command = self._java.command(
            "kafka.Kafka",
            [str(self._properties)],
            classpath=self._jars.classpath,
            options=[
                *self._profile.java_options,
                f"-Dlog4j2.configurationFile={self._logging}",
                f"-Dkafka.logs.dir={self.folder}",
            ],
        )
        with self.server_log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the terminal is for the tests, not for Kafka
                preexec_fn=die_with_parent,
            )
        self._process = process

        def answers_or_ended() -> bool:
            return process.poll() is not None or answers_kafka(_HOST, self._port)

        try:
            wait_until(
                answers_or_ended, what="Apache Kafka's start", timeout_seconds=_START_SECONDS
            )
        except BaseException as error:
            self.kill()
            if isinstance(error, TimeoutError):
                raise self._failed(f"did not answer in {_START_SECONDS:g} s") from None
            raise
        if process.poll() is not None:
            self._process = None
            raise self._failed(f"ended with {process.returncode} while it started")

    def _failed(self, what: str) -> ApacheKafkaFailed:
        lines = self.server_log.read_text(errors="replace").splitlines()[-40:]
        return ApacheKafkaFailed(f"Apache Kafka in {self.folder} {what}:\n" + "\n".join(lines))
