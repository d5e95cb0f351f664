"""A process that lands every configured topic, and a cluster that does not answer as it should."""

from pathlib import Path

import pytest

from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.landing.configured import landing_process
from headrace.landing.configured.configured_topic import ConfiguredTopics
from headrace.landing.configured.landing_process import LandingProcess
from headrace.landing.configured.table_folder import TableFolder
from headrace.landing.configured.turn import TurnSettings
from headrace.landing.error import LandingError


class Cluster:
    """Answers some looks with no topic, and all later ones as an older broker does."""

    def __init__(self, answers: int) -> None:
        self.answers = answers

    def configured_topics(self, pool: ConnectionPool) -> ConfiguredTopics:
        self.answers -= 1
        if self.answers < 0:
            raise LandingError("the brokers know no headrace.table.name")
        return ConfiguredTopics()


@pytest.fixture
def settings(tmp_path: Path) -> TurnSettings:
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "50"})
    return TurnSettings(client, TableFolder(tmp_path))


def test_a_broker_that_becomes_an_older_one_is_waited_for(
    settings: TurnSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing_process, "configured_topics", Cluster(2).configured_topics)
    monkeypatch.setattr(landing_process, "_LOOK_SECONDS", 0.0)
    warnings: list[str] = []

    def is_said() -> bool:
        return any("know no headrace.table.name; tried again" in each for each in warnings)

    LandingProcess(settings, warn=warnings.append).run(is_said)

    assert is_said()


def test_a_cluster_without_configured_tables_is_said_at_the_start(
    settings: TurnSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing_process, "configured_topics", Cluster(0).configured_topics)

    with pytest.raises(LandingError, match="know no"):
        LandingProcess(settings).run(lambda: False)
