"""One turn of a topic, while other topics have theirs."""

from pathlib import Path

import pytest

from headrace.client.settings import ClientSettings
from headrace.landing.committer import Landed
from headrace.landing.configured.configured_topic import ConfiguredTopic
from headrace.landing.configured.table_folder import TableFolder
from headrace.landing.configured.turn import TurnSettings, take_turn
from headrace.landing.error import LandingError
from headrace.landing.lander import Lander
from headrace.model.ids import TopicPartition
from headrace.model.table.table_config import TableConfig
from headrace.model.table.table_name import TableName


def test_a_table_is_not_made_inside_one_that_another_turn_has_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deltalake")

    def run(lander: Lander, stopped: object) -> Landed:
        (tmp_path / "x/_delta_log").mkdir(parents=True)
        lander._create({TopicPartition("clicks", 0): 0})
        return Landed()

    monkeypatch.setattr(Lander, "run", run)
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
    table = TableConfig(name=TableName.parse("delta:x/y"))

    with pytest.raises(LandingError, match="is inside the table"):
        take_turn(
            TurnSettings(client, TableFolder(tmp_path)),
            ConfiguredTopic("clicks", None, table, (0,)),
            stopped=lambda: False,
            committed=lambda landed: None,
            lost=lambda sentence: None,
        )

    assert not (tmp_path / "x/y").exists()
