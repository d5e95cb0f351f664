"""Orders joined with the customers of a captured table.

The topic of a table is compacted: it holds the last change of every row. A task receives the rows
and the orders of its customers. It keeps the rows in its state, a delete takes one away, and orders
of a customer whose row has not come wait for it; only the newest do, so that the state stays
bounded.
"""

import json
from typing import Any

import pyarrow as pa

from headrace.flow import Emit
from headrace.flow.storm import StatefulBolt, TopicSink, TopicSpout, Topology

WAITING = 100


def read_rows(batch: pa.RecordBatch, emit: Emit) -> None:
    """Emit the row that each change leaves; its name is null when it was deleted."""
    customers, names = [], []
    for record in batch.to_pylist():
        after = None if record["value"] is None else json.loads(record["value"])["after"]
        customers.append(json.loads(record["key"])["id"])
        names.append(None if after is None else after["name"])
    emit([customers, names])


class Join(StatefulBolt):
    """Emits an order with the name of its customer."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        rows = batch.to_pylist()
        joined = self._rows(rows) if "name" in batch.schema.names else self._orders(rows)
        if joined:
            emit([list(each) for each in zip(*joined, strict=True)])

    def _rows(self, rows: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
        joined = []
        for row in rows:
            customer, name = row["customer"], row["name"]
            known = self.state.get(customer, {"name": None, "waiting": []})
            if name is None:
                self.state.delete(customer)
                continue
            joined += [(customer, name, item) for item in known["waiting"]]
            self.state.put(customer, {"name": name, "waiting": []})
        return joined

    def _orders(self, rows: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
        joined = []
        for row in rows:
            customer, item = row["customer"], row["item"]
            known = self.state.get(customer, {"name": None, "waiting": []})
            if known["name"] is None:
                waiting = [*known["waiting"], item][-WAITING:]
                self.state.put(customer, {"name": None, "waiting": waiting})
            else:
                joined.append((customer, known["name"], item))
        return joined


def topology(
    brokers: str,
    table: str = "shop.public.customers",
    orders: str = "orders",
    joined: str = "orders-with-names",
) -> Topology:
    made = Topology("orders-join")
    made.spout("changes", TopicSpout(table, brokers=brokers, fields="key STRING, value STRING"))
    made.spout(
        "orders",
        TopicSpout(orders, brokers=brokers, fields="customer INT, item STRING", format="json"),
    )
    rows = made.bolt("rows", read_rows, output="customer INT, name STRING")
    rows.fields("changes", "key")  # the changes of a row stay in their order
    join = made.bolt("join", Join(), output="customer INT, name STRING, item STRING", parallelism=2)
    # Rows first: within a batch, inputs are processed in the order of declaration.
    join.fields("rows", "customer").fields("orders", "customer")
    made.sink("joined", TopicSink(joined, key="customer")).shuffle("join")
    return made
