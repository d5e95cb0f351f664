"""How a request names the schema of its keys or values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.gateway.rest.error import RestError, bad_request, unprocessable
from headrace.schema.schema import SchemaType
from headrace.serde.subject_name import SubjectNameStrategy

TYPES: Final = {
    "AVRO": SchemaType.AVRO,
    "JSONSCHEMA": SchemaType.JSON,
    "PROTOBUF": SchemaType.PROTOBUF,
}
"""The types of API v3. Those of API v2 are the same in small letters."""

MOST_SCHEMA_CHARACTERS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SchemaSelector:
    """Which schema is meant: a text, an id, a version of a subject, or the latest of a subject.

    Attributes:
        type: None if the request leaves it to the schema.
        strategy: names the subject where the request does not.
    """

    type: SchemaType | None
    text: str | None = None
    id: int | None = None
    version: int | None = None
    subject: str | None = None
    strategy: SubjectNameStrategy = SubjectNameStrategy.TOPIC_NAME


def read_v3(field: Mapping[str, Any], part: str) -> SchemaSelector:
    """Return what a key or a value of API v3 names.

    Raises:
        RestError: 400, its fields contradict each other.
    """
    kind = field.get("type")
    text, subject = field.get("schema"), field.get("subject")
    number, version = field.get("schema_id"), field.get("schema_version")
    strategy = field.get("subject_name_strategy")
    if kind is not None and kind not in TYPES:
        raise bad_request(f"The type of {part} has to be AVRO, JSONSCHEMA or PROTOBUF.")
    if sum(each is not None for each in (text, number, version)) > 1:
        raise bad_request(f"{part} has to have one of schema, schema_id and schema_version.")
    if subject is not None and strategy is not None:
        raise bad_request(f"{part} has to have one of subject and subject_name_strategy.")
    if text is not None and kind is None:
        raise bad_request(f"{part} has a schema, and needs a type: AVRO, JSONSCHEMA or PROTOBUF.")
    if text is not None and not _is_text(text):
        raise bad_request(f"The schema of {part} has to be a text.")
    if subject is not None and not _is_text(subject):
        raise bad_request(f"The subject of {part} has to be a text.")
    for each in (number, version):
        if each is not None and not _is_number(each):
            raise bad_request(f"schema_id and schema_version of {part} have to be numbers.")
    try:
        named = SubjectNameStrategy(strategy or SubjectNameStrategy.TOPIC_NAME)
    except ValueError:
        raise bad_request(
            f"The subject_name_strategy of {part} has to be TOPIC_NAME, RECORD_NAME or "
            "TOPIC_RECORD_NAME."
        ) from None
    if named is not SubjectNameStrategy.TOPIC_NAME and text is None and number is None:
        raise bad_request(f"{named.value} needs a schema or a schema_id of {part}.")
    type_ = None if kind is None else TYPES[kind]
    return SchemaSelector(type_, text, number, version, subject, named)


def read_v2(document: Mapping[str, Any], form: str, part: str) -> SchemaSelector | None:
    """Return what a request of API v2 names for its keys or its values; None if nothing.

    Raises:
        RestError: 42205, it is no schema.
    """
    text, number = document.get(f"{part}_schema"), document.get(f"{part}_schema_id")
    type_ = TYPES[form.upper()]
    if number is not None:
        if not _is_number(number):
            raise unprocessable(f"{part}_schema_id has to be a number.", 42205)
        return SchemaSelector(type_, id=number)
    if text is None:
        return None
    if not _is_text(text):
        raise unprocessable(f"{part}_schema has to be a text.", 42205)
    return SchemaSelector(type_, text=text)


def missing(part: str) -> RestError:
    """Return the error of keys or values in API v2 without a schema."""
    code = 42201 if part == "key" else 42202
    return unprocessable(
        f"Request includes {part}s but does not include a {part} schema: write {part}_schema or "
        f"{part}_schema_id.",
        code,
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MOST_SCHEMA_CHARACTERS


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
