"""The columns of a sink: their names and types, and which rows are for which topic.

The rules are those of Spark's Kafka connector: `value` is required, `key`, `headers`, `topic` and
`partition` are optional, any other column is ignored.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TOPIC: Final = "topic"
_VALUE: Final = "value"
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final = {
    _TOPIC: ("string",),
    "key": ("string", "binary"),
    _VALUE: ("string", "binary"),
    "headers": (_HEADERS,),
    "partition": ("int",),
}

EncodeValue = Callable[[pa.Array], pa.Array]


class SinkColumns:
    """Selects the columns of a table that become records.

    Args:
        schema: Spark's schema of the rows.
        topic: the option `topic`, which takes precedence over the column.
        encode: makes bytes of the column `value`, which may have any type then.

    Raises:
        InvalidArgument: a column is missing or has a wrong type.
    """

    def __init__(
        self, schema: "StructType", topic: str | None, encode: EncodeValue | None = None
    ) -> None:
        self._topic = topic
        self._encode = encode
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        if topic is None and _TOPIC not in types:
            raise InvalidArgument(
                "topic option required when no 'topic' attribute is present: set the option topic, "
                "or add a column of this name"
            )
        if _VALUE not in types:
            raise InvalidArgument(
                "required attribute 'value' not found: the rows have "
                + (", ".join(types) or "no columns")
            )
        for name, allowed in _TYPES.items():
            if (name == _TOPIC and topic is not None) or (name == _VALUE and encode is not None):
                continue
            if types.get(name, allowed[0]) not in allowed:
                raise InvalidArgument(
                    f"{name} attribute unsupported type {types[name]}: "
                    f"{name} must be a(n) {' or '.join(allowed)}"
                )
        self._names = [name for name in _TYPES if name in types and name != _TOPIC]

    def split(self, rows: pa.RecordBatch | pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Yield the records of each topic, in their order, with the column `partition` if there is
        one.

        Raises:
            InvalidArgument: a row without a topic.
            Unencodable: a value that does not fit its schema.
        """
        table = pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows
        records = table.select(self._names)
        if self._encode is not None:
            records = self._encoded(records, self._encode)
        if self._topic is not None:
            yield self._topic, records
            return
        topics = table.column(_TOPIC)
        if topics.null_count:
            raise InvalidArgument(
                "null topic present in the data: use the topic option for setting a topic"
            )
        names = topics.unique().to_pylist()
        for name in names:
            chosen = records if len(names) == 1 else records.filter(pc.equal(topics, name))
            yield name, chosen

    def _encoded(self, records: pa.Table, encode: EncodeValue) -> pa.Table:
        at = self._names.index(_VALUE)
        chunks = [encode(each) for each in records.column(_VALUE).chunks]
        return records.set_column(at, _VALUE, pa.chunked_array(chunks, pa.binary()))
