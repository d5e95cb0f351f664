"""What the examples compute, without Spark; `tests/spark/test_examples.py` runs them with it."""

import json
import sqlite3
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.cli.flow.program import ProgramArguments, load_program
from headrace.flow.drpc.function_topics import new_request
from headrace.testing.flow_run import FlowRun

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")


def example(path: str) -> FlowRun:
    return FlowRun(load_program(str(EXAMPLES / path), ProgramArguments("b:9092", {})).plan)


def read(run: FlowRun, topic: str) -> list[Any]:
    return [json.loads(each) for each in run.values(topic)]


@pytest.mark.parametrize("file", ["word_count.py", "word_count.yaml"])
def test_word_count(file: str) -> None:
    run = example(f"word_count/{file}")

    run.feed(["The wheel", "the water"])
    run.feed(["the mill"])

    last = {row["word"]: row["n"] for row in read(run, "word-counts")}
    assert last == {"the": 3, "wheel": 1, "water": 1, "mill": 1}


def test_trending_ranks_every_window_over_all_tasks() -> None:
    run = example("trending/trending.py")
    tags = [("a", 1), ("b", 2), ("a", 3), ("c", 12), ("b", 13), ("b", 14), ("z", 200)]

    # A task's watermark follows its own tuples, so the last tuple is sent with many names.
    tags += [(f"end-{n}", 200) for n in range(20)]
    run.feed([{"tag": tag, "at": at * 1_000} for tag, at in tags])

    ranked = {row["end_ms"]: row["best"] for row in read(run, "trends")}
    assert ranked[10_000] == ["a 2", "b 1"]
    assert ranked[20_000] == ["b 3", "a 2", "c 1"]
    assert ranked[70_000] == ["b 2", "c 1"]


def test_page_views_are_counted_and_failing_pages_reported_once() -> None:
    run = example("page_views/page_views.py")
    at = datetime(2026, 11, 15, 9, 0, 30, tzinfo=UTC)

    def feed(page: str, *statuses: int) -> None:
        run.feed([{"page": page, "status": status, "at": at} for status in statuses])

    feed("/cart", 200, 500, 500)
    assert read(run, "page-alerts") == []
    feed("/cart", 500, 503)
    feed("/", *[200] * 10)

    assert read(run, "page-alerts") == [
        {"page": "/cart", "minute": "2026-11-15T09:00", "share": 0.75}
    ]
    last = {row["page"]: row for row in read(run, "page-minutes")}
    assert (last["/cart"]["views"], last["/cart"]["failures"]) == (5, 4)
    assert (last["/"]["views"], last["/"]["failures"]) == (10, 0)


def test_views_wait_for_the_profile_of_their_user() -> None:
    run = example("profiles_join/profiles_join.py")

    def views(*pages: tuple[str, str]) -> None:
        run.feed([{"user": user, "page": page} for user, page in pages], spout="views")

    views(("ann", "/1"), ("bob", "/2"))
    run.feed([{"user": "ann", "town": "Ulm"}], spout="profiles")
    run.restart()
    views(("ann", "/3"))

    assert read(run, "joined") == [
        {"user": "ann", "town": "Ulm", "page": "/1"},
        {"user": "ann", "town": "Ulm", "page": "/3"},
    ]


def test_orders_get_the_name_that_their_customers_row_has_now() -> None:
    run = example("table_copy/orders_join.py")

    def change(customer: int, name: str | None) -> None:
        """Write the change of a row; without a name its delete, and the tombstone after it."""
        after = None if name is None else {"id": customer, "name": name}
        values = [json.dumps({"after": after}), *([None] if name is None else [])]
        keys = pa.array([json.dumps({"id": customer})] * len(values))
        run.feed(values, spout="changes", key=keys)

    def order(customer: int, item: str) -> None:
        run.feed([{"customer": customer, "item": item}], spout="orders")

    order(1, "early")
    change(1, "Ada")
    change(2, "Bob")
    order(1, "tea")
    run.restart()
    change(1, "Äda")
    change(2, None)
    order(1, "milk")
    order(2, "too late")

    assert read(run, "orders-with-names") == [
        {"customer": 1, "name": "Ada", "item": "early"},
        {"customer": 1, "name": "Ada", "item": "tea"},
        {"customer": 1, "name": "Äda", "item": "milk"},
    ]


def test_orders_that_are_paid_are_summed() -> None:
    run = example("batch_and_stream/orders.py")

    run.feed(
        [
            {"shop": "Ulm", "cents": 100, "status": "paid"},
            {"shop": "Ulm", "cents": 250, "status": "paid"},
            {"shop": "Bonn", "cents": 70, "status": "open"},
        ]
    )

    assert read(run, "totals") == [{"shop": "Ulm", "orders": 2, "cents_total": 350, "dearest": 250}]


def test_reach_counts_every_follower_once() -> None:
    run = example("reach_drpc/reach.py")
    urls = ["streams", "tables", "no-poster", "unknown"]
    deadline = time.time_ns() // 1_000_000 + 600_000
    requests = [new_request(deadline) for _ in urls]

    run.feed(
        [f"https://example.com/{url}" for url in urls],
        key=pa.array([each.encode() for each in requests]),
    )

    replies = {
        each["key"].decode(): int(each["value"])
        for each in run.records
        if each["topic"] == "drpc-reach-replies"
    }
    assert [replies[each] for each in requests] == [16, 16, 0, 0]


def test_a_job_stays_in_its_table_until_its_batch_is_committed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    given = ProgramArguments("b:9092", {"table": str(path)})
    run = FlowRun(load_program(str(EXAMPLES / "job_queue/job_queue.py"), given).plan)
    with closing(sqlite3.connect(path)) as table:
        table.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, name TEXT)")
        table.executemany("INSERT INTO jobs (name) VALUES (?)", [("sweep",), ("mow",)])
        table.commit()

        assert run.run_spout_batch() == 2
        assert run.values("jobs-done") == ["sweep is done", "mow is done"]
        assert table.execute("SELECT count(*) FROM jobs").fetchone() == (2,)
        run.restart()
        assert run.run_spout_batch("jobs") == 0
        assert table.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
