"""The stream's answers, read back from their topic."""

import json
import threading
from collections import Counter

from confluent_kafka import Consumer, TopicPartition

from headrace.demo.ledger import PageWindow

_POLL_SECONDS = 0.1
_AT_ONCE = 500


class Scoreboard:
    """Follows the topic of counts in a thread; the newest count of a page and window wins."""

    def __init__(self, *, address: str, topic: str, partitions: int) -> None:
        self._lock = threading.Lock()
        self._counts: dict[PageWindow, int] = {}
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "headrace-demo-scoreboard",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        self._thread = threading.Thread(target=self._run, name="scoreboard", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._consumer.close()

    def counts(self) -> dict[PageWindow, int]:
        with self._lock:
            return dict(self._counts)

    def of_window(self, start_ms: int) -> Counter[str]:
        """Views per page in the window that begins there."""
        with self._lock:
            return Counter(
                {page: n for (page, start), n in self._counts.items() if start == start_ms}
            )

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(_AT_ONCE, _POLL_SECONDS)
            values = [each.value() for each in messages if each.error() is None]
            answers = [json.loads(value) for value in values if value is not None]
            with self._lock:
                for answer in answers:
                    self._counts[answer["page"], answer["window_start_ms"]] = answer["views"]
