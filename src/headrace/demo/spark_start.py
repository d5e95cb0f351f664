"""Spark, started beside everything else: it takes longest, and nobody else needs it."""

import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.demo.muted import stderr_to

_CONFIG: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


_LOOK_SECONDS = 0.2


class SparkStart:
    """A session on its way, stopped when the context is left.

    Spark puts a handler for Ctrl-C into place if it starts in the main thread, which would raise in
    the middle of a call to Java: here it does not.

    Args:
        folder: for what Spark writes; Java's complaints go to a file in it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "spark.log"
        self._session: Any = None
        self._known = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="spark start", daemon=True)

    @property
    def session(self) -> Any:
        """The session, for one thread; None: it is not there yet.

        Raises:
            HeadraceError: it cannot be started.
        """
        if self._failure is not None:
            raise self._failure
        if self._session is not None and not self._known:
            self._known = True
            # Spark knows data sources by the session of the thread that asks, and this is another
            # thread than the one it was started in.
            java = self._session._get_j_spark_session_class(self._session._jvm)
            java.setActiveSession(self._session._jsparkSession)
        return self._session

    def _run(self) -> None:
        from headrace.spark.ready_session import session

        own = {
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.local.dir": str(self._folder / "spark"),
        }
        try:
            with stderr_to(self._log):
                self._session = session("headrace demo", "local[2]", config={**_CONFIG, **own})
        except BaseException as error:  # noqa: BLE001 - whoever asks for the session gets it
            self._failure = error

    def __enter__(self) -> "SparkStart":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._thread.is_alive():
            # Nobody needs a session that is not there yet.
            _end_java()
            self._thread.join(_LOOK_SECONDS)
        if self._session is not None:
            # PySpark's own threads complain when Java leaves before them.
            with stderr_to(self._log):
                self._session.stop()


def _end_java() -> None:
    """End what PySpark has started: of our children those that share our session. It tells nobody
    which process that is before Spark is there. What ends so is told to `session`, by an error."""
    for task in Path("/proc/self/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            with suppress(ProcessLookupError):
                if os.getsid(child) == os.getsid(0):
                    os.kill(child, signal.SIGTERM)
