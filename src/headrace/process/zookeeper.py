"""A ZooKeeper server from the jars in the PySpark wheel: a single one, or a member of an ensemble.

`headrace up --brokers 3` starts one, so that a cluster needs only the wheel and a Java. PySpark
itself is never imported: only the folder of its jars is searched.
"""

import importlib.util
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.model.error import HeadraceError
from headrace.process.die_with_parent import die_with_parent
from headrace.process.java import find_java

HOST: Final = "127.0.0.1"
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

# The jars that the server loads; Spark's other hundreds of jars would only slow its start down.
_JARS: Final = (
    *("zookeeper-*.jar", "slf4j-api-*.jar", "log4j-api-*.jar", "log4j-core-*.jar"),
    *("log4j-slf4j2-impl-*.jar", "netty-*.jar", "metrics-core-*.jar", "snappy-java-*.jar"),
)
_JAVA_OPTIONS: Final = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Dzookeeper.jmx.log4j.disable=true",
)
_LOGGING: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
_STOP_SECONDS: Final = 20.0


class ZooKeeperMissing(HeadraceError):
    """No ZooKeeper is installed on this machine; the message says how to get one."""


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """One server of an ensemble: its address and ports for the other servers."""

    quorum_port: int
    election_port: int
    host: str = HOST


def zookeeper_jars() -> list[Path]:
    """Return the jars of the server, from PySpark's wheel.

    Raises:
        ZooKeeperMissing: PySpark is not installed, or contains no ZooKeeper.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperMissing("ZooKeeper comes with PySpark: pip install 'headrace[spark]'")
    folder = Path(spec.origin).parent / "jars"
    jars = [jar for pattern in _JARS for jar in sorted(folder.glob(pattern))]
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise ZooKeeperMissing(f"there is no ZooKeeper in {folder}: install pyspark 4.3")
    return jars


class ZooKeeperServer:
    """One server process. Its data stays in `folder`; a later start uses it again.

    Args:
        number: the number of this server in the `ensemble`, from 1; a single server has no
            ensemble.
        tick_ms: a session timeout is between two and forty ticks.
        host: the address to listen on: loopback, or one in a network namespace.
        prefix: arguments before the command, such as those that enter a network namespace.
        settings: further lines of its configuration, such as a port for TLS.
        java_options: further options of its Java, such as the file of its users.

    The process ends with the thread that started it: start it from one that stays.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        number: int = 1,
        ensemble: Mapping[int, EnsembleMember] | None = None,
        tick_ms: int = 1000,
        host: str = HOST,
        prefix: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.port = port
        self._number = number
        self._ensemble = dict(ensemble or {})
        self._tick_ms = tick_ms
        self._host = host
        self._prefix = tuple(prefix)
        self._extra_settings = dict(settings or {})
        self._java_options = (*_JAVA_OPTIONS, *java_options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def server_log(self) -> Path:
        return self.folder / "zookeeper.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    def launch(self) -> None:
        """Start the process; it is ready when `serves` returns True.

        Raises:
            ZooKeeperMissing: the jars are missing.
            JavaMissing: there is no Java.
        """
        command = self._command()
        with self.server_log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a command of our own
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def serves(self) -> bool:
        """Return whether it accepts clients: a server without a quorum does not."""
        try:
            with socket.create_connection((self._host, self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while piece := connection.recv(4096):
                    answer += piece
        except OSError:
            return False
        return b"Mode:" in answer

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _command(self) -> list[str]:
        java, jars = find_java().path, zookeeper_jars()
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        logging = self.folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        settings = self.folder / "zoo.cfg"
        settings.write_text(self._settings(data))
        if self._ensemble:
            (data / "myid").write_text(str(self._number))
        classpath = os.pathsep.join(str(jar) for jar in jars)
        return [
            *self._prefix,
            str(java),
            *self._java_options,
            f"-Dlog4j2.configurationFile={logging}",
            *("-cp", classpath, MAIN_CLASS, str(settings)),
        ]

    def _settings(self, data: Path) -> str:
        lines = [
            f"tickTime={self._tick_ms}",
            f"maxSessionTimeout={40 * self._tick_ms}",
            f"dataDir={data}",
            f"clientPort={self.port}",
            f"clientPortAddress={self._host}",
            "initLimit=10",
            "syncLimit=5",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            "autopurge.purgeInterval=1",
            *(f"{name}={value}" for name, value in self._extra_settings.items()),
        ]
        lines += [
            f"server.{number}={peer.host}:{peer.quorum_port}:{peer.election_port}"
            for number, peer in sorted(self._ensemble.items())
        ]
        return "\n".join(lines) + "\n"
