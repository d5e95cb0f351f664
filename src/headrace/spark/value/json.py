"""JSON values to columns, a whole column at a time through Arrow's reader."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from headrace.spark.value.decoder import Undecodable
from headrace.spark.value.text import as_struct, checked, lines_of, trimmed_text, with_types

# Arrow's reader takes a date for a number of days; in JSON it is a text.
_READ_AS: Final = {pa.date32(): pa.string()}


def decode_json(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """One object in each value. Fields that are not in the type are ignored, missing ones are null.

    The reader sees one text with a line for each value and tells only how many objects it found, so
    no value may be able to give a part of itself to its neighbour: each goes from brace to brace.
    Then none holds less than one object (a line break inside a string is an error in JSON), and if
    together they hold as many as there are values, each holds one.
    """
    texts = trimmed_text(values)
    braced = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    checked(braced, "it is no JSON object")
    lines = lines_of(texts)
    try:
        table = json.read_json(
            pa.BufferReader(lines),
            read_options=json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=json.ParseOptions(
                explicit_schema=pa.schema(list(with_types(kind, _READ_AS))),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowInvalid as error:
        raise Undecodable(str(error)) from error
    return as_struct(table, len(values), kind)
