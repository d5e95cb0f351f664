"""A schema as it is handed in: the text of a .proto file, or a FileDescriptorProto in base64."""

import base64
import binascii
import re
from typing import Final

from headrace.schema.error import InvalidSchema
from headrace.schema.protobuf.parser import ProtoParser
from headrace.schema.protobuf.tree import ProtoFile

# No .proto file has only these characters: even an empty message has braces.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}")


def read_source(text: str) -> ProtoFile:
    """Return the tree of a file in either form."""
    if not text.strip():
        raise InvalidSchema("the schema is empty")
    if _BASE64.fullmatch(text.strip()):
        return _from_base64(text)
    return ProtoParser(text).file()


def _from_base64(text: str) -> ProtoFile:
    # google.protobuf is loaded only for schemas that are handed in as descriptors.
    from headrace.schema.protobuf.descriptor_reader import read_descriptor

    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error:
        raise InvalidSchema("the schema is neither a .proto file nor base64") from None
    return read_descriptor(data)
