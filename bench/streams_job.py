"""Kafka Streams as a peer: `program/YahooStreams.java`, in one JVM for all its runs."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from testkit.peer.java import find_java
from testkit.peer.kafka_jars import KAFKA_JARS
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.streams_jars import STREAMS_JARS

_PROGRAM = Path(__file__).with_name("program") / "YahooStreams.java"
_JVM = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_END_SECONDS = 60.0


class StreamsJob:
    """Between runs the JVM waits, without clients or threads of Kafka Streams.

    Args:
        address: of the broker with the topics.
        source: the topic of events.
        campaigns: the campaign of each ad.
    """

    def __init__(
        self, folder: Path, address: str, source: str, campaigns: Mapping[str, str]
    ) -> None:
        folder.mkdir(parents=True)
        ads = folder / "ads.txt"
        ads.write_text("".join(f"{ad} {campaign}\n" for ad, campaign in campaigns.items()))
        self._log = folder / "streams.log"
        self._command = find_java().command(
            str(_PROGRAM),
            (address, source, str(folder), str(ads)),
            classpath=f"{KAFKA_JARS.find().classpath}:{STREAMS_JARS.find().classpath}",
            options=[*_JVM, f"-Dlog4j2.configurationFile={KafkaTools.find(folder).logging}"],
        )
        self._runs = 0

    def __enter__(self) -> "StreamsJob":
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """It ends when its input does."""
        try:
            self._process.communicate(timeout=_END_SECONDS)
        finally:
            self._process.kill()

    def run(self, target: str, guarantee: str, views: int) -> float:
        """Seconds from the first event to the moment when all totals are committed in `target`."""
        self._runs += 1
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self._runs} {guarantee} {target} {views}\n")
        answer = self._process.stdout.readline()
        if not answer.strip().isdigit():
            raise AssertionError(f"Kafka Streams ended:\n{self._log.read_text()[-4000:]}")
        return int(answer) / 1e9
