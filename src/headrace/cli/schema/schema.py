"""`headrace schema`: register, show, compare and delete schemas."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.schema import compatibility_level, context, mode, subject
from headrace.cli.schema.argument import (
    DeletedOption,
    OptionalSubjects,
    PermanentOption,
    SubjectArgument,
    connect_admin,
    parse_version,
)
from headrace.cli.schema.layout import difference, laid_out
from headrace.cli.schema.schema_file import (
    OptionalSchemaFile,
    ReferencesOption,
    SchemaFileOption,
    TypeOption,
    read_schema,
)
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.output import print_json, print_rows, print_table
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.registry_option import (
    RegistryOption,
    RegistrySettingsOption,
    connect_registry,
)
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.serde.registry_admin import SchemaVersion

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
app.add_typer(subject.app, name="subject", help="List and delete subjects.")
app.add_typer(
    compatibility_level.app,
    name="compatibility-level",
    help="Show and set which changes are accepted.",
)
app.add_typer(mode.app, name="mode", help="Show and set whether schemas may be registered.")
app.add_typer(context.app, name="context", help="List contexts.")

_COLUMNS = ("subject", "version", "id", "type")
VersionOption = Annotated[
    str | None,
    typer.Option("--schema-version", metavar="VERSION", help="A number, or latest."),
]
RequiredVersion = Annotated[
    str, typer.Option("--schema-version", metavar="VERSION", help="A number, or latest.")
]


@app.command(
    epilog=epilog("""
Examples:

  headrace schema create clicks-value --schema click.avsc

  headrace schema create orders-value --schema order.proto --references user.proto:users-value:1

  jq .schema answer.json | headrace schema create users-value --schema - --type json
""")
)
def create(
    name: SubjectArgument,
    schema: SchemaFileOption,
    kind: TypeOption = None,
    references: ReferencesOption = None,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Register a schema as the next version of a subject, unless it is there."""
    text = read_schema(schema, kind, references)
    with connect_registry(registry, setting, alone=True) as client:
        found = client.register(name, text)
        if found.version is None:  # an older registry says the id alone
            found = client.lookup(name, text)
    row = (name, found.version, found.id, found.type.value)
    print_rows(format, _COLUMNS, [row])


@app.command(
    epilog=epilog("""
Examples:

  headrace schema get clicks-value                          the latest version

  headrace schema get clicks-value --schema-version 2 --print-schema > click-2.avsc

  headrace schema get --id 7                                where the id of a record is registered

  headrace schema get clicks-value --schema click.avsc      which version this file is
""")
)
def get(
    name: Annotated[str | None, typer.Argument(metavar="SUBJECT")] = None,
    version: VersionOption = None,
    schema_id: Annotated[int | None, typer.Option("--id", min=0, help="A schema's id.")] = None,
    schema: OptionalSchemaFile = None,
    kind: TypeOption = None,
    references: ReferencesOption = None,
    deleted: DeletedOption = False,
    print_schema: Annotated[
        bool, typer.Option("--print-schema", help="Print the schema alone.")
    ] = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Show a schema: by subject and version, by its id, or by its text."""
    if sum(each is not None for each in (version, schema_id, schema)) > 1:
        raise InvalidArgument("--schema-version, --id and --schema each name a schema: give one")
    if name is None and schema_id is None:
        raise InvalidArgument("say which schema: a SUBJECT, or --id ID")
    number = parse_version(version or "latest")
    text = None if schema is None else read_schema(schema, kind, references)
    with connect_admin(registry, setting) as admin:
        if schema_id is not None:
            found = admin.of_id(schema_id, name, deleted=deleted)
        elif text is not None:
            found = [admin.lookup(name or "", text, deleted=deleted)]
        else:
            found = [admin.version(name or "", number, deleted=deleted)]
    if print_schema:
        # All of them have the same text: an id has one.
        print(laid_out(found[0].text))
    elif format is OutputFormat.JSON:
        print_json([_entity(each) for each in found])
    else:
        print_table(_COLUMNS, [_row(each) for each in found])


def _row(version: "SchemaVersion") -> tuple[Any, ...]:
    return version.subject, version.version, version.id, version.text.type.value


def _entity(version: "SchemaVersion") -> dict[str, Any]:
    return {
        **dict(zip(_COLUMNS, _row(version), strict=True)),
        "guid": version.guid,
        "deleted": version.deleted,
        "references": [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in version.text.references
        ],
        "schema": version.text.text,
    }


@app.command(
    "list",
    epilog=epilog("""
Examples:

  headrace schema list                                      all versions of all subjects

  headrace schema list clicks-value orders-value --deleted
"""),
)
def list_schemas(
    names: OptionalSubjects = None,
    deleted: DeletedOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """List the versions of subjects."""
    with connect_admin(registry, setting) as admin:
        if not names:
            found = admin.schemas(deleted=deleted)
        else:
            found = [
                admin.version(name, number, deleted=deleted)
                for name in dict.fromkeys(names)
                for number in admin.versions(name, deleted=deleted)
            ]
    headings: Sequence[str] = (*_COLUMNS, "deleted") if deleted else _COLUMNS
    rows = [(*_row(each), each.deleted) if deleted else _row(each) for each in found]
    print_rows(format, headings, rows)


@app.command(
    epilog=epilog("""
Examples:

  headrace schema delete clicks-value --schema-version 2

  headrace schema delete clicks-value --schema-version 2 --permanent      then for good

  headrace schema delete clicks-value                       all versions, as subject delete

A version that is deleted can still be read by its id. One that others use cannot be deleted.
""")
)
def delete(
    name: SubjectArgument,
    version: VersionOption = None,
    permanent: PermanentOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Delete a version, or all of a subject."""
    number = None if version is None else parse_version(version)
    with connect_admin(registry, setting) as admin:
        if number is None:
            gone = admin.delete_subject(name, permanent=permanent)
        else:
            gone = [admin.delete_version(name, number, permanent=permanent)]
    print_rows(format, ["subject", "version"], [(name, each) for each in gone])


@app.command(
    epilog=epilog("""
Examples:

  headrace schema references users-value --schema-version 1     who uses it
""")
)
def references(
    name: SubjectArgument,
    version: RequiredVersion = "latest",
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """List the schemas that use a version of a subject."""
    number = parse_version(version)
    with connect_admin(registry, setting) as admin:
        found = [each for one in admin.referrers(name, number) for each in admin.of_id(one, None)]
    print_rows(format, _COLUMNS, [_row(each) for each in found])


@app.command(
    "check-compatibility",
    epilog=epilog("""
Examples:

  headrace schema check-compatibility clicks-value --schema click.avsc

  headrace schema check-compatibility clicks-value --schema click.avsc --schema-version 3

Without --schema-version it is compared with all versions that the subject's level looks at, as a
registration is. Exit code 1 if it is not compatible: a step of a build can call it.
"""),
)
def check_compatibility(
    name: SubjectArgument,
    schema: SchemaFileOption,
    version: VersionOption = None,
    kind: TypeOption = None,
    references: ReferencesOption = None,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Say whether a schema could be registered, and if not, what to change."""
    number = None if version is None else parse_version(version)
    text = read_schema(schema, kind, references)
    with connect_admin(registry, setting) as admin:
        objections = admin.objections(name, text, number)
    if format is OutputFormat.JSON:
        print_json({"compatible": objections is None, "messages": objections or []})
    else:
        print("compatible" if objections is None else "not compatible")
        for each in objections or ():
            print(each)
    if objections is not None:
        raise typer.Exit(1)


@app.command(
    epilog=epilog("""
Examples:

  headrace schema diff clicks-value 1 2

  headrace schema diff clicks-value 1 latest
""")
)
def diff(
    name: SubjectArgument,
    before: Annotated[str, typer.Argument(metavar="VERSION")],
    after: Annotated[str, typer.Argument(metavar="VERSION")],
    deleted: DeletedOption = False,
    format: FormatOption = OutputFormat.TEXT,
    registry: RegistryOption = None,
    setting: RegistrySettingsOption = None,
) -> None:
    """Show how two versions differ, line by line."""
    numbers = parse_version(before), parse_version(after)
    with connect_admin(registry, setting) as admin:
        old, new = (admin.version(name, each, deleted=deleted) for each in numbers)
    names = f"{name} version {old.version}", f"{name} version {new.version}"
    lines = difference(old.text, new.text, names)
    if format is OutputFormat.JSON:
        print_json({"subject": name, "from": old.version, "to": new.version, "lines": lines})
    else:
        print("\n".join(lines) if lines else f"{names[0]} and {new.version} are equal")
