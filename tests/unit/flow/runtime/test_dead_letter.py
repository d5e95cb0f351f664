"""Tuples that a bolt raised for, as records."""

import json

import pyarrow as pa

from headrace.flow.runtime.dead_letter import dead_letters
from headrace.flow.runtime.tuple_batch import ORIGIN, TupleBatch, no_origin

ERROR = ValueError("no such page")


def test_a_record_has_the_tuple_the_error_and_the_origin() -> None:
    origin = pa.RecordBatch.from_pylist(
        [{"_topic": "clicks", "_partition": 1, "_offset": 7}], schema=ORIGIN
    )
    tuples = TupleBatch(pa.record_batch({"page": ["é"], "raw": [b"\xff"]}), origin)

    [letters] = dead_letters("dead", "count", tuples, ERROR)

    [record] = letters.to_pylist()
    assert record["topic"] == "dead"
    assert json.loads(record["value"]) == {"page": "é", "raw": "\\xff"}
    assert {each["key"]: each["value"] for each in record["headers"]} == {
        "component": b"count",
        "error": b"ValueError: no such page",
        "topic": b"clicks",
        "partition": b"1",
        "offset": b"7",
    }


def test_many_tuples_are_few_batches_of_bounded_size() -> None:
    texts = [f"{each:05}" * 200 for each in range(2_500)]
    tuples = TupleBatch(pa.record_batch({"page": texts}), no_origin(len(texts)))

    batches = list(dead_letters("dead", "count", tuples, ERROR))

    assert [json.loads(each.as_py())["page"] for one in batches for each in one["value"]] == texts
    assert len(batches) == 3
    assert max(each.nbytes for each in batches) < 2 * 1024 * 1024
