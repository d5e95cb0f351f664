"""Avro values in columns: bytes into Arrow arrays, and Arrow arrays into bytes.

    from headrace.schema.parse import parse
    from headrace.schema.schema import SchemaText, SchemaType
    from headrace.serde.avro import AvroColumnReader

    writer = parse(SchemaText(SchemaType.AVRO, '{"type": "array", "items": "int"}'))
    reader = AvroColumnReader(writer)       # or with a reader's schema behind it
    column = reader.read(values)            # skip_bytes=5 behind a registry's head
    column.values, column.bad_rows, column.problem(row)
    AvroColumnWriter(writer).write(rows, prefix=head)       # the same the other way round

Reading returns a `ReadColumn`, writing a `WrittenColumn`.
A schema is compiled once into a program, a table of operations; one kernel runs it for every value.
Which Arrow type stands for which Avro type is said in `column` and `logical`, how schemas are
resolved in `resolution`. Types that hold themselves are refused: no Arrow type does.
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = ["AvroColumnReader", "AvroColumnWriter", "ReadColumn", "WrittenColumn"]

if TYPE_CHECKING:
    from headrace.serde.avro.reader import AvroColumnReader, ReadColumn
    from headrace.serde.avro.writer import AvroColumnWriter, WrittenColumn
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "AvroColumnReader": "headrace.serde.avro.reader",
            "AvroColumnWriter": "headrace.serde.avro.writer",
            "ReadColumn": "headrace.serde.avro.reader",
            "WrittenColumn": "headrace.serde.avro.writer",
        },
    )
