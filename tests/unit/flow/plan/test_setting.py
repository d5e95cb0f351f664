"""The settings of a plan, and those of Storm that have no effect."""

from pathlib import Path

import pytest

from headrace.flow.error import FlowError
from headrace.flow.plan.setting import SETTINGS, STORM_KEYS, check_settings
from headrace.flow.storm.topology import Topology
from headrace.flow.trident.topology import TridentTopology

_PAGE = Path(__file__).parents[4] / "docs" / "flow.md"


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.shuffle.partitions",
        "metrics.topic",
        "audit.tier",
        "source.maxOffsetsPerTrigger",
        "source.kafka.fetch.max.bytes",
        "sink.kafka.transaction.timeout.ms",
        "topology.workers",
        "topology.kryo.register",
        "nimbus.seeds",
    ],
)
def test_a_known_key_is_taken(key: str) -> None:
    check_settings([key])


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("metric.topic", "metrics.topic"),
        ("sprak.executor.memory", "spark.executor.memory"),
        ("source.maxOffsetPerTrigger", "source.maxOffsetsPerTrigger"),
        ("maxOffsetsPerTrigger", "source.maxOffsetsPerTrigger"),
        ("sink.transaction.timeout.ms", "sink.kafka.transaction.timeout.ms"),
        ("topology.worker", "topology.workers"),
        ("topology.message.timeout.sec", "topology.message.timeout.secs"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(key: str, near: str) -> None:
    with pytest.raises(FlowError, match=f"there is no setting {key}; did you mean {near}?"):
        check_settings([key])


def test_a_key_like_no_other_is_refused_with_all_of_them() -> None:
    with pytest.raises(FlowError, match=r"no setting colour; there are metrics\.topic, audit"):
        check_settings(["colour"])


@pytest.mark.parametrize("kind", [Topology, TridentTopology])
def test_a_topology_refuses_it_where_it_is_declared(kind: type) -> None:
    with pytest.raises(FlowError, match=r"did you mean metrics\.topic"):
        kind("words", settings={"metrics.topics": "m"})


def test_every_setting_is_documented_as_it_is_declared() -> None:
    page = _PAGE.read_text()

    assert [key for key, text in SETTINGS.items() if f"| `{key}` | {text} |" not in page] == []


def test_storms_keys_are_listed() -> None:
    page = _PAGE.read_text()

    assert [key for key in STORM_KEYS if f"`{key}`" not in page] == []
