"""The registry of running flows, and the files that crashes left."""

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.flow.error import FlowError
from headrace.flow.monitoring.registry import Registry, Run, start_ticks, this_run
from headrace.testing.readiness import wait_until


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "flows")


def own_run(name: str = "words") -> Run:
    return this_run(
        name=name,
        program="words.py",
        master="local[2]",
        brokers="127.0.0.1:9092",
        checkpoint=f"/somewhere/{name}",
        graph={"name": name},
    )


def test_a_run_is_found_as_it_was_written(registry: Registry) -> None:
    run = own_run()
    registry.write(run)

    assert registry.runs() == [run]
    assert registry.find("words") == run
    assert registry.find(str(run.pid)) == run


def test_the_file_of_a_crashed_run_is_removed(registry: Registry) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        ticks = start_ticks(child.pid)
        assert ticks is not None
        registry.write(replace(own_run(), pid=child.pid, started_ticks=ticks))
        assert len(registry.runs()) == 1

        child.kill()

    assert registry.runs() == []
    assert list(registry.folder.iterdir()) == []


def test_another_process_with_the_same_pid_is_not_the_run(registry: Registry) -> None:
    run = own_run()
    registry.write(replace(run, started_ticks=run.started_ticks - 1))

    assert registry.runs() == []


def test_files_that_are_no_runs_are_ignored(registry: Registry) -> None:
    registry.write(own_run())
    (registry.folder / "half.json").write_text('{"name": "wo')
    (registry.folder / "list.json").write_text("[1, 2]")
    (registry.folder / "other.json").write_text('{"name": "of another version"}')

    assert [each.name for each in registry.runs()] == ["words"]


def test_an_unknown_name_is_reported_with_the_flows_that_run(registry: Registry) -> None:
    with pytest.raises(FlowError, match="none runs on this machine"):
        registry.find("words")
    registry.write(own_run())

    with pytest.raises(FlowError, match="no flow called wrods runs: there are words"):
        registry.find("wrods")


def test_a_checkpoint_has_one_run(registry: Registry) -> None:
    registry.write(own_run())

    registry.check_free("/somewhere/else")
    with pytest.raises(FlowError, match="words runs already over the checkpoint /somewhere/words"):
        registry.check_free("/somewhere/words")


@pytest.mark.parametrize("problem", [None, "that cannot be"])
def test_a_request_is_read_once_and_its_outcome_is_written(
    registry: Registry, problem: str | None
) -> None:
    run = own_run()
    registry.write(run)
    raised: list[FlowError | None] = []

    def ask() -> None:
        try:
            registry.ask(run, {"partitions": 4}, seconds=60)
        except FlowError as error:
            raised.append(error)
        else:
            raised.append(None)

    asking = threading.Thread(target=ask)
    asking.start()
    taken = []
    wait_until(
        lambda: bool(taken.append(registry.take_request(run)) or taken[-1]),  # type: ignore[func-returns-value]
        what="the request",
    )
    assert taken[-1]["partitions"] == 4
    assert registry.take_request(run) is None

    registry.answer(run, taken[-1], problem)
    asking.join(60)

    assert [None if each is None else str(each) for each in raised] == [problem]


def test_a_request_to_a_run_that_ended_fails(registry: Registry) -> None:
    run = own_run()
    registry.write(run)
    registry.remove(run)

    with pytest.raises(FlowError, match="words ended before it was done"):
        registry.ask(run, {}, seconds=60)
