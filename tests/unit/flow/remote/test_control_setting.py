"""Which drivers report to their brokers."""

import pytest

from headrace.flow.error import FlowError
from headrace.flow.remote.control_setting import is_controlled


@pytest.mark.parametrize(
    ("settings", "conf", "expected"),
    [
        ({}, {}, False),
        ({}, {"spark.submit.deployMode": "client"}, False),
        ({}, {"spark.submit.deployMode": "cluster"}, True),
        (
            {},
            {"spark.submit.deployMode": "client", "spark.kubernetes.submitInDriver": "true"},
            True,
        ),
        ({"control": "on"}, {}, True),
        ({"control": "off"}, {"spark.submit.deployMode": "cluster"}, False),
    ],
)
def test_the_setting_decides_or_the_place_of_the_driver(
    settings: dict[str, str], conf: dict[str, str], expected: bool
) -> None:
    assert is_controlled(settings, conf.get) is expected


def test_another_word_is_refused() -> None:
    with pytest.raises(FlowError, match="control cannot be 'maybe': write auto, on or off"):
        is_controlled({"control": "maybe"}, {}.get)
