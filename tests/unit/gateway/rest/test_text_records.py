"""Texts are cut out of a document exactly where reading it would give the same records."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.rest.consumer.embedded_format import read_records
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.json_document import read_object
from headrace.gateway.rest.produce.record import Placed, PlacedRun, Record
from headrace.gateway.rest.v2.produce import write_offsets
from headrace.gateway.rest.v2.text_records import cut_texts

MOST = 200
LONG = "x" * 5000


def read(body: bytes) -> list[Record] | str:
    try:
        return read_records(read_object(body).get("records"), "json", MOST)
    except RestError as error:
        return error.message


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.one_of(TEXTS, st.none(), st.integers(), st.just({"value": "x"}), st.just(["a", "b"]))
RECORDS = st.one_of(
    st.fixed_dictionaries({"value": VALUES}),
    st.fixed_dictionaries({"key": VALUES, "value": VALUES}),
    st.fixed_dictionaries({"value": VALUES, "key": VALUES}),
    st.fixed_dictionaries({"value": VALUES, "partition": st.just(1)}),
    st.fixed_dictionaries({"key": VALUES}),
)


@given(
    records=st.one_of(
        st.lists(RECORDS, max_size=4),
        st.lists(st.fixed_dictionaries({"value": TEXTS}), max_size=4),
        st.lists(st.fixed_dictionaries({"key": TEXTS, "value": TEXTS}), max_size=4),
    ),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
    indent=st.sampled_from([None, None, 1]),
    ascii_only=st.booleans(),
    first=st.booleans(),
)
def test_what_is_cut_is_what_would_be_read(
    records: list[Any],
    separators: tuple[str, str],
    indent: int | None,
    ascii_only: bool,
    first: bool,
) -> None:
    document = {"records": [{"value": LONG}, *records] if first else [*records, {"value": LONG}]}
    text = json.dumps(document, separators=separators, indent=indent, ensure_ascii=ascii_only)
    body = text.encode()

    found = cut_texts(body, MOST)

    assert found is None or found == read(body)


@given(
    st.lists(st.tuples(TEXTS, TEXTS), max_size=5),
    st.binary(max_size=3),
    st.integers(0, 6000),
    st.integers(0, 3),
)
def test_a_damaged_document_is_never_cut_into_other_records(
    pairs: list[tuple[str, str]], damage: bytes, at: int, taken: int
) -> None:
    at = -at if at < 40 else at  # the end is where a document may go on
    records = [{"key": key, "value": value} for key, value in pairs] + [{"key": LONG, "value": ""}]
    body = json.dumps({"records": records}, ensure_ascii=False).encode()
    body = body[:at] + damage + body[at + taken :]

    found = cut_texts(body, MOST)

    assert found is None or found == read(body)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    ("names", "count"), [(["value"], 1), (["value"], 50), (["key", "value"], 50), (["key"], 3)]
)
def test_usual_documents_are_cut(names: list[str], count: int, separators: tuple[str, str]) -> None:
    records = [{name: f"{name} {number} é" for name in names} for number in range(count)]
    records.append({name: LONG for name in names})
    text = json.dumps({"records": records}, separators=separators, ensure_ascii=False)

    found = cut_texts(text.encode(), MOST)

    assert found is not None
    assert found == read(text.encode())


@pytest.mark.parametrize("after", [b'"evil"}]}', b'"k","value":"v"}]}', b"x", b"  x", b'"'])
@pytest.mark.parametrize("record", [b'{"value":"%b"}', b'{"key":"k","value":"%b"}'])
def test_nothing_after_the_end_of_a_document_is_a_record(record: bytes, after: bytes) -> None:
    body = b'{"records":[' + record % LONG.encode() + b"]}" + after

    assert cut_texts(body, MOST) is None


@pytest.mark.parametrize("outcomes", [[Placed(3, 7, 0), Placed(3, 8, 0), Placed(3, 9, 0)]])
def test_the_places_of_a_run_are_written_as_those_of_a_list(outcomes: list[Placed]) -> None:
    run = PlacedRun(3, 7, 3, 0)
    records = [Record(None, b"")] * 3

    assert list(run) == outcomes
    assert [run[0], *run[1:]] == outcomes
    assert write_offsets(records, run) == write_offsets(records, outcomes)


def test_more_records_than_allowed_cost_no_more_time_than_those_that_are() -> None:
    body = json.dumps({"records": [{"value": ""}] * 500_000}).encode()

    began = time.thread_time()
    found = cut_texts(body, 100)

    assert found is None
    assert time.thread_time() - began < 1.0
