"""The text that says how a table is."""

import json

import pytest

from headrace.landing.configured.landing_status import LandingStatus

STATUS = LandingStatus(table="delta:clicks", rows=7, complete_ms=5, seen_ms=6)


def test_a_status_is_read_as_it_was_written() -> None:
    assert LandingStatus.of(STATUS.as_text()) == STATUS


def test_a_long_problem_is_cut_to_what_brokers_take() -> None:
    status = LandingStatus(table="iceberg:" + "é" * 490, problem="é\udcff" * 10_000)

    text = status.as_text()

    assert len(text.encode()) < 4096
    found = LandingStatus.of(text)
    assert found is not None
    assert (found.problem or "").startswith("é?é")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[1]",
        "[" * 100_000,
        json.dumps({"version": 2, "table": "delta:clicks"}),
        json.dumps({"version": 1, "table": "delta:clicks", "more": 1}),
        json.dumps({"version": 1, "table": ["delta:clicks"]}),
        json.dumps({"version": 1, "table": "delta:clicks", "rows": "7"}),
        json.dumps({"version": 1, "table": "delta:clicks", "rows": True}),
        json.dumps({"version": 1, "table": "delta:clicks", "rows": -1}),
        json.dumps({"version": 1, "table": "delta:clicks", "seen_ms": None}),
        json.dumps({"version": 1, "table": "delta:clicks", "problem": {}}),
        json.dumps({"version": 1, "table": "delta:clicks", "complete_ms": 1e300}),
    ],
)
def test_another_text_is_no_status(text: str) -> None:
    assert LandingStatus.of(text) is None
