"""`headrace schema context`: the name spaces of a registry."""

import typer

from headrace.cli.schema.argument import connect_admin
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.output import print_rows
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.registry_option import RegistryOption, RegistrySettingsOption

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def context() -> None:
    """Show the name spaces of a registry."""


@app.command(
    "list",
    epilog=epilog("""
Examples:

  headrace schema context list

  headrace schema subject list --registry http://127.0.0.1:8081/contexts/.staging    inside one
"""),
)
def list_contexts(
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """List contexts; a dot alone is the default one."""
    with connect_admin(registry, setting) as admin:
        rows = [(each,) for each in admin.contexts()]
    print_rows(format, ["context"], rows)
