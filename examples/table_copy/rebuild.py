"""The table that a topic of change capture holds, written to SQLite."""

import json
import sqlite3
import sys

from headrace.client import Reader


def rebuild(brokers: str, topic: str, database: str) -> int:
    """Write the rows of a topic to a new table `customers`, and return how many there are."""
    rows: dict[str, str] = {}
    with Reader.of_topics({"bootstrap.servers": brokers}, topic, read_committed=True) as reader:
        records = reader.read_all()
    for key, value in zip(records["key"].to_pylist(), records["value"].to_pylist(), strict=True):
        identity = json.loads(key)["id"]
        after = None if value is None else json.loads(value)["after"]
        if after is None:  # deleted: the event, or its tombstone
            rows.pop(identity, None)
        else:
            rows[identity] = json.dumps(after, ensure_ascii=False)
    with sqlite3.connect(database) as copy:
        copy.execute("DROP TABLE IF EXISTS customers")
        copy.execute("CREATE TABLE customers (id PRIMARY KEY, row TEXT)")
        copy.executemany("INSERT INTO customers VALUES (?, ?)", rows.items())
    copy.close()
    return len(rows)


if __name__ == "__main__":
    rebuild("127.0.0.1:9092", "shop.public.customers", sys.argv[1])
