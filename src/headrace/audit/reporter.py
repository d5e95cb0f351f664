"""Writes what a tally counted to the audit topic, every few seconds and at the end.

Counts that could not be written are kept and written with the next ones. A process that is killed
loses its last seconds of counts. For a tier that receives, that looks like a loss, and for a
producer like records that were never sent: in both cases the audit shows other than 100 %.
"""

from threading import Event, Thread
from types import TracebackType
from typing import Final

from headrace.audit.publication import Publication
from headrace.audit.record import TOPIC, AuditRecord
from headrace.audit.tally import Tally
from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings

INTERVAL_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 15.0
# A cluster that is away for long costs memory up to this many counts, then the oldest go.
_MOST_KEPT: Final = 100_000


class Reporter:
    """Writes the counts of a tally from a thread of its own.

    Example:
        tally = Tally("producer")
        with Reporter(tally, ClientSettings.of({"bootstrap.servers": address})):
            ...  # count
    """

    def __init__(
        self,
        tally: Tally,
        settings: ClientSettings,
        *,
        topic: str = TOPIC,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self.tally = tally
        self._publication = Publication(settings, topic)
        self._interval = interval_seconds
        self._kept: list[AuditRecord] = []
        self._stop = Event()
        self._thread = Thread(target=self._run, name=f"audit-{tally.tier}", daemon=True)
        self.problem: ClientError | None = None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Write the rest and end, without waiting for a cluster that is away; callable twice."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.report()
        self.report()
        self._publication.close()

    def report(self) -> None:
        """Write the counts so far. What cannot be written stays, and `problem` says why.

        When the thread does not run, the connection is closed afterwards.
        """
        self._kept = [*self._kept, *self.tally.take()][-_MOST_KEPT:]
        try:
            self._publication.write(self._kept)
        except ClientError as error:
            self.problem = error
            return
        finally:
            if not self._thread.is_alive():
                self._publication.close()
        self.problem = None
        self._kept = []

    def __enter__(self) -> "Reporter":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
