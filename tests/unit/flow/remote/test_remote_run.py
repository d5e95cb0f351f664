"""What a driver reports of its run, and what is read back from a topic that others write to."""

import json
from dataclasses import replace
from typing import Any

import pytest

from headrace.flow.monitoring.metrics import ComponentFigures, FlowFigures
from headrace.flow.monitoring.run_folder import this_run
from headrace.flow.remote.remote_run import MAX_BYTES, RemoteRun, remote_run, run_key

FIGURES = FlowFigures(
    "words", 3, 20, 5, 250.0, lag=None, components=(ComponentFigures("split", 5, 9, 0, 0.5, 0.1),)
)


def run_of(**attributes: Any) -> RemoteRun:
    run = this_run(
        name="words",
        program="words.py",
        master="yarn",
        brokers="b:9092",
        checkpoint="hdfs://nn/words",
        graph={"name": "words"},
    )
    made = remote_run(run, application="application_1_0001", host="node7", figures=FIGURES)
    return replace(made, **{"outcomes": (("1f", None), ("2f", "it cannot")), **attributes})


def test_a_report_is_read_as_it_was_written() -> None:
    run = run_of()

    assert RemoteRun.from_record(run.key, run.to_value(), 77) == replace(run, seen_ms=77)


def test_a_run_that_has_not_reported_for_half_a_minute_is_lost() -> None:
    run = run_of(seen_ms=100_000, active=False)

    assert [run.state(now_ms) for now_ms in (90_000, 129_999, 130_001)] == [
        "inactive",
        "inactive",
        "lost",
    ]


def test_a_user_and_password_in_a_uri_are_not_reported() -> None:
    run = this_run(
        name="words",
        program="words.py",
        master="yarn",
        brokers="b:9092",
        checkpoint="s3a://key:hidden@lake/words",
        console="http://anna:hidden@node7:4040",
    )

    reported = remote_run(run, application="application_1_0001", host="node7")

    assert (reported.checkpoint, reported.console) == ("s3a://lake/words", "http://node7:4040")
    assert b"hidden" not in reported.to_value()


def test_a_report_of_unprintable_texts_is_read_all_the_same() -> None:
    """The texts of an exception are a user's, and a record that no one can read is no report."""
    run = run_of(
        outcomes=(("1f", "at\tline\u00a07\r\nof \x1b[2J"),),
        graph={"nodes": [{"na\tme": "\u3000"}]},
    )

    found = RemoteRun.from_record(run.key, run.to_value(), 0)

    assert found is not None
    assert found.outcomes == (("1f", "at line 7 \nof  [2J"),)
    assert found.graph == {"nodes": [{"na me": " "}]}


def test_a_flow_with_an_unprintable_name_is_found_by_its_key() -> None:
    run = this_run(name="wo\trds", program="w.py", master="yarn", brokers="b:9092")
    made = remote_run(run, application="application_1_0001", host="node7")

    assert run_key(run.name, made.application) == made.key
    assert RemoteRun.from_record(made.key, made.to_value(), 0) == made


@pytest.mark.parametrize("count", [500, 3_000])
def test_a_large_report_leaves_out_components_and_then_the_graph(count: int) -> None:
    component = ComponentFigures("c" * 1000, 1, 1, 0, 0.5, 0.1)
    graph = {"nodes": ["n" * 200] * (count - 400)}
    run = run_of(figures=replace(FIGURES, components=(component,) * count), graph=graph)

    value = run.to_value()

    kept = RemoteRun.from_record(run.key, value, 0)
    assert kept is not None
    assert len(value) <= MAX_BYTES
    assert (kept.figures is not None, bool(kept.graph)) == (count == 500, count == 500)


def altered(**changes: Any) -> bytes:
    return json.dumps({**json.loads(run_of().to_value()), **changes}).encode()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[1]",
        b"{}",
        b"[" * 100_000,
        b" " * (MAX_BYTES + 1),
        altered(pid="7"),
        altered(ended=1),
        altered(application="another"),
        altered(program="\x1b[2Jwords.py"),
        altered(graph={"nodes": [{"name": "\x07"}]}),
        altered(outcomes=[["1f"]]),
        altered(figures={}),
        altered(figures={**json.loads(FIGURES.to_json()), "lag": "many"}),
    ],
)
def test_what_no_driver_wrote_is_no_run(value: bytes) -> None:
    assert RemoteRun.from_record(run_of().key, value, 0) is None
