"""The example of a table that is joined in a flow and rebuilt elsewhere."""

import json
import runpy
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.cli.flow.program import ProgramArguments, load_program
from headrace.client.read.reader import Reader
from headrace.testing.flow_run import FlowRun
from testkit.sample.ingest_agent import assemble_text, running
from testkit.sample.postgres_capture import PostgresCapture

pytestmark = pytest.mark.interop


def test_the_example_joins_and_rebuilds_the_table(capture: PostgresCapture, tmp_path: Path) -> None:
    program = runpy.run_path("examples/table_copy/rebuild.py")
    text = Path("examples/table_copy/capture.conf").read_text()
    plain = text.replace("${DATABASE}", "postgresql://h/d")
    assert not assemble_text(plain).problems
    capture.run("CREATE TABLE customers (id int PRIMARY KEY, name text)")
    capture.run("INSERT INTO customers VALUES (1, 'Ada'), (2, 'Bob')")
    with running(capture.configuration()):
        capture.wait_for_count("customers", 2)
        capture.run("DELETE FROM customers WHERE id = 2")
        capture.wait_for_count("customers", 4)
    copy = tmp_path / "copy.db"
    topic = f"db.{capture.name}.customers"
    assert program["rebuild"](capture.broker, topic, str(copy)) == 1
    with sqlite3.connect(copy) as database:
        assert database.execute("SELECT * FROM customers").fetchall() == [
            (1, '{"id": 1, "name": "Ada"}')
        ]
    database.close()
    assert joined_with(capture, topic, {"customer": 1, "item": "tea"}) == [
        {"customer": 1, "name": "Ada", "item": "tea"}
    ]
    assert joined_with(capture, topic, {"customer": 2, "item": "milk"}) == []


def joined_with(capture: PostgresCapture, topic: str, order: dict[str, Any]) -> list[Any]:
    """Return what the example's flow makes of the topic of a table, and of an order after it."""
    program = load_program(
        "examples/table_copy/orders_join.py", ProgramArguments(capture.broker, {"table": topic})
    )
    run = FlowRun(program.plan)
    with Reader.of_topics(
        {"bootstrap.servers": capture.broker}, topic, read_committed=True
    ) as reader:
        table = reader.read_all()
    keys = pa.array([each.decode() for each in table["key"].to_pylist()])
    values = [each and each.decode() for each in table["value"].to_pylist()]
    run.feed(values, spout="changes", key=keys)
    run.feed([order], spout="orders")
    return [json.loads(each) for each in run.values("orders-with-names")]
