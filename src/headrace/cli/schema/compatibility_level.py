"""`headrace schema compatibility-level`: which changes of a schema the registry accepts."""

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


class Level(StrEnum):
    """Who must be able to read what; docs/schemas.md explains them."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


@app.command(
    epilog=epilog("""
Examples:

  headrace schema compatibility-level get                   of subjects without their own

  headrace schema compatibility-level get clicks-value orders-value --global
""")
)
def get(
    subjects: OptionalSubjects = None,
    everywhere: GlobalOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Show the level that holds."""
    with connect_admin(registry, setting) as admin:
        rows, refused = each_subject(scopes(subjects, everywhere), admin.level)
    print_scopes(format, "level", rows, refused)


@app.command(
    "set",
    epilog=epilog("""
Examples:

  headrace schema compatibility-level set clicks-value --level FULL

  headrace schema compatibility-level set --level BACKWARD_TRANSITIVE     for all without their own
"""),
)
def set_level(
    level: Annotated[Level, typer.Option("--level", case_sensitive=False, help="The new level.")],
    subjects: OptionalSubjects = None,
    everywhere: GlobalOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Set the level of subjects, or of all without their own."""
    with connect_admin(registry, setting) as admin:

        def change(subject: str | None) -> str:
            admin.set_level(level.value, subject)
            return level.value

        rows, refused = each_subject(scopes(subjects, everywhere), change)
    print_scopes(format, "level", rows, refused)


@app.command(
    epilog=epilog("""
Examples:

  headrace schema compatibility-level reset clicks-value    the global level holds again
""")
)
def reset(
    subjects: OptionalSubjects = None,
    everywhere: GlobalOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Remove the level of subjects, and show what holds instead."""
    with connect_admin(registry, setting) as admin:

        def change(subject: str | None) -> str:
            admin.reset_level(subject)
            return admin.level(subject)

        rows, refused = each_subject(scopes(subjects, everywhere), change)
    print_scopes(format, "level", rows, refused)
