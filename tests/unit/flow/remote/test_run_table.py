"""The newest record of each run, and which one a name means."""

from dataclasses import replace

import pytest

from headrace.flow.error import FlowError
from headrace.flow.monitoring.run_folder import this_run
from headrace.flow.remote.remote_run import RemoteRun, remote_run
from headrace.flow.remote.run_table import RunTable, check_reachable, runs_named


def run_of(application: str, *, seen_ms: int = 0, pid: int = 1) -> RemoteRun:
    run = this_run(name="words", program="words.py", master="yarn", brokers="b:9092")
    made = remote_run(replace(run, pid=pid), application=application, host="node7")
    return replace(made, seen_ms=seen_ms)


def table_of(*runs: RemoteRun) -> RunTable:
    table = RunTable()
    for each in runs:
        table.add(each.key, each.to_value(), each.seen_ms)
    return table


def test_the_last_record_of_a_key_counts() -> None:
    first, second = run_of("app_1", seen_ms=10), run_of("app_1", seen_ms=20, pid=2)

    assert table_of(first, second).runs() == [second]


def test_a_record_without_a_value_ends_a_run() -> None:
    ended, other = run_of("app_1"), run_of("app_2")
    table = table_of(ended, other)
    table.add(ended.key, None, 30)
    table.add(b"never there", None, 30)
    table.add(None, b"{}", 30)

    assert table.runs() == [other]


def test_a_name_means_the_runs_that_report_before_those_that_are_lost() -> None:
    lost, running = run_of("app_1", seen_ms=0), run_of("app_2", seen_ms=100_000)

    assert runs_named([lost, running], "words", 100_000) == [running]
    assert runs_named([lost, running], "app_1", 100_000) == [lost]
    assert runs_named([lost], "words", 100_000) == [lost]
    assert runs_named([lost, running], "lines", 100_000) == []


def test_a_lost_run_is_not_asked() -> None:
    with pytest.raises(FlowError, match=r"app_1\) has not reported for 100 s: .* node7 was killed"):
        check_reachable(run_of("app_1"), 100_000)


def test_a_run_that_receives_nothing_is_not_asked() -> None:
    deaf = replace(run_of("app_1"), deaf="it may not read")

    with pytest.raises(FlowError, match="receives no requests: it may not read"):
        check_reachable(deaf, 0)


def test_the_longest_silent_leave_a_full_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.flow.remote.run_table._MAX_RUNS", 2)
    one, two, three = (run_of(f"app_{number}", seen_ms=number) for number in (1, 2, 3))

    assert table_of(one, two, replace(one, seen_ms=3), three).runs() == [
        replace(one, seen_ms=3),
        three,
    ]


def test_a_run_that_was_silent_for_a_day_leaves() -> None:
    old, new = run_of("app_1", seen_ms=0), run_of("app_2", seen_ms=25 * 60 * 60 * 1000)
    assert table_of(old, new).runs() == [new]


def test_what_is_no_report_takes_no_room_and_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.flow.remote.run_table._MAX_BYTES", 3_000)
    run = run_of("app_1")
    table = table_of(run)
    table.add(run.key, b"x" * 100_000, 5)
    for number in range(100):
        table.add(b"made up %d" % number, b"{}", 5)

    assert table.runs() == [run]
