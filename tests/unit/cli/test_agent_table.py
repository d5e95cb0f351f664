"""The live table of an agent."""

from rich.console import Console

from headrace.cli.agent_table import AgentTable
from testkit.sample.ingest_agent import assemble_text

TEXT = (
    "a1.sources = r1\na1.channels = c1\na1.sinks = k1\n"
    "a1.sources.r1.type = seq\na1.sources.r1.channels = c1\n"
    "a1.channels.c1.type = memory\na1.sinks.k1.type = null\na1.sinks.k1.channel = c1\n"
)


def test_every_component_has_a_row_with_its_count() -> None:
    assembly = assemble_text(TEXT)
    assembly.sources["r1"].counters.add("EventAcceptedCount", 1234)
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as shown:
        console.print(AgentTable(lambda: assembly).table())
    lines = [line.split() for line in shown.get().splitlines()]
    assert lines[1][:3] == ["source", "r1", "1,234"]
    assert lines[2] == ["channel", "c1", "0", "0", "0", "of", "100"]
    assert lines[3][:3] == ["sink", "k1", "0"]


def test_a_component_that_a_reload_replaced_has_no_negative_rate() -> None:
    old, new = assemble_text(TEXT), assemble_text(TEXT)
    old.sources["r1"].counters.add("EventAcceptedCount", 1000)
    new.sources["r1"].counters.add("EventAcceptedCount", 3)
    shown = [old, new]
    table = AgentTable(lambda: shown.pop(0))
    table.table()
    _, counts, rates, _ = (list(column.cells) for column in table.table().columns)
    assert counts[0] == "3"
    assert not str(rates[0]).startswith("-")
