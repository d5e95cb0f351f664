"""From a text to a parsed schema of its type."""

from collections.abc import Mapping

from headrace.schema.avro.parsed import AvroSchema
from headrace.schema.error import InvalidSchema
from headrace.schema.json_schema.parsed import JsonSchema
from headrace.schema.limit import check_size
from headrace.schema.parsed import ParsedSchema
from headrace.schema.protobuf.parsed import ProtobufSchema
from headrace.schema.schema import SchemaText, SchemaType


def parse(text: SchemaText, resolved: Mapping[str, str] | None = None) -> ParsedSchema:
    """Read a schema.

    Args:
        text: the schema as it was handed in.
        resolved: the texts of all referenced schemas by the names of the references, those of
            references' references included.

    Raises:
        InvalidSchema: the text is no schema of its type, or past a limit.
    """
    references = resolved or {}
    check_size(text.text, references)
    try:
        schema = _read(text, references)
        # A lone surrogate can be escaped in JSON, and no record can hold it.
        schema.canonical.encode()
    except RecursionError:
        raise InvalidSchema(
            "the schema and its references are nested too deep; make them flatter"
        ) from None
    except UnicodeEncodeError:
        raise InvalidSchema("the schema holds half of a surrogate pair, which is no text") from None
    return schema


def _read(text: SchemaText, resolved: Mapping[str, str]) -> ParsedSchema:
    match text.type:
        case SchemaType.AVRO:
            return AvroSchema(text, resolved)
        case SchemaType.JSON:
            return JsonSchema(text, resolved)
        case SchemaType.PROTOBUF:
            return ProtobufSchema(text, resolved)
