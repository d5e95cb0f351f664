"""A real HDFS of one name node and one data node, in a process of its own."""

import json
from collections.abc import Sequence
from pathlib import Path

from testkit.peer.hadoop_jars import HADOOP_JARS
from testkit.peer.java import SHORT_RUN, find_java
from testkit.peer.java_process import JavaProcess


class MiniHdfs(JavaProcess):
    """Hadoop's own cluster for tests, on loopback and a free port, until the block ends.

    Example:
        with MiniHdfs(tmp_path) as hdfs:
            write_to(f"hdfs://{hdfs.address}/folder")
    """

    NAME = "HDFS"
    START_SECONDS = 150.0

    @property
    def address(self) -> str:
        """`host:port` of the name node."""
        return f"127.0.0.1:{json.loads(self._details.read_text())['namenode_port']}"

    @property
    def _details(self) -> Path:
        return self.folder / "details.json"

    def _command(self) -> Sequence[str]:
        settings = {
            "hdfs.minidfs.basedir": self.folder / "data",
            "hadoop.tmp.dir": self.folder / "tmp",
            "hadoop.security.authentication": "simple",
        }
        return find_java().command(
            "org.apache.hadoop.test.MiniDFSClusterManager",
            [
                *("-format", "-datanodes", "1", "-writeDetails", str(self._details)),
                *(word for key, value in settings.items() for word in ("-D", f"{key}={value}")),
            ],
            classpath=HADOOP_JARS.find().classpath,
            options=SHORT_RUN,
        )

    def _is_up(self) -> bool:
        return self._details.exists() and self._details.read_text().endswith("}")
