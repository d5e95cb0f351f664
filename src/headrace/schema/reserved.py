"""Field names that a schema's metadata reserves (`confluent:reserved`) against later use."""

from collections.abc import Iterable, Iterator

from headrace.schema.incompatibility import Incompatibility, Roles


def reserved_reasons(
    kind: str,
    reader: frozenset[str],
    writer: frozenset[str],
    fields: Iterable[str],
    path: str,
    roles: Roles,
) -> Iterator[Incompatibility]:
    """Yield names that are no longer reserved, and fields of the reader that use a reserved one.

    Args:
        kind: FIELD (Avro) or PROPERTY (JSON Schema), as the incompatibility's type has it.
        path: where the fields are in the schema.
    """
    for name in sorted(writer - reader):
        yield Incompatibility(
            f"RESERVED_{kind}_REMOVED",
            name,
            f"the metadata of the {roles.reader} schema no longer reserves {name!r};"
            " keep it in confluent:reserved",
        )
    for name in sorted(reader & set(fields)):
        yield Incompatibility(
            f"RESERVED_{kind}_CONFLICTS_WITH_{kind}",
            f"{path}/{name}",
            f"the {roles.reader} schema uses {name!r}, which its metadata reserves;"
            " give the field another name",
        )
