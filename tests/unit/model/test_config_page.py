"""The documentation of the keys cannot fall behind the keys."""

from pathlib import Path

import pytest

from headrace.model.broker_config import BROKER_CONFIG
from headrace.model.config_page import configuration_page
from headrace.model.topic_config import TOPIC_CONFIG

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_in_the_documentation_is_the_one_the_tables_make() -> None:
    assert PAGE.read_text() == configuration_page(), "run tools/write-configuration-docs"


def test_every_key_has_its_row() -> None:
    page = configuration_page()

    for key in [*TOPIC_CONFIG, *BROKER_CONFIG]:
        assert f"| `{key.name}` |" in page


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("interval.ms", "100 to 3600000"),
        ("queued.max.request.bytes", "at least 1048576"),
        ("ssl.endpoint.identification.algorithm", "https, ''"),
        ("num.replica.fetchers", "1: a broker has one fetcher per leader that it follows"),
    ],
)
def test_what_is_allowed_is_written_out(key: str, allowed: str) -> None:
    # A mirror link has some keys of a broker, too.
    brokers = configuration_page().partition("## Mirror links")[0]
    (row,) = [line for line in brokers.splitlines() if f"| `{key}` |" in line]

    assert row.split(" | ")[3] == allowed
