"""A flow in the words of Storm's REST API."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.console.status.flow_status import FlowInput, FlowNode, FlowStatus
from headrace.console.status.window_counts import Counts
from headrace.console.storm_topology import (
    StormTopology,
    topology_id,
    uptime_text,
    window_named,
)
from headrace.model.error import InvalidArgument

HOUR_MS = 3_600_000
TOTALS = {
    "lines": Counts(executed=0, emitted=900, failed=0),
    "split": Counts(executed=900, emitted=4_000, failed=7),
    "out": Counts(executed=4_000, emitted=0, failed=0),
}
LAST_MINUTES = {"split": Counts(executed=10, emitted=40, failed=1)}


def component(name: str, capacity: float = 0.0) -> dict[str, Any]:
    counts = TOTALS[name]._asdict()
    return {"component": name, "latency_ms": 0.048, "capacity": capacity, **counts}


def storm(hours: float = 5, *, active: bool = True) -> StormTopology:
    flow = FlowStatus(
        name="word count",
        program="words.py",
        pid=77,
        master="local[2]",
        started_ms=1_000_000_000_000,
        active=active,
        nodes=(
            FlowNode("lines", "spout", "lines", 2),
            FlowNode("split", "bolt", "split", 4),
            FlowNode("out", "sink", "counts"),
        ),
        inputs=(FlowInput("lines", "split", "default"), FlowInput("split", "out", "words")),
        figures={"batch_ms": 250, "components": [component("split", 0.5), component("out")]},
    )

    def counts(name: str, window: int | None) -> Counts:
        return (TOTALS if window is None else LAST_MINUTES).get(name, Counts())

    return StormTopology(flow, counts, 1_000_000_000_000 + int(hours * HOUR_MS), "host-1")


def test_the_summary_has_storms_fields() -> None:
    summary = storm().summary()
    assert summary["id"] == "word~20~count-77-1000000000"
    assert (summary["name"], summary["status"]) == ("word count", "ACTIVE")
    assert (summary["uptime"], summary["uptimeSeconds"]) == ("5h 0m 0s", 18_000)
    assert (summary["tasksTotal"], summary["executorsTotal"], summary["workersTotal"]) == (7, 7, 1)


def test_a_deactivated_flow_is_inactive() -> None:
    assert storm(active=False).summary()["status"] == "INACTIVE"
    found = storm(active=False).component("split", None)
    assert found is not None
    assert found["topologyStatus"] == "INACTIVE"


def test_spouts_and_bolts_have_their_counts_and_texts_for_latencies() -> None:
    detail = storm().detail(None)
    (spout,) = detail["spouts"]
    bolts = {each["boltId"]: each for each in detail["bolts"]}
    assert (spout["spoutId"], spout["emitted"], spout["acked"]) == ("lines", 900, 900)
    assert (spout["executors"], spout["completeLatency"]) == (2, "250.000")
    split = bolts["split"]
    assert (split["executed"], split["acked"], split["failed"]) == (900, 893, 7)
    assert (split["executeLatency"], split["capacity"]) == ("0.048", "0.500")
    assert (bolts["out"]["transferred"], split["transferred"]) == (0, 4_000)
    assert detail["workers"][0]["componentNumTasks"] == {"lines": 2, "split": 4, "out": 1}


def test_a_topology_has_storms_four_windows() -> None:
    stats = {each["window"]: each for each in storm().detail(None)["topologyStats"]}
    assert list(stats) == ["600", "10800", "86400", ":all-time"]
    assert [each["windowPretty"] for each in stats.values()] == [
        "10m 0s",
        "3h 0m 0s",
        "1d 0h 0m 0s",
        "All time",
    ]
    assert [each["failed"] for each in stats.values()] == [1, 1, 7, 7]


def test_a_window_that_begins_before_the_flow_has_all_of_it() -> None:
    stats = {
        each["window"]: each["failed"] for each in storm(hours=0.1).detail(600)["topologyStats"]
    }
    assert stats == {"600": 7, "10800": 7, "86400": 7, ":all-time": 7}


def test_a_component_has_stats_inputs_and_outputs() -> None:
    bolt, spout = storm().component("split", 600), storm().component("lines", None)
    assert bolt is not None
    assert spout is not None
    assert (bolt["componentType"], spout["componentType"]) == ("bolt", "spout")
    assert (bolt["window"], bolt["windowHint"]) == ("600", "10m 0s")
    assert [each["executed"] for each in bolt["boltStats"]] == [10, 10, 900, 900]
    assert [each["emitted"] for each in spout["spoutSummary"]] == [0, 0, 900, 900]
    (read,) = bolt["inputStats"]
    assert (read["component"], read["stream"], read["executed"]) == ("lines", "default", 10)
    assert bolt["outputStats"] == [{"stream": "words", "emitted": 40, "transferred": 40}]
    (written,) = spout["outputStats"]
    assert (written["completeLatency"], written["acked"], written["failed"]) == ("250.000", 900, 0)
    assert storm().component("absent", None) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (65, "1m 5s"), (3_600, "1h 0m 0s"), (90_061, "1d 1h 1m 1s")]
)
def test_durations_are_in_storms_words(seconds: int, text: str) -> None:
    assert uptime_text(seconds) == text


def test_a_window_is_one_of_storms_or_the_next_longer_one() -> None:
    assert [window_named(each) for each in (None, ":all-time", "600")] == [None, None, 600]
    assert [window_named(each) for each in ("60", "700", "86401", "9" * 5000)] == [
        600,
        10_800,
        None,
        None,
    ]
    with pytest.raises(InvalidArgument, match="window is 'hour': write 600, 10800, 86400"):
        window_named("hour")


def test_a_flow_elsewhere_has_an_id_too() -> None:
    assert topology_id("a-b", None, None) == "a-b-0-0"


def test_names_that_differ_have_ids_that_differ() -> None:
    names = ("a b", "a/b", "a_b", "a~b", "a~20~b")
    assert len({topology_id(each, None, None) for each in names}) == len(names)


def test_what_no_component_reads_is_not_transferred() -> None:
    totals = storm().detail(None)["topologyStats"][-1]
    assert (totals["emitted"], totals["transferred"]) == (4_900, 4_900)
    alone = replace(storm(), flow=replace(storm().flow, inputs=()))
    assert alone.detail(None)["topologyStats"][-1]["transferred"] == 0


def test_numbers_are_numbers() -> None:
    assert isinstance(storm().detail(None)["msgTimeout"], int)


def test_metrics_are_by_stream() -> None:
    metrics = storm().metrics(None)
    (spout,) = metrics["spouts"]
    split, _ = metrics["bolts"]
    lines = {"component_id": "lines", "stream_id": "default"}
    assert (metrics["window"], metrics["window-hint"]) == (":all-time", "All time")
    assert spout == {
        "id": "lines",
        "emitted": [{"stream_id": "default", "value": 900}],
        "transferred": [{"stream_id": "default", "value": 900}],
        "acked": [{"stream_id": "default", "value": 900}],
        "failed": [{"stream_id": "default", "value": 0}],
        "complete_ms_avg": [{"stream_id": "default", "value": "250.000"}],
    }
    assert split["emitted"] == [{"stream_id": "words", "value": 4_000}]
    assert split["executed"] == [{**lines, "value": 900}]
    assert split["executed_ms_avg"] == [{**lines, "value": "0.048"}]
