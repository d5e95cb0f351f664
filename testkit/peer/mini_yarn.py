"""A real YARN with its HDFS: a ResourceManager, NodeManagers, a name node, a data node."""

import json
import os
import signal
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from testkit.peer.hadoop_jars import HADOOP_JARS
from testkit.peer.java_gateway import JavaGatewayProcess
from testkit.peer.yarn_jars import YARN_JARS

_CLIENT_SETTINGS = (
    "yarn.resourcemanager.address",
    "yarn.resourcemanager.scheduler.address",
    "yarn.resourcemanager.webapp.address",
    "yarn.resourcemanager.am.max-attempts",
)
NODE_MEMORY_MB = 4096


class Container(NamedTuple):
    """The Java process of a container: `master` is the application's first, with its driver in
    cluster mode."""

    pid: int
    container_id: str
    master: bool


class MiniYarn(JavaGatewayProcess):
    """Hadoop's own clusters for tests, all servers in one Java process, until the block ends.

    Containers are processes of their own, as on any YARN, with the tests' user. What is left of
    them at the end is killed.

    Example:
        with MiniYarn(tmp_path) as yarn:
            spark_submit("--master", "yarn", environment=yarn.environment)

    Attributes:
        conf: the folder for HADOOP_CONF_DIR and YARN_CONF_DIR.
    """

    NAME = "YARN"
    START_SECONDS = 180.0

    def __init__(self, folder: Path, *, nodes: int = 2, master_attempts: int = 2) -> None:
        super().__init__(folder)
        self._master_attempts = master_attempts
        self._nodes = nodes
        self._namenode_port = 0
        self._web_address = ""

    @property
    def hdfs(self) -> str:
        """The URI of the file system's root, without a slash at its end."""
        return f"hdfs://127.0.0.1:{self._namenode_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client of the cluster needs in its environment."""
        return {"HADOOP_CONF_DIR": str(self.conf), "YARN_CONF_DIR": str(self.conf)}

    def kill(self) -> None:
        super().kill()
        for each in self._processes():
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def containers(self) -> list[Container]:
        """Return the Java processes of all containers, the oldest container first."""
        found = []
        for pid in self._processes():
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if not command[0].endswith(b"/java"):
                    continue
                variables = _environment(pid)
                master = any(b"ApplicationMaster" in word for word in command)
                master = master or any(b"ExecutorLauncher" in word for word in command)
                found.append(Container(pid, variables["CONTAINER_ID"], master))
        return sorted(found, key=lambda each: each.container_id)

    def applications(self) -> dict[str, str]:
        """Return the final status of every application by its id; UNDEFINED while it runs."""
        url = f"http://{self._web_address}/ws/v1/cluster/apps"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = json.load(answer)["apps"] or {"app": []}
        return {each["id"]: each["finalStatus"] for each in found["app"]}

    def container_logs(self) -> str:
        """Return what containers wrote, for the message of a test that failed."""
        parts = []
        for path in sorted(self.folder.rglob("container_*/std*")):
            text = path.read_text(errors="replace")
            parts.append(f"--- {path.parent.name}/{path.name}\n{text[-6000:]}")
        return "\n".join(parts)

    def _processes(self) -> Iterator[int]:
        """Yield the processes of this cluster's containers."""
        mine = str(self.folder)
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if mine in _environment(int(entry.name)).get("LOCAL_DIRS", ""):
                        yield int(entry.name)

    def _classpath(self) -> Sequence[str]:
        return [HADOOP_JARS.find().classpath, YARN_JARS.find().classpath]

    def _form(self, jvm: Any) -> None:
        conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for key, value in self._settings().items():
            conf.set(key, value)
        hdfs = jvm.org.apache.hadoop.hdfs.MiniDFSCluster
        started = hdfs.Builder(conf).numDataNodes(1).build()
        started.waitActive()
        self._namenode_port = started.getNameNodePort()
        conf.set("fs.defaultFS", self.hdfs)
        yarn = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", self._nodes, 1, 1)
        yarn.init(conf)
        yarn.start()
        if not yarn.waitForNodeManagersToConnect(int(self.START_SECONDS * 1000)):
            raise TimeoutError("its NodeManagers did not register")
        self._write_site("core-site.xml", {"fs.defaultFS": self.hdfs})
        settings = yarn.getConfig()
        self._web_address = settings.get("yarn.resourcemanager.webapp.address")
        self._write_site("yarn-site.xml", {name: settings.get(name) for name in _CLIENT_SETTINGS})

    def _write_site(self, file: str, settings: dict[str, str]) -> None:
        """Write what a client knows of the cluster, as an operator hands it out."""
        properties = "".join(
            f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
            for name, value in settings.items()
        )
        (self.conf / file).write_text(f"<configuration>\n{properties}</configuration>\n")

    def _settings(self) -> dict[str, str]:
        queue = "yarn.scheduler.capacity"
        return {
            "hdfs.minidfs.basedir": str(self.folder / "data"),
            "hadoop.tmp.dir": str(self.folder / "tmp"),
            "hadoop.security.authentication": "simple",
            f"{queue}.root.queues": "default",
            f"{queue}.root.default.capacity": "100",
            # Masters may take all: there are few containers, and each is small.
            f"{queue}.maximum-am-resource-percent": "1.0",
            "yarn.resourcemanager.am.max-attempts": str(self._master_attempts),
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.resource.memory-mb": str(NODE_MEMORY_MB),
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            # A test machine's disk may be nearly full; YARN would take its nodes away.
            "yarn.nodemanager.disk-health-checker.enable": "false",
            # Every node hears of a container at once instead of within a second.
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
            "yarn.nodemanager.delete.debug-delay-sec": "600",
        }


def _environment(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    pairs = (variable.partition("=") for variable in text.split("\0"))
    return {name: value for name, _, value in pairs}
