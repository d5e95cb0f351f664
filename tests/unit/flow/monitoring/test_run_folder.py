"""The folder of running flows, and the files that crashes left."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

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


def test_a_request_written_at_the_same_time_does_not_become_the_file_of_the_run(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = own_run()
    run_folder.write(run)
    replace_file = Path.replace
    asked = []

    def ask_first(path: Path, target: Path) -> Path:
        if not asked and target.suffix == ".json":
            asked.append(target)
            with pytest.raises(FlowError, match="did not do it"):
                run_folder.ask(run, {"deactivate": True}, seconds=0)
        return replace_file(path, target)

    monkeypatch.setattr(Path, "replace", ask_first)
    run = run_folder.answer(run, {"id": "1"}, None)

    assert asked
    assert run_folder.runs() == [run]
    assert [each.suffix for each in run_folder.folder.iterdir()] == [".json"]


def test_an_unreadable_file_of_a_live_process_keeps_the_checkpoint(run_folder: RunFolder) -> None:
    run_folder.folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        path = run_folder.folder / f"words-{child.pid}.json"
        path.write_text('{"id": "x"}')
        with pytest.raises(FlowError, match=f"its process {child.pid} runs"):
            run_folder.check_free("/somewhere/words")
        child.kill()

    run_folder.check_free("/somewhere/words")
    assert not path.exists()


def test_the_unreadable_file_of_an_earlier_process_with_our_pid_is_no_hindrance(
    run_folder: RunFolder,
) -> None:
    run_folder.folder.mkdir()
    (run_folder.folder / f"words-{os.getpid()}.json").write_text("{")

    run_folder.check_free("/somewhere/words")


def requests_of(run_folder: RunFolder) -> list[Path]:
    return list(run_folder.folder.glob("*.request"))


class Asking:
    """Asks from a thread, as another process would."""

    def __init__(self, run_folder: RunFolder, run: Run, request: dict[str, Any]) -> None:
        self.problems: list[str | None] = []
        self._thread = threading.Thread(target=self._ask, args=(run_folder, run, request))
        self._thread.start()
        wait_until(lambda: bool(self.problems or requests_of(run_folder)), what="the request")

    def _ask(self, run_folder: RunFolder, run: Run, request: dict[str, Any]) -> None:
        try:
            run_folder.ask(run, request, seconds=60)
        except FlowError as error:
            self.problems.append(str(error))
        else:
            self.problems.append(None)

    def outcome(self) -> str | None:
        self._thread.join(60)
        return self.problems[0]


def test_requests_that_wait_at_the_same_time_are_all_carried_out(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(run)
    first = Asking(run_folder, run, {"deactivate": True})
    second = Asking(run_folder, run, {"activate": True})
    wait_until(lambda: len(requests_of(run_folder)) == 2, what="both requests")

    taken = [run_folder.take_request(run), run_folder.take_request(run)]
    # Both are answered before either of the two reads the file again.
    for request, problem in zip(taken, ("too late", None), strict=True):
        assert request is not None
        run = run_folder.answer(run, request, problem)

    assert [sorted(each or ()) for each in taken] == [["deactivate", "id"], ["activate", "id"]]
    assert (first.outcome(), second.outcome()) == ("too late", None)


def test_who_gives_up_removes_its_own_request_only(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(run)
    waiting = Asking(run_folder, run, {"activate": True})
    with pytest.raises(FlowError, match="did not do it in 0 s"):
        run_folder.ask(run, {"deactivate": True}, seconds=0)

    request = run_folder.take_request(run)
    assert request is not None
    assert "activate" in request
    run_folder.answer(run, request, None)
    assert waiting.outcome() is None


def test_requests_do_not_pile_up(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(run)
    for number in range(16):
        name = f"words-{run.pid}.{number:032x}.request"
        (run_folder.folder / name).write_text("{}")

    with pytest.raises(FlowError, match="16 requests to words wait already"):
        run_folder.ask(run, {"deactivate": True}, seconds=0)


def test_a_request_to_an_ended_run_is_not_left_for_a_later_one(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(run)
    run_folder.remove(run)
    with pytest.raises(FlowError, match="ended before"):
        run_folder.ask(run, {"deactivate": True}, seconds=60)

    assert list(run_folder.folder.iterdir()) == []


def test_a_request_to_an_earlier_process_with_this_pid_is_dropped(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(run)
    asking = Asking(run_folder, run, {"deactivate": True})
    later = replace(run, started_ticks=run.started_ticks + 1)

    assert run_folder.take_request(later) is None
    assert requests_of(run_folder) == []
    run_folder.remove(run)
    assert asking.outcome() == "words ended before it was done"


def test_names_and_problems_never_make_a_file_too_long_to_read(run_folder: RunFolder) -> None:
    run = own_run()
    run_folder.write(run)
    with pytest.raises(FlowError, match="that is too long"):
        run_folder.rebalance(run, {"x" * 301: 2})
    with pytest.raises(FlowError, match="at most 1000"):
        run_folder.rebalance(run, {f"c{each}": 1 for each in range(1001)})
    for tasks, partitions in (({"split": 10_001}, None), ({}, 10_001)):
        with pytest.raises(FlowError, match="10001 tasks or partitions are too many"):
            run_folder.rebalance(run, tasks, partitions)
    with pytest.raises(FlowError, match="at most 524288 bytes"):
        run_folder.ask(run, {"x": "y" * 600_000}, seconds=60)
    for number in range(40):
        run = run_folder.answer(run, {"id": f"{number:032x}"}, "\U0001f6a7" * 1_000_000)

    assert run_folder.runs() == [run]


def test_a_second_stop_does_not_interrupt_the_batch(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))
    run = own_run()
    run_folder.write(run)

    run_folder.stop(run)
    run_folder.stop(run)
    assert signals == [(run.pid, 15)]

    run_folder.stop(run, now=True)
    assert len(signals) == 3
    run_folder.remove(run)
    assert list(run_folder.folder.iterdir()) == []


def test_another_process_with_the_pid_of_an_ended_run_gets_no_signal(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append(pid))
    run_folder.write(own_run())
    ended = replace(own_run(), started_ticks=1)

    with pytest.raises(FlowError, match="words has ended already"):
        run_folder.stop(ended)
    assert signals == []


def test_a_run_that_ends_before_the_signal_is_reported(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    run_folder.write(own_run())

    with pytest.raises(FlowError, match="words has ended already"):
        run_folder.stop(own_run())
