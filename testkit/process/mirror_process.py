"""`headrace mirror run` in a process of its own: started, stopped, and killed."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from testkit.process.child_process import ChildProcess

_METRICS = re.compile(r"Metrics are at (http://\S+)")
_START_SECONDS = 120.0


class MirrorProcess(ChildProcess):
    """A mirror between clusters, by alias.

    Args:
        clusters: the address of each cluster.
        settings: more keys of the file, flows included.
        options: more of the command line.

    Example:
        with MirrorProcess(tmp_path, {"a": a.address, "b": b.address}, {"a->b.enabled": "true"}):
            ...
    """

    NAME = "mirror"

    def __init__(
        self,
        folder: Path,
        clusters: Mapping[str, str],
        settings: Mapping[str, str],
        *options: str,
    ) -> None:
        super().__init__(folder, "mirror.log")
        folder.mkdir(parents=True, exist_ok=True)
        self.clusters = dict(clusters)
        self._options = options
        self.settings = {
            "replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.interval.seconds": "1",
            "sync.topic.configs.interval.seconds": "1",
            **settings,
        }

    @property
    def file(self) -> Path:
        return self.folder / "mirror.properties"

    @property
    def metrics_url(self) -> str:
        found = _METRICS.search(self.log)
        assert found is not None
        return found[1]

    def start(self) -> None:
        """Return when it runs.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self._begin_log()
        self.write_file()
        command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", str(self.file)]
        self._launch(
            [*command, "--metrics", "127.0.0.1:0", *self._options],
            lambda: "Mirroring " in self.log,
            seconds=_START_SECONDS,
        )

    def write_file(self) -> None:
        """Write the mirror.properties, as `start` does."""
        keys = {
            "clusters": ", ".join(self.clusters),
            **{f"{alias}.bootstrap.servers": at for alias, at in self.clusters.items()},
            **self.settings,
        }
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
