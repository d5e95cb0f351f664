"""A Headrace broker in a process of its own, for tests and benchmarks: `headrace up`."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.model.error import InvalidArgument
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import free_port
from testkit.process.server_process import ServerProcess

_ADDRESS = re.compile(r"listens on .*?127\.0\.0\.1:(\d+)")
_ADMIN = re.compile(r"metrics on (http://[^/]+)/metrics")


class BrokerProcess(ServerProcess):
    """`headrace up` on loopback and a free port; killed or stopped, it starts again on its data.

    Example:
        with BrokerProcess(tmp_path / "broker") as broker:
            Producer({"bootstrap.servers": broker.address})
    """

    NAME = "Headrace"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.settings = dict(QUICK_SETTINGS if settings is None else settings)

    @property
    def admin_url(self) -> str:
        """Where /healthz, /readyz and /metrics are."""
        found = _ADMIN.search(self.log)
        if found is None:
            raise InvalidArgument(f"the broker in {self.folder} has no admin port")
        return found.group(1)

    def start(self) -> None:
        """Return when the broker answers. The port stays the same over restarts.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self._check_stopped()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port()
        settings = [f"-X{key}={value}" for key, value in self.settings.items()]
        # Options override settings: they are given only where the settings do not say more.
        if "listeners" not in self.settings:
            settings += ["--listen", f"{self.HOST}:{self._port}"]
        if "log.dirs" not in self.settings:
            settings += ["--data", str(self.data)]
        self._begin_log()
        self._serve([sys.executable, "-m", "headrace.cli.main", "up", *settings])

    def _find_port(self) -> bool:
        found = _ADDRESS.search(self.log)
        if found is not None:
            self._port = int(found.group(1))
        return found is not None
