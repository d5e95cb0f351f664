"""The folder of running flows, and the files that crashes left."""

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.flow.error import FlowError
from headrace.flow.monitoring.run_folder import Run, RunFolder, start_ticks, this_run
from headrace.testing.readiness import wait_until


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "flows")


def own_run(name: str = "words") -> Run:
    return this_run(
        name=name,
        program="words.py",
        master="local[2]",
        brokers="127.0.0.1:9092",
        checkpoint=f"/somewhere/{name}",
        graph={"name": name},
    )


def test_a_run_is_found_as_it_was_written(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(run)

    assert run_folder.runs() == [run]
    assert run_folder.find("words") == run
    assert run_folder.find(str(run.pid)) == run


def test_the_file_of_a_crashed_run_is_removed(run_folder: RunFolder) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        ticks = start_ticks(child.pid)
        assert ticks is not None
        run_folder.write(replace(own_run(), pid=child.pid, started_ticks=ticks))
        assert len(run_folder.runs()) == 1

        child.kill()

    assert run_folder.runs() == []
    assert list(run_folder.folder.iterdir()) == []


def test_another_process_with_the_same_pid_is_not_the_run(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(replace(run, started_ticks=run.started_ticks - 1))

    assert run_folder.runs() == []


def test_files_that_are_no_runs_are_ignored(run_folder: RunFolder) -> None:
    run_folder.write(own_run())
    (run_folder.folder / "half.json").write_text('{"name": "wo')
    (run_folder.folder / "list.json").write_text("[1, 2]")
    (run_folder.folder / "other.json").write_text('{"name": "of another version"}')

    assert [each.name for each in run_folder.runs()] == ["words"]


def test_an_unknown_name_is_reported_with_the_flows_that_run(run_folder: RunFolder) -> None:
    with pytest.raises(FlowError, match="none runs on this machine"):
        run_folder.find("words")
    run_folder.write(own_run())

    with pytest.raises(FlowError, match="no flow called wrods runs: there are words"):
        run_folder.find("wrods")


def test_a_checkpoint_has_one_run(run_folder: RunFolder) -> None:
    run_folder.write(own_run())

    run_folder.check_free("/somewhere/else")
    with pytest.raises(FlowError, match="words runs already over the checkpoint /somewhere/words"):
        run_folder.check_free("/somewhere/words")


@pytest.mark.parametrize("problem", [None, "that cannot be"])
def test_a_request_is_read_once_and_its_outcome_is_written(
    run_folder: RunFolder, problem: str | None
) -> None:
    run = own_run()
    run_folder.write(run)
    raised: list[FlowError | None] = []

    def ask() -> None:
        try:
            run_folder.ask(run, {"partitions": 4}, seconds=60)
        except FlowError as error:
            raised.append(error)
        else:
            raised.append(None)

    asking = threading.Thread(target=ask)
    asking.start()
    taken = []
    wait_until(
        lambda: bool(taken.append(run_folder.take_request(run)) or taken[-1]),  # type: ignore[func-returns-value]
        what="the request",
    )
    assert taken[-1]["partitions"] == 4
    assert run_folder.take_request(run) is None

    run_folder.answer(run, taken[-1], problem)
    asking.join(60)

    assert [None if each is None else str(each) for each in raised] == [problem]


def test_a_request_to_a_run_that_ended_fails(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(run)
    run_folder.remove(run)

    with pytest.raises(FlowError, match="words ended before it was done"):
        run_folder.ask(run, {}, seconds=60)
