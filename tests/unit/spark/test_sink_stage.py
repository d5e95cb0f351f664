"""How a staging topic is made."""

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.client.admin import NewTopic
from headrace.client.error import BrokerError
from headrace.spark import sink_stage
from headrace.spark.sink_stage import Stage
from headrace.wire.error_code import ErrorCode


def test_what_waits_is_kept_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[NewTopic] = []
    missing = BrokerError(ErrorCode.unknown_topic_or_partition)

    class Admin:
        def __init__(self, pool: Any) -> None: ...

        def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, None]:
            made.extend(topics)
            return {topic.name: None for topic in topics}

    monkeypatch.setattr(sink_stage, "Admin", Admin)
    monkeypatch.setattr(Stage, "_problem", lambda _: None if made else missing)
    pool: Any = type("Pool", (), {"settings": None})
    monkeypatch.setattr(sink_stage, "Retry", lambda _: None)

    Stage(pool, "stage").open()

    # Whatever log.retention.bytes the broker has for other topics.
    assert made[0].configs["retention.bytes"] == "-1"
