"""Decodes JSON values, a whole column at a time with Arrow's reader."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from headrace.spark.value.error import Undecodable
from headrace.spark.value.text import (
    as_struct,
    joined,
    line_breaks,
    text_of,
    trimmed,
    with_types,
)

# Arrow's reader expects a number of days for a date; in JSON it is a text.
_READ_AS: Final = {pa.date32(): pa.string()}


def decode_json(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decode one object per value. Fields that are not in the type are ignored, missing ones are
    null.

    The reader gets one text with a line per value and reports only how many objects it found. So no
    value may end inside an object that continues in the next: each must go from brace to brace.
    Then no value holds less than one object (a line break inside a string is an error in JSON), and
    if all values together hold as many objects as there are values, each holds one.
    """
    texts = text_of(values)
    if not _are_braced(texts):
        texts = trimmed(texts)
        if not _are_braced(texts):
            raise Undecodable("it is no JSON object")
    lines = joined(texts)
    # Only for values of several lines must the reader look for the ends of objects itself, which
    # takes it as long as reading them.
    several_lines = line_breaks(lines) >= len(values)
    try:
        table = json.read_json(
            pa.BufferReader(lines),
            read_options=json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=json.ParseOptions(
                explicit_schema=pa.schema(list(with_types(kind, _READ_AS))),
                newlines_in_values=several_lines,
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowInvalid as error:
        raise Undecodable(str(error)) from error
    return as_struct(table, len(values), kind)


def _are_braced(texts: pa.Array) -> bool:
    return bool(
        pc.all(pc.starts_with(texts, "{")).as_py() and pc.all(pc.ends_with(texts, "}")).as_py()
    )
