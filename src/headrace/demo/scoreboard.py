"""The streams' answers, read back from their topics."""

import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headrace.demo.ledger import Key
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS, MINUTES

_POLL_SECONDS = 0.1
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """How records of a topic are read: what they are about, and what they say of it."""

    about: tuple[str, ...]
    says: str | None
    """The field with the number; None: each record is told once, so they are counted."""

    def key(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[each] for each in self.about)


ANSWERS = {
    COUNTS: Answer(("page", "window_start_ms"), "views"),
    MINUTES: Answer(("page", "minute_ms"), "views"),
    ALERTS: Answer(("page", "start_ms"), None),
    COUNTRIES: Answer(("country",), "views"),
}


class Scoreboard:
    """Follows topics of one partition in a thread; the newest answer wins."""

    def __init__(self, *, address: str) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, dict[Key, int]] = {topic: {} for topic in ANSWERS}
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
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in ANSWERS])
        self._thread = threading.Thread(target=self._run, name="scoreboard", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._consumer.close()

    def answers(self) -> dict[str, dict[Key, int]]:
        with self._lock:
            return {topic: dict(found) for topic, found in self._found.items()}

    def totals(self, topic: str, at: int | None = None) -> Counter[str]:
        """The answers of a topic by page or country; those of one window or minute alone."""
        with self._lock:
            return Counter(
                {
                    str(key[0]): number
                    for key, number in self._found[topic].items()
                    if at is None or key[1:] == (at,)
                }
            )

    def starts(self, topic: str) -> set[int]:
        """Where the windows begin that there are answers for."""
        with self._lock:
            return {int(key[1]) for key in self._found[topic]}

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(_AT_ONCE, _POLL_SECONDS)
            with self._lock:
                for message in messages:
                    topic, value = message.topic(), message.value()
                    if message.error() is None and topic is not None and value is not None:
                        self._take(topic, json.loads(value))

    def _take(self, topic: str, row: Mapping[str, Any]) -> None:
        answer, found = ANSWERS[topic], self._found[topic]
        key = answer.key(row)
        found[key] = found.get(key, 0) + 1 if answer.says is None else row[answer.says]
