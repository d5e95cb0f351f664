"""Files that every schema may import without a reference: Google's and Confluent's.

Names, numbers and types are the published ones. Of `descriptor.proto` only what an extension can
extend is here, since schemas import it for that.
"""

from typing import Final

_OPTIONS: Final = "\n".join(
    f"message {kind}Options {{ extensions 1000 to max; }}"
    for kind in (
        "File",
        "Message",
        "Field",
        "Oneof",
        "Enum",
        "EnumValue",
        "Service",
        "Method",
        "ExtensionRange",
    )
)
_WRAPPERS: Final = "\n".join(
    f"message {name}Value {{ {kind} value = 1; }}"
    for name, kind in {
        "Double": "double",
        "Float": "float",
        "Int64": "int64",
        "UInt64": "uint64",
        "Int32": "int32",
        "UInt32": "uint32",
        "Bool": "bool",
        "String": "string",
        "Bytes": "bytes",
    }.items()
)
_STRUCT: Final = """
message Struct { map<string, Value> fields = 1; }
message Value {
  oneof kind {
    NullValue null_value = 1; double number_value = 2; string string_value = 3;
    bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6;
  }
}
enum NullValue { NULL_VALUE = 0; }
message ListValue { repeated Value values = 1; }
"""
_MONTHS: Final = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
]
_DAYS: Final = ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"]


def _numbered(name: str, unset: str, constants: list[str]) -> str:
    lines = [f"{each} = {index};" for index, each in enumerate([unset, *constants])]
    return f"enum {name} {{ {' '.join(lines)} }}"


_GOOGLE: Final = {
    "any": "message Any { string type_url = 1; bytes value = 2; }",
    "duration": "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "empty": "message Empty {}",
    "field_mask": "message FieldMask { repeated string paths = 1; }",
    "source_context": "message SourceContext { string file_name = 1; }",
    "struct": _STRUCT,
    "timestamp": "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "wrappers": _WRAPPERS,
}
_GOOGLE_TYPES: Final = {
    "calendar_period": _numbered(
        "CalendarPeriod",
        "CALENDAR_PERIOD_UNSPECIFIED",
        ["DAY", "WEEK", "FORTNIGHT", "MONTH", "QUARTER", "HALF", "YEAR"],
    ),
    "date": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "dayofweek": _numbered("DayOfWeek", "DAY_OF_WEEK_UNSPECIFIED", _DAYS),
    "decimal": "message Decimal { string value = 1; }",
    "fraction": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "latlng": "message LatLng { double latitude = 1; double longitude = 2; }",
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": _numbered("Month", "MONTH_UNSPECIFIED", _MONTHS),
    "quaternion": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "timeofday": """message TimeOfDay {
        int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4;
    }""",
}
_META: Final = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL: Final = """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""

WELL_KNOWN: Final = {
    **{
        f"google/protobuf/{name}.proto": f'syntax = "proto3"; package google.protobuf; {body}'
        for name, body in _GOOGLE.items()
    },
    **{
        f"google/type/{name}.proto": f'syntax = "proto3"; package google.type; {body}'
        for name, body in _GOOGLE_TYPES.items()
    },
    "google/protobuf/descriptor.proto": f'syntax = "proto2"; package google.protobuf; {_OPTIONS}',
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
}
