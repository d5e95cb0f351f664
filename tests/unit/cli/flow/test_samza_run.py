"""A program that starts itself, as a Samza job does, in a run of the command line."""

from pathlib import Path
from typing import Any

import pytest

from headrace.cli.flow import execution
from headrace.cli.flow.flow_run import RunOptions
from headrace.cli.flow.program import LoadedProgram
from headrace.flow.plan.plan import Plan
from headrace.flow.storage.file_store import LocalFileStore
from headrace.flow.storage.location import Location


def test_its_tasks_report_to_the_metrics_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "open_store", lambda *_: LocalFileStore(tmp_path))
    given: dict[str, Any] = {}
    program = LoadedProgram(Plan("job", {}), lambda _spark, **options: given.update(options))
    options = RunOptions(program="job.properties", brokers="", checkpoint=Location.of(tmp_path))
    run = execution.plan_execution(program, options, None, lambda: True, lambda _figures: None)

    with run.metrics:
        run.begin()

    assert given["metrics"] is run.metrics
