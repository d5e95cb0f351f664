"""The codec of a schema, by its type."""

from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import SchemaType
from headrace.serde.codec.codec import Codec


def codec_of(schema: ParsedSchema) -> Codec:
    """Return a codec for a schema.

    Raises:
        ConfigError: the library of the format is not installed.
    """
    match schema.type:
        case SchemaType.AVRO:
            from headrace.serde.codec.avro import AvroCodec

            return AvroCodec(schema)
        case SchemaType.JSON:
            from headrace.serde.codec.json_schema import JsonSchemaCodec

            return JsonSchemaCodec(schema)
        case SchemaType.PROTOBUF:
            from headrace.serde.codec.protobuf import ProtobufCodec

            return ProtobufCodec(schema)
