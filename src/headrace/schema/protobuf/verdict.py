"""The verdict on two Protobuf schemas, each difference with a sentence that says what to change."""

from collections.abc import Iterator
from typing import Final

from headrace.schema.incompatibility import Incompatibility, Roles
from headrace.schema.limit import MAX_SHOWN_CHARACTERS, WorkLimit
from headrace.schema.protobuf.comparison import ProtobufComparison
from headrace.schema.protobuf.parsed import ProtobufSchema

# {reader} and {writer} are "new" and "earlier", or the reverse.
_SENTENCES: Final = {
    "PACKAGE_CHANGED": "the package differs between the {reader} and the {writer} schema; keep it",
    "MESSAGE_REMOVED": "the message {path} of the {writer} schema is not in the {reader}; keep it",
    "FIELD_KIND_CHANGED": (
        "the field {path} changed between a scalar, a map and a message;"
        " keep its type, and give the other one a new number"
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "the type of the field {path} in the {reader} schema is read differently from the wire than"
        " that in the {writer}; keep its type, and give the other one a new number"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "the message of the field {path} in the {reader} schema cannot read that of the {writer};"
        " keep it, and give the other one a new number"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "the field {path} is a list of numbers in one schema and a number in the other;"
        " keep its label, and give the other one a new number"
    ),
    "REQUIRED_FIELD_ADDED": (
        "the required field {path} of the {reader} schema is not in the {writer}; make it optional"
    ),
    "REQUIRED_FIELD_REMOVED": (
        "the required field {path} of the {writer} schema is not in the {reader}; keep it"
    ),
    "ONEOF_FIELD_REMOVED": (
        "the field {path} of a oneof of the {writer} schema is not in the {reader}; keep it"
    ),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "two or more fields of the {writer} schema are in the oneof {path} of the {reader},"
        " and records may have set both; move one field only"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "a field of the {writer} schema is in the oneof {path} of the {reader}, which had fields"
        " before; move it into a new oneof"
    ),
}


def protobuf_reasons(
    reader: ProtobufSchema, writer: ProtobufSchema, roles: Roles, limit: WorkLimit
) -> Iterator[Incompatibility]:
    """Yield why a reader with one schema cannot read what a writer with the other writes."""
    if reader.file.package != writer.file.package:
        yield _reason("PACKAGE_CHANGED", "#/", roles)
    comparison = ProtobufComparison(writer.scope, reader.scope, limit)
    packages = writer.file.package, reader.file.package
    for each in comparison.types(writer.file.types, reader.file.types, packages):
        path = "/".join(step[:MAX_SHOWN_CHARACTERS] for step in each.path)
        yield _reason(each.type, f"#/{path}", roles)


def _reason(kind: str, path: str, roles: Roles) -> Incompatibility:
    sentence = _SENTENCES[kind].format(path=path, reader=roles.reader, writer=roles.writer)
    return Incompatibility(kind, path, sentence)
