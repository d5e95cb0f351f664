"""Apache Kafka's command line tools, to be pointed at files or at any broker, ours included."""

import subprocess
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from testkit.peer.class_archive import archive_options
from testkit.peer.java import SHORT_RUN, Java, find_java
from testkit.peer.kafka_jars import KAFKA_JARS
from testkit.peer.maven import Jars

# Warnings go to standard error, so that standard output is only what the tool says.
_LOGGING = """\
status = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
"""


class KafkaTool(Enum):
    """The main classes; each value is what Kafka's own shell scripts start."""

    ACLS = "org.apache.kafka.tools.AclCommand"
    BROKER_API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
    CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
    CLUSTER = "org.apache.kafka.tools.ClusterTool"
    CONFIGS = "kafka.admin.ConfigCommand"
    CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
    CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
    DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
    DUMP_LOG = "kafka.tools.DumpLogSegments"
    END_TO_END_LATENCY = "org.apache.kafka.tools.EndToEndLatency"
    FEATURES = "org.apache.kafka.tools.FeatureCommand"
    GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
    LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
    PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
    REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    STORAGE = "kafka.tools.StorageTool"
    TOPICS = "org.apache.kafka.tools.TopicCommand"
    TRANSACTIONAL_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
    TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
    VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
    VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool left behind. Many of Kafka's tools exit with 0 and complain on standard error."""

    command: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    def checked(self) -> "ToolResult":
        """Return this result, unless the tool failed.

        Raises:
            AssertionError: with everything it said.
        """
        if self.exit_code != 0:
            raise AssertionError(f"{self}")
        return self

    def __str__(self) -> str:
        head = f"{' '.join(self.command)} ended with {self.exit_code}"
        return f"{head}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


@dataclass(frozen=True, slots=True)
class KafkaTools:
    """Runs the tools, a fresh JVM each (a third of a second and more).

    Example:
        tools = KafkaTools.find(tmp_path)
        tools.run(KafkaTool.TOPICS, "--bootstrap-server", address, "--list").checked().stdout
    """

    java: Java
    jars: Jars
    logging: Path

    @classmethod
    def find(cls, work: Path) -> "KafkaTools":
        """Return the tools on this machine, with their logging set up in the folder `work`.

        Raises:
            PeerMissing: when Java or the jars are not there.
        """
        java, jars = find_java(), KAFKA_JARS.find()
        logging = work / "tools-log4j2.properties"
        logging.write_text(_LOGGING)
        return cls(java, jars, logging)

    def command(self, tool: KafkaTool, *arguments: str) -> list[str]:
        options = [*SHORT_RUN, "-Xmx512m", f"-Dlog4j2.configurationFile={self.logging}"]
        options += archive_options(self.java, self.jars, self._loads_most())
        return self.java.command(
            tool.value, arguments, classpath=self.jars.classpath, options=options
        )

    def _loads_most(self) -> tuple[str, ...]:
        """Return a run that looks for a broker in vain: it loads what nearly all tools load."""
        impatient = self.logging.with_name("impatient.properties")
        impatient.write_text("default.api.timeout.ms=1\nrequest.timeout.ms=1\n")
        tool = (f"-Dlog4j2.configurationFile={self.logging}", KafkaTool.TOPICS.value, "--list")
        nowhere = ("--bootstrap-server", "127.0.0.1:1", "--command-config", str(impatient))
        return (*tool, *nowhere)  # Java archives only classes that it has verified

    def run(
        self, tool: KafkaTool, *arguments: str, stdin: str = "", timeout_seconds: float = 180.0
    ) -> ToolResult:
        """Run a tool to its end.

        Raises:
            subprocess.TimeoutExpired: when it does not end in time; it is killed then.
        """
        done = subprocess.run(
            self.command(tool, *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        shown = (tool.value, *arguments)
        return ToolResult(shown, done.returncode, done.stdout, done.stderr)

    def start(self, tool: KafkaTool, *arguments: str) -> "subprocess.Popen[str]":
        """Start a tool that runs until it is stopped; the caller reads its pipes and ends it."""
        return subprocess.Popen(
            self.command(tool, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
