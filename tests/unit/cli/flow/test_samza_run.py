"""A program that starts itself, as a Samza job does, in a run of the command line."""

from pathlib import Path
from typing import Any

from headrace.cli.flow.flow_run import RunOptions, plan_execution
from headrace.cli.flow.program import LoadedProgram
from headrace.flow.plan.plan import Plan
from headrace.flow.storage.location import Location


def test_its_tasks_report_to_the_metrics_of_the_run(tmp_path: Path) -> None:
    given: dict[str, Any] = {}
    program = LoadedProgram(Plan("job", {}), lambda _spark, **options: given.update(options))
    options = RunOptions(program="job.properties", brokers="", checkpoint=Location.of(tmp_path))
    execution = plan_execution(program, options, None, lambda: True, lambda _figures: None)

    with execution.metrics:
        execution.begin()

    assert given["metrics"] is execution.metrics
