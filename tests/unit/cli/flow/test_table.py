"""A flow's figures in the terminal."""

import io

from rich.console import Console

from headrace.cli.flow.table import line_of, rows_of, table_of
from headrace.flow.monitoring.metrics import ComponentFigures, FlowFigures

FIGURES = FlowFigures(
    plan="words",
    batch=7,
    batch_ms=500,
    records=1200,
    records_per_second=2400.0,
    state_rows=3,
    state_bytes=2_000_000,
    lag=7,
    components=(ComponentFigures("[b]split", 1200, 3400, 1, 0.25, 0.91),),
)


def test_the_last_batch_in_a_line() -> None:
    line = "batch 7, 1,200 records, 2,400 records/s, 500 ms, state 2.0 MB, lag 7"

    assert line_of(FIGURES) == line
    assert line_of(FlowFigures(plan="words")) == "no batch yet"


def test_a_row_for_each_component() -> None:
    assert rows_of(FIGURES) == [("[b]split", "1,200", "3,400", "1", "0.250", "0.91")]


def test_a_name_is_not_taken_for_markup() -> None:
    shown = io.StringIO()

    Console(file=shown, width=100).print(table_of(FIGURES))

    assert "[b]split" in shown.getvalue()
