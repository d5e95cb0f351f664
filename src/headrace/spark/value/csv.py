"""Decodes CSV values, a whole column at a time with Arrow's reader."""

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headrace.spark.value.error import Undecodable
from headrace.spark.value.text import as_struct, lines_of, require_all, trimmed_text


def decode_csv(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decode one record per value: commas between fields, double quotes around fields that hold
    commas, empty fields are null.

    The reader gets one text with a line per value. A value with a line break or an unpaired quote
    could be more or less than one line and shift the values after it: such a value is read alone.
    """
    texts = trimmed_text(values)
    if len(values) > 1:
        one_line = pc.invert(pc.match_substring_regex(texts, "[\r\n]"))
        require_all(one_line, "it may hold more than one record")
        paired = pc.equal(pc.bit_wise_and(pc.count_substring(texts, '"'), 1), 0)
        require_all(paired, "a quote is not closed")
    require_all(pc.not_equal(texts, ""), "it is empty")
    fields = list(kind)
    lines = lines_of(texts)
    try:
        table = csv.read_csv(
            pa.BufferReader(lines),
            read_options=csv.ReadOptions(
                use_threads=False,
                block_size=lines.size + 1,
                column_names=[each.name for each in fields],
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types={each.name: each.type for each in fields},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise Undecodable(str(error)) from error
    return as_struct(table, len(values), kind)
