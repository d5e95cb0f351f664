"""The verdict on two JSON Schemas, each difference with a sentence that says what to change."""

from collections.abc import Iterator
from typing import Final

from headrace.schema.incompatibility import Incompatibility, Roles
from headrace.schema.json_schema.comparison import Comparison
from headrace.schema.json_schema.node import Object, followed
from headrace.schema.json_schema.parsed import JsonSchema
from headrace.schema.json_schema.schema_difference import schema_differences
from headrace.schema.limit import MAX_SHOWN_CHARACTERS, WorkLimit
from headrace.schema.reserved import reserved_reasons

# By the type's ending, the first that fits. {reader} and {writer} are "new" and "earlier", or the
# reverse.
_SENTENCES: Final = {
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": (
        "the property at {path} of the {reader} schema is not in the {writer}, which allows any"
        " further property, so records may hold anything under its name; close the content model"
        " (additionalProperties: false) from the first version on, or use the LENIENT policy"
    ),
    "ADDED_TO_OPEN_CONTENT_MODEL": (
        "the {reader} schema has {path}, the {writer} does not and allows anything there;"
        " make it optional and close the content model from the first version on"
    ),
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": (
        "the required property at {path} of the {reader} schema is not in the {writer};"
        " make it optional, or give it a default"
    ),
    "REMOVED_FROM_CLOSED_CONTENT_MODEL": (
        "the {writer} schema has {path}, the {reader} does not and allows nothing further;"
        " keep it, or open the content model"
    ),
    "NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "{path} is in one schema only, and the other's additionalProperties, patternProperties or"
        " additionalItems do not fit it; give both the same type"
    ),
    "REQUIRED_ATTRIBUTE_ADDED": (
        "{path} is required in the {reader} schema and optional in the {writer};"
        " keep it optional, or give the property a default"
    ),
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": (
        "a branch of the combined schema at {path} has no compatible partner in the"
        " {reader} schema; keep the branches, and add new ones instead of changing them"
    ),
    "COMBINED_TYPE_CHANGED": (
        "the combined schema at {path} changed between allOf, anyOf and oneOf; keep it"
    ),
    "PRODUCT_TYPE_EXTENDED": (
        "the allOf at {path} has more branches in the {reader} schema; leave the further ones out"
    ),
    "SUM_TYPE_NARROWED": (
        "the anyOf or oneOf at {path} has fewer branches in the {reader} schema; keep them all"
    ),
    "NOT_TYPE_EXTENDED": (
        "what {path} of the {reader} schema rules out was allowed by the {writer};"
        " rule out no more than before"
    ),
    "ENUM_ARRAY_NARROWED": (
        "the enum at {path} of the {reader} schema lacks values of the {writer}; keep them"
    ),
    "ENUM_ARRAY_CHANGED": (
        "the values at {path} differ between the {reader} and the {writer} schema;"
        " keep the old ones and add new ones"
    ),
    "TYPE_NARROWED": "{path} is an integer in the {reader} schema and a number in the {writer};"
    " keep it a number",
    "TYPE_CHANGED": "the type at {path} differs between the {reader} and the {writer} schema;"
    " keep it, or add a property with another name",
    "SCHEMA_ADDED": "the {reader} schema limits {path}, which the {writer} does not;"
    " leave the limit out",
    "_REMOVED": "the {reader} schema no longer allows what {path} allowed; keep it open",
    "_NARROWED": "the {reader} schema limits {path}, which the {writer} leaves open;"
    " leave the limit out",
    "_ADDED": "the {reader} schema has {path}, which the {writer} does not have;"
    " leave the constraint out",
    "_INCREASED": "{path} is higher in the {reader} schema than in the {writer};"
    " keep it, or lower it",
    "_DECREASED": "{path} is lower in the {reader} schema than in the {writer};"
    " keep it, or raise it",
    "_EXPANDED": "{path} of the {reader} schema is a multiple of the {writer} one; keep it",
    "_EXTENDED": "{path} of the {reader} schema asks for more than that of the {writer}; keep it",
    "_CHANGED": "{path} differs between the {reader} and the {writer} schema; keep it",
}


def json_reasons(
    reader: JsonSchema, writer: JsonSchema, roles: Roles, lenient: bool, limit: WorkLimit
) -> Iterator[Incompatibility]:
    """Yield why a reader with one schema cannot take what a writer with the other writes."""
    root = followed(reader.root)
    names = list(root.properties) if isinstance(root, Object) else []
    yield from reserved_reasons(
        "PROPERTY", reader.reserved, writer.reserved, names, "#/properties", roles
    )
    for each in Comparison(schema_differences, lenient, limit).compare(writer.root, reader.root):
        path = "#/" + "/".join(step[:MAX_SHOWN_CHARACTERS] for step in each.path)
        yield Incompatibility(each.type, path, _sentence(each.type, path, roles))


def _sentence(kind: str, path: str, roles: Roles) -> str:
    for ending, sentence in _SENTENCES.items():
        if kind.endswith(ending):
            return sentence.format(path=path, reader=roles.reader, writer=roles.writer)
    return f"{path} differs between the {roles.reader} and the {roles.writer} schema; keep it"
