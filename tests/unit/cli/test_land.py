"""`headrace land` as its help describes it."""

from typer.testing import CliRunner

from headrace.cli.table.land import command


def test_the_help_promises_no_registry_by_default() -> None:
    shown = CliRunner().invoke(command, ["--help"], env={"COLUMNS": "200"}).stdout

    assert "--registry" in shown
    assert "HEADRACE_REGISTRY" in shown
    assert "else http" not in " ".join(shown.split())
