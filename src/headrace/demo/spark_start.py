"""Starts Spark in a thread while the rest of the demo starts, because Spark takes longest."""

import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.process.stderr_redirect import stderr_to

_CONFIG: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


_POLL_SECONDS = 0.2


class SparkStart:
    """A Spark session that is starting; it is stopped when the context is left.

    If Spark starts in the main thread, it installs a handler for Ctrl-C that raises in the middle
    of a call to Java. In another thread it does not.

    Args:
        folder: for Spark's files; Java's standard error goes to a file in it.
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
        except BaseException as error:  # noqa: BLE001 - `session` raises it
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
        ended = False
        while self._thread.is_alive():
            # The session is not needed any more: end Java, so that the thread ends.
            _end_java()
            ended = True
            self._thread.join(_POLL_SECONDS)
        # Java may have started just before it was ended: then there is nothing left to stop.
        if self._session is not None and not ended:
            # PySpark's own threads print errors when Java ends before them.
            with stderr_to(self._log):
                self._session.stop()


def _end_java() -> None:
    """End the Java process that PySpark is starting: our child processes that share our session.

    PySpark does not expose that process before Spark has started. Starting then fails with an
    error, which `SparkStart.session` raises.
    """
    for task in Path("/proc/self/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            with suppress(ProcessLookupError):
                if os.getsid(child) == os.getsid(0):
                    os.kill(child, signal.SIGTERM)
