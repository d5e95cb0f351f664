"""What the console makes of a topic's configuration and of what a process reported about it."""

from headrace.client.group.group_admin import CommittedOffset
from headrace.console.status.table_status import table_status
from headrace.landing.configured.configured_topic import ConfiguredTopic
from headrace.landing.configured.landing_status import LandingStatus
from headrace.model.ids import TopicPartition
from headrace.model.table.table_config import TableConfig
from headrace.model.table.table_name import TableName

TABLE = TableConfig(name=TableName.parse("delta:clicks"))
CLICKS = ConfiguredTopic("clicks", None, TABLE, (0, 1))
ONE, TWO = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
STATUS = LandingStatus(table="delta:clicks", rows=9, landed_ms=5, complete_ms=4, seen_ms=1_000_000)


def committed(text: str) -> dict[TopicPartition, CommittedOffset]:
    return {ONE: CommittedOffset(5, text), TWO: CommittedOffset(4, "")}


def test_a_table_that_is_filled_shows_its_lag() -> None:
    shown = table_status(CLICKS, committed(STATUS.as_text()), {ONE: 8, TWO: 4}, 1_060_000)

    assert (shown["state"], shown["rows"], shown["lag"]) == ("landing", 9, 3)
    assert (shown["landed_ms"], shown["complete_ms"], shown["problem"]) == (5, 4, None)


def test_a_process_that_reports_no_more_is_silent() -> None:
    shown = table_status(CLICKS, committed(STATUS.as_text()), {ONE: 8, TWO: 4}, 1_200_000)

    assert (shown["state"], shown["rows"], shown["lag"]) == ("silent", 9, 3)


def test_what_was_reported_of_another_table_is_not_shown() -> None:
    other = LandingStatus(table="delta:other", rows=9, seen_ms=1_000_000)

    for text in (other.as_text(), "made up", ""):
        shown = table_status(CLICKS, committed(text), {ONE: 8, TWO: 4}, 1_000_000)
        assert (shown["state"], shown["rows"], shown["lag"]) == ("silent", None, None)


def test_a_lag_that_is_not_known_is_left_out() -> None:
    part = {ONE: CommittedOffset(5, STATUS.as_text())}

    assert table_status(CLICKS, part, {ONE: 8, TWO: 4}, 1_000_000)["lag"] is None
    assert table_status(CLICKS, committed(STATUS.as_text()), {ONE: 8}, 1_000_000)["lag"] is None
