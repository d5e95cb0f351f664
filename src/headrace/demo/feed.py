"""The site's views, written to a topic by a stock Kafka client."""

import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from headrace.demo.ledger import Ledger
from headrace.demo.site import Site

_TURN_SECONDS = 0.05
_FLUSH_SECONDS = 30.0


class Feed:
    """Writes in a thread of its own until it is stopped. Keyed by user, as a site would do it.

    The producer is idempotent: what the broker acknowledged is there once, so the ledger is the
    truth about the topic when `stop` returns.
    """

    def __init__(
        self,
        *,
        address: str,
        topic: str,
        site: Site,
        ledger: Ledger,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._topic = topic
        self._site = site
        self._ledger = ledger
        self._now_ms = now_ms
        self._stopping = threading.Event()
        self._problem: KafkaError | BaseException | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 5,
                # What goes wrong is told by `problem`; librdkafka would write into the live table.
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    @property
    def problem(self) -> KafkaError | BaseException | None:
        """Why writing failed, if it did."""
        return self._problem

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when everything written has been acknowledged."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        left = self._producer.flush(_FLUSH_SECONDS)
        if left and self._problem is None:
            self._problem = TimeoutError(f"{left} views were never acknowledged")

    def _run(self) -> None:
        told_ms = self._now_ms()
        try:
            while not self._stopping.wait(_TURN_SECONDS):
                now_ms = max(self._now_ms(), told_ms)
                views = list(self._site.views(from_ms=told_ms, to_ms=now_ms))
                for view in views:
                    self._producer.produce(
                        self._topic,
                        key=view.user.encode(),
                        value=view.to_json(),
                        timestamp=view.at_ms,
                        on_delivery=self._delivered,
                    )
                self._ledger.add(views)
                told_ms = now_ms
                self._producer.poll(0)
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self._problem = error

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._problem = error
