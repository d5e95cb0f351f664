"""Reads the answers of the flows back from their topics."""

import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headrace.demo.expected_answers import Key
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS, MINUTES

_POLL_SECONDS = 0.1
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """How the records of a topic are read.

    Attributes:
        key_fields: what a record is about.
        value_field: the field with the number; None counts the records instead.
    """

    key_fields: tuple[str, ...]
    value_field: str | None

    def key(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[each] for each in self.key_fields)


ANSWERS = {
    COUNTS: AnswerFormat(("page", "window_start_ms"), "views"),
    MINUTES: AnswerFormat(("page", "minute_ms"), "views"),
    ALERTS: AnswerFormat(("page", "start_ms"), None),
    COUNTRIES: AnswerFormat(("country",), "views"),
}


class AnswerReader:
    """Reads topics of one partition in a thread, and keeps the newest answer per key."""

    def __init__(self, *, address: str) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, dict[Key, int]] = {topic: {} for topic in ANSWERS}
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "headrace-demo-answers",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in ANSWERS])
        self._thread = threading.Thread(target=self._run, name="answer-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._consumer.close()

    def answers(self) -> dict[str, dict[Key, int]]:
        with self._lock:
            return {topic: dict(answers) for topic, answers in self._answers.items()}

    def totals(self, topic: str, at: int | None = None) -> Counter[str]:
        """Return the answers of a topic by page or country, of one window or minute if given."""
        with self._lock:
            return Counter(
                {
                    str(key[0]): number
                    for key, number in self._answers[topic].items()
                    if at is None or key[1:] == (at,)
                }
            )

    def starts(self, topic: str) -> set[int]:
        """Return the start of every window that has an answer."""
        with self._lock:
            return {int(key[1]) for key in self._answers[topic]}

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(_AT_ONCE, _POLL_SECONDS)
            with self._lock:
                for message in messages:
                    topic, value = message.topic(), message.value()
                    if message.error() is None and topic is not None and value is not None:
                        self._add(topic, json.loads(value))

    def _add(self, topic: str, row: Mapping[str, Any]) -> None:
        form, answers = ANSWERS[topic], self._answers[topic]
        key = form.key(row)
        field = form.value_field
        answers[key] = answers.get(key, 0) + 1 if field is None else row[field]
