"""`headrace schema mode`: whether schemas may be registered."""

from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli.schema.argument import (
    GlobalOption,
    OptionalSubjects,
    connect_admin,
    each_subject,
    print_scopes,
    scopes,
)
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.registry_option import RegistryOption, RegistrySettingsOption

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


class Mode(StrEnum):
    """What may be written."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    IMPORT = "IMPORT"


@app.command(
    epilog=epilog("""
Examples:

  headrace schema mode get                                  of subjects without their own

  headrace schema mode get clicks-value --global
""")
)
def get(
    subjects: OptionalSubjects = None,
    everywhere: GlobalOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Show the mode that holds."""
    with connect_admin(registry, setting) as admin:
        rows, refused = each_subject(scopes(subjects, everywhere), admin.mode)
    print_scopes(format, "mode", rows, refused)


@app.command(
    "set",
    epilog=epilog("""
Examples:

  headrace schema mode set clicks-value --mode READONLY

  headrace schema mode set --mode IMPORT                    an empty registry takes ids of another

  headrace schema mode set --mode IMPORT --force            although there are schemas
"""),
)
def set_mode(
    mode: Annotated[Mode, typer.Option("--mode", case_sensitive=False, help="The new mode.")],
    subjects: OptionalSubjects = None,
    everywhere: GlobalOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="IMPORT although there are schemas.")
    ] = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Set the mode of subjects, or of all without their own."""
    with connect_admin(registry, setting) as admin:

        def change(subject: str | None) -> str:
            admin.set_mode(mode.value, subject, force=force)
            return mode.value

        rows, refused = each_subject(scopes(subjects, everywhere), change)
    print_scopes(format, "mode", rows, refused)


@app.command(
    epilog=epilog("""
Examples:

  headrace schema mode reset clicks-value                   the global mode holds again
""")
)
def reset(
    subjects: OptionalSubjects = None,
    everywhere: GlobalOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Remove the mode of subjects, and show what holds instead."""
    with connect_admin(registry, setting) as admin:

        def change(subject: str | None) -> str:
            admin.reset_mode(subject)
            return admin.mode(subject)

        rows, refused = each_subject(scopes(subjects, everywhere), change)
    print_scopes(format, "mode", rows, refused)
