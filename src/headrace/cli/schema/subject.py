"""`headrace schema subject`: the names under which schemas are registered."""

import typer

from headrace.cli.schema.argument import (
    DeletedOption,
    PermanentOption,
    SubjectsArgument,
    connect_admin,
    each_subject,
)
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.output import print_rows
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.registry_option import RegistryOption, RegistrySettingsOption

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.command(
    "list",
    epilog=epilog("""
Examples:

  headrace schema subject list

  headrace schema subject list --deleted --format json
"""),
)
def list_subjects(
    deleted: DeletedOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """List subjects."""
    with connect_admin(registry, setting) as admin:
        rows = [(each,) for each in admin.subjects(deleted=deleted)]
    print_rows(format, ["subject"], rows)


@app.command(
    epilog=epilog("""
Examples:

  headrace schema subject delete clicks-value               its versions can still be read by id

  headrace schema subject delete clicks-value --permanent   then for good
""")
)
def delete(
    subjects: SubjectsArgument,
    permanent: PermanentOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Delete subjects with all their versions."""
    with connect_admin(registry, setting) as admin:
        rows, refused = each_subject(
            subjects, lambda subject: admin.delete_subject(subject or "", permanent=permanent)
        )
    print_rows(format, ["subject", "versions", "status"], rows)
    if refused:
        raise typer.Exit(1)
