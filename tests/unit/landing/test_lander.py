"""The two threads of a landing."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.client.settings import ClientSettings
from headrace.landing.error import LandingError
from headrace.landing.lander import Lander, LandingOptions
from headrace.landing.row.raw import RawDecoder
from headrace.landing.source import Source
from headrace.landing.table_name import TableName


def test_nothing_is_committed_behind_rows_that_were_not_written() -> None:
    lander = Lander(
        ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"}),
        Source(topic="clicks", topic_id=None),
        RawDecoder(),
        LandingOptions(table=TableName.parse("delta:clicks")),
    )
    done: list[str] = []

    def fail() -> None:
        raise LandingError("the rows were not written")

    with ThreadPoolExecutor(1) as writer:
        lander._submit(writer, lambda: done.append("before"))
        lander._submit(writer, fail)
        lander._submit(writer, lambda: done.append("commit"))

        with pytest.raises(LandingError, match="not written"):
            lander._drain(0)

    assert done == ["before"]
