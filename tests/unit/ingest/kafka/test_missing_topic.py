"""Topics that headers name and that the cluster does not have."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.error import BrokerError
from headrace.client.settings import ClientSettings
from headrace.ingest.kafka.missing_topic import ask_for_topics
from headrace.wire.error_code import ErrorCode

SETTINGS = ClientSettings.of({"retry.backoff.ms": "1"})


class FakePool:
    """A cluster with the topic web_logs, which denies `denied` and creates none."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings

    def __enter__(self) -> "FakePool":
        return self

    def __exit__(self, *_: object) -> None: ...

    def metadata(self, names: list[str] | None = None, *, create: bool = False) -> Any:
        def topic(name: str) -> SimpleNamespace:
            if name == "denied" or (name == "created-nowhere" and create):
                code = ErrorCode.topic_authorization_failed
            else:
                code = ErrorCode.unknown_topic_or_partition
            there = name == "web_logs"
            return SimpleNamespace(error=None if there else BrokerError(code, name))

        return SimpleNamespace(topics={each: topic(each) for each in names or ["web_logs"]})


@pytest.fixture(autouse=True)
def fake_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.ingest.kafka.missing_topic.ConnectionPool", FakePool)
    monkeypatch.setattr("headrace.ingest.kafka.missing_topic._APPEARS_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        ({"web_logs"}, set()),
        ({"web_logs", "denied"}, {"denied"}),
        ({"created-nowhere"}, {"created-nowhere"}),
        ({"web.logs", "web_logs"}, {"web.logs"}),
    ],
)
def test_topics_that_the_cluster_refuses(names: set[str], refused: set[str]) -> None:
    assert ask_for_topics(SETTINGS, names) == refused


def test_a_topic_that_someone_may_create_is_waited_for() -> None:
    with pytest.raises(BrokerError, match=r"web\.other"):
        ask_for_topics(SETTINGS, {"web.other", "denied"})
