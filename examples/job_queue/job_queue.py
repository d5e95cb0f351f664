"""Jobs of a table, each done at least once: a spout written in Python.

The table is the source of truth. A job stays in it until `ack`, so whatever fails or stops, the
spout finds it there again.
"""

import sqlite3
import sys
from pathlib import Path
from typing import Any

from headrace.flow import TaskContext
from headrace.flow.storm import PythonSpout, TopicSink, Topology

_AT_ONCE = 100


def connect(path: Path) -> sqlite3.Connection:
    """Open the table. No number comes again, so that later jobs have higher ones."""
    table = sqlite3.connect(path)
    table.execute(
        "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)"
    )
    return table


class Jobs(PythonSpout):
    """Emits the rows of the table `jobs`, and deletes those that are done."""

    fields = "id BIGINT, name STRING"
    max_pending = 1_000

    def __init__(self, table: Path) -> None:
        self.path = table

    def open(self, context: TaskContext) -> None:
        self.table = connect(self.path)
        self.last = 0

    def next_tuple(self, emit: Any) -> None:
        rows = self.table.execute(
            "SELECT id, name FROM jobs WHERE id > ? ORDER BY id LIMIT ?", (self.last, _AT_ONCE)
        )
        for number, name in rows:
            emit((number, name), message_id=number)
            self.last = number

    def ack(self, message_id: int) -> None:
        with self.table:
            self.table.execute("DELETE FROM jobs WHERE id = ?", (message_id,))

    def fail(self, message_id: int) -> None:
        self.last = min(self.last, message_id - 1)

    def close(self) -> None:
        self.table.close()


def work(number: int, name: str) -> tuple[int, str]:
    return number, f"{name} is done"


def topology(brokers: str, table: str = "jobs.db", done: str = "jobs-done") -> Topology:
    made = Topology("job-queue")
    made.spout("jobs", Jobs(Path(table).resolve()))
    made.bolt("work", work, output="id BIGINT, outcome STRING").shuffle("jobs")
    made.sink("done", TopicSink(done, key="id", value="outcome")).shuffle("work")
    return made


if __name__ == "__main__":
    with connect(Path("jobs.db")) as jobs:
        jobs.executemany("INSERT INTO jobs (name) VALUES (?)", [(name,) for name in sys.argv[1:]])
        jobs.commit()
        print(jobs.execute("SELECT count(*) FROM jobs").fetchone()[0], "jobs wait")  # noqa: T201
