"""The text that a schema is stored and compared as."""

import base64

import pytest
from google.protobuf import descriptor_pool, json_format, message_factory, timestamp_pb2

from headrace.schema.error import InvalidSchema
from headrace.schema.parse import parse
from headrace.schema.parsed import ParsedSchema
from headrace.schema.protobuf.parsed import ProtobufSchema
from headrace.schema.schema import Reference, SchemaText, SchemaType


def read(kind: str, text: str, resolved: dict[str, str] | None = None) -> ParsedSchema:
    return parse(SchemaText(SchemaType(kind), text), resolved)


AVRO = {
    "spaces go": (' { "type" : "string" } ', '"string"'),
    "a name": ('"long"', '"long"'),
    "keys come in Java's order": (
        '{"fields": [{"type": "int", "name": "a"}], "name": "R", "type": "record"}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}',
    ),
    "a full name is split": (
        '{"type": "record", "name": "a.b.R", "fields": []}',
        '{"type":"record","name":"R","namespace":"a.b","fields":[]}',
    ),
    "a superfluous namespace goes": (
        '{"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "f",'
        ' "type": {"type": "enum", "name": "E", "namespace": "n", "symbols": ["A"]}}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f",'
        '"type":{"type":"enum","name":"E","symbols":["A"]}}]}',
    ),
    "a type of no namespace inside one": (
        '{"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "f",'
        ' "type": {"type": "fixed", "name": "F", "namespace": "", "size": 2}}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f",'
        '"type":{"type":"fixed","name":"F","namespace":"","size":2}}]}',
    ),
    "a name used again is short in its namespace": (
        '{"type": "record", "name": "R", "namespace": "n",'
        ' "fields": [{"name": "next", "type": ["null", "n.R"]}]}',
        '{"type":"record","name":"R","namespace":"n",'
        '"fields":[{"name":"next","type":["null","R"]}]}',
    ),
    "docs, defaults, order, aliases and other attributes stay": (
        '{"type": "record", "name": "R", "doc": "d", "aliases": ["Q"], "x": 1, "fields": [{"name":'
        ' "a", "type": "string", "y": [1.50], "aliases": ["b"], "order": "ignore", "default": "",'
        ' "doc": "e"}]}',
        '{"type":"record","name":"R","doc":"d","fields":[{"name":"a","type":"string","doc":"e",'
        '"default":"","order":"ignore","aliases":["b"],"y":[1.5]}],"x":1,"aliases":["Q"]}',
    ),
    "numbers are written as Java's": (
        '{"type": "string", "x": [1.50, 1e3, 1e10, 0.00001, -0.0, 12345678.9, 5]}',
        '{"type":"string","x":[1.5,1000.0,1.0E10,1.0E-5,-0.0,1.23456789E7,5]}',
    ),
    "NaN as a default": (
        '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "double",'
        ' "default": "NaN"}]}',
        '{"type":"record","name":"R","fields":[{"name":"f","type":"double","default":"NaN"}]}',
    ),
    "a name before its definition": (
        '[{"type": "map", "values": "E"}, {"type": "enum", "name": "E", "symbols": ["A"]}]',
        '[{"type":"map","values":{"type":"enum","name":"E","symbols":["A"]}},"E"]',
    ),
    "a logical type": (
        '{"logicalType": "decimal", "type": "bytes", "precision": 4, "scale": 2}',
        '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}',
    ),
    "non-ASCII stays": (
        '{"type": "record", "name": "R", "doc": "Zürich", "fields": []}',
        '{"type":"record","name":"R","doc":"Zürich","fields":[]}',
    ),
    "an enum with a default": (
        '{"default": "A", "symbols": ["A", "B"], "name": "E", "type": "enum"}',
        '{"type":"enum","name":"E","symbols":["A","B"],"default":"A"}',
    ),
    "containers": (
        '{"type": "map", "values": {"type": "array", "items": "int"}}',
        '{"type":"map","values":{"type":"array","items":"int"}}',
    ),
}


@pytest.mark.parametrize("text, canonical", AVRO.values(), ids=AVRO.keys())
def test_avro_is_stored_as_java_writes_it(text: str, canonical: str) -> None:
    assert read("AVRO", text).canonical == canonical
    assert read("AVRO", canonical).canonical == canonical


def test_normalised_avro_has_sorted_attributes_and_aliases_and_no_empty_doc() -> None:
    text = (
        '{"type": "record", "name": "R", "doc": "", "z": 1, "aliases": ["Q", "P"], "b": {"y": 1,'
        ' "x": 2}, "fields": [{"name": "m", "type": {"type": "map", "values": "int"},'
        ' "default": {"b": 1, "a": 2}}]}'
    )
    assert read("AVRO", text).normalized == (
        '{"type":"record","name":"R","fields":[{"name":"m","type":{"type":"map","values":"int"},'
        '"default":{"a":2,"b":1}}],"b":{"x":2,"y":1},"z":1,"aliases":["P","Q"]}'
    )


def test_avro_types_of_references_stay_names_unless_they_are_asked_for() -> None:
    city = '{"type": "record", "name": "City", "namespace": "geo", "fields": []}'
    person = (
        '{"type": "record", "name": "Person", "namespace": "org",'
        ' "fields": [{"name": "home", "type": "geo.City"}]}'
    )
    schema = read("AVRO", person, {"geo.City": city})
    assert '"type":"geo.City"' in schema.canonical
    assert '"name":"City","namespace":"geo"' in schema.formatted("resolved")


def test_json_keeps_the_order_of_keys_and_numbers_as_written() -> None:
    schema = read("JSON", '{ "type": "number", "minimum": 1.10, "maximum": 1e3, "title": "T" }')
    assert schema.canonical == '{"type":"number","minimum":1.10,"maximum":1e3,"title":"T"}'
    assert schema.normalized == '{"maximum":1e3,"minimum":1.10,"title":"T","type":"number"}'
    assert schema.name == "T"


PROTO = """// a comment
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
option java_package = "org.shop";
enum Kind { NONE = 0; /* another */ SOME = 1; }
message Order {
  string id = 2 [json_name = "key", deprecated = true];
  repeated Line lines = 1;
  oneof paid { int64 cents = 4; string voucher = 3; }
  map<string, Kind> kinds = 5;
  google.protobuf.Timestamp at = 6;
  reserved 9 to 11, "old";
  message Line { int32 count = 1; }
}
"""


def test_protobuf_is_stored_in_one_form() -> None:
    schema = read("PROTOBUF", PROTO)
    assert (
        schema.canonical
        == """syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";

option java_package = "org.shop";

message Order {
  reserved 9 to 11, "old";

  string id = 2 [
    deprecated = true,
    json_name = "key"
  ];
  repeated Line lines = 1;
  map<string, Kind> kinds = 5;
  google.protobuf.Timestamp at = 6;

  oneof paid {
    int64 cents = 4;
    string voucher = 3;
  }

  message Line {
    int32 count = 1;
  }
}
enum Kind {
  NONE = 0;
  SOME = 1;
}
"""
    )
    assert read("PROTOBUF", schema.canonical).canonical == schema.canonical
    assert schema.name == "shop.Order"


def test_normalised_protobuf_is_sorted_by_number_with_full_names() -> None:
    normal = read("PROTOBUF", PROTO).normalized
    assert normal.index("lines = 1") < normal.index("id = 2")
    assert normal.index("voucher = 3") < normal.index("cents = 4")
    assert "repeated .shop.Order.Line lines" in normal
    assert "map<string, .shop.Kind> kinds" in normal
    assert read("PROTOBUF", normal).normalized == normal


def test_protobuf_as_a_descriptor_and_back() -> None:
    schema = read("PROTOBUF", PROTO)
    again = read("PROTOBUF", schema.formatted("serialized"))
    assert again.normalized == schema.normalized


def test_a_descriptor_is_one_that_protobuf_itself_takes() -> None:
    data = base64.b64decode(read("PROTOBUF", PROTO).formatted("serialized"))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(data)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    message = order(id="a", lines=[{"count": 2}], kinds={"k": 1}, voucher="v", at={"seconds": 3})
    again = order.FromString(message.SerializeToString())
    assert again.WhichOneof("paid") == "voucher" and again.kinds["k"] == 1
    assert json_format.MessageToDict(again)["key"] == "a"


def test_message_indexes_name_messages() -> None:
    schema = read("PROTOBUF", "message A { message B {} message C { message D {} } } message E {}")
    names = [schema.message_name(each) for each in ([0], [1], [0, 1], [0, 1, 0], [2], [0, 5])]
    assert names == ["A", "E", "A.C", "A.C.D", None, None]


def test_messages_have_indexes() -> None:
    text = "message A { message B {} message C { message D {} } } message E {}"
    schema = read("PROTOBUF", f"package p.q; {text}")
    assert isinstance(schema, ProtobufSchema)
    names = ["p.q.A", "A", "E", "p.q.A.C.D", "A.X", "q.A", ""]
    found = [schema.message_indexes(each) for each in names]
    assert found == [(0,), (0,), (1,), (0, 1, 0), None, None, None]


def test_references_are_sorted_once_each_when_normalised() -> None:
    references = (Reference("b", "s", 1), Reference("a", "s", 1), Reference("b", "s", 1))
    schema = parse(SchemaText(SchemaType.AVRO, '"int"', references))
    assert [each.name for each in schema.normalized_references] == ["a", "b"]


def test_a_form_that_the_type_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="no format"):
        read("JSON", "{}").formatted("serialized")
