"""The examples on a real Spark session, a real broker and a real PostgreSQL, over a few records.

`tests/unit/flow/test_example.py` tests what they compute without Spark; this file tests that they
run, and what needs Spark. The example of a Samza task is in `test_samza.py`.
"""

import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from headrace.flow.drpc.client import DrpcClient
from headrace.flow.drpc.function_topics import FunctionTopics
from headrace.flow.execution.job import run_batch, start
from headrace.flow.land import Landing, stray_files
from headrace.spark.data_source import HeadraceDataSource
from testkit.peer.postgres import PostgresServer
from testkit.process.broker_process import BrokerProcess
from testkit.sample.example_runner import ExampleRunner

NOW: dict[str, Any] = {"availableNow": True}
MINUTE = 60_000
_SECONDS = 300.0


@pytest.fixture
def show(
    broker: BrokerProcess,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> ExampleRunner:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    spark.dataSource.register(HeadraceDataSource)
    return ExampleRunner(broker.address, spark, topic, tmp_path)


@pytest.mark.timeout(900)
def test_one_program_gives_the_same_in_a_stream_and_in_a_batch(show: ExampleRunner) -> None:
    paid = [{"shop": shop, "cents": 10 * n, "status": "paid"} for n in range(9) for shop in "ab"]
    stream = show.plan("batch_and_stream/orders.py", "orders", "totals")
    show.feed("orders", *paid, {"shop": "a", "cents": 1, "status": "open"})
    show.run(stream)
    streamed = {row["shop"]: row for row in show.read("totals")}

    batch = show.plan("batch_and_stream/orders.py", "orders", totals=show.topic("again"))
    run_batch(batch, show.spark, brokers=show.address)

    assert {row["shop"]: row for row in show.read("again")} == streamed
    assert streamed["a"] == {"shop": "a", "orders": 9, "cents_total": 360, "dearest": 80}


@pytest.mark.timeout(900)
def test_views_get_the_profile_of_their_user_whichever_came_first(show: ExampleRunner) -> None:
    plan = show.plan("profiles_join/profiles_join.py", "views", "profiles", "joined")
    show.feed("views", {"user": "ann", "page": "/1"}, {"user": "bob", "page": "/2"})
    show.run(plan)
    show.feed("profiles", {"user": "ann", "town": "Ulm"})
    show.feed("views", {"user": "ann", "page": "/3"})
    show.run(plan)

    joined = sorted((row["user"], row["town"], row["page"]) for row in show.read("joined"))
    assert joined == [("ann", "Ulm", "/1"), ("ann", "Ulm", "/3")]


@pytest.mark.timeout(900)
def test_failing_pages_are_reported_once(show: ExampleRunner) -> None:
    plan = show.plan("page_views/page_views.py", "views", "counts", "alerts")
    at = "2026-11-15T09:00:30Z"
    bad = [{"page": "/cart", "status": 500, "at": at}] * 5
    show.feed("views", *bad, {"page": "/", "status": 200, "at": at})

    show.run(plan)

    assert [row["page"] for row in show.read("alerts")] == ["/cart"]
    counts = {row["page"]: (row["minute"], row["views"]) for row in show.read("counts")}
    assert counts == {"/cart": ("2026-11-15T09:00", 5), "/": ("2026-11-15T09:00", 1)}


@pytest.mark.timeout(900)
def test_tags_of_a_closed_window_are_ranked(show: ExampleRunner) -> None:
    plan = show.plan("trending/trending.py", "tags", "trends")
    show.feed("tags", *({"tag": tag, "at": 1_000} for tag in "aab"))
    # A task's watermark follows its own tuples.
    show.feed("tags", *({"tag": f"end-{n}", "at": 300_000} for n in range(20)))

    show.run(plan)

    ranked = {row["end_ms"]: row["best"] for row in show.read("trends")}
    assert ranked[10_000] == ranked[60_000] == ["a 2", "b 1"]


@pytest.mark.timeout(900)
def test_reach_is_computed_for_every_caller(show: ExampleRunner) -> None:
    function = show.topic("reach")
    FunctionTopics(function).create(show.address)
    plan = show.plan("reach_drpc/reach.py", function=function)
    query = start(plan, show.spark, brokers=show.address, checkpoint=show.folder / "reach")
    urls = ["streams", "no-poster"]
    answers: dict[str, str] = {}
    try:
        with DrpcClient(function, brokers=show.address) as client:

            def ask(url: str) -> None:
                text = f"https://example.com/{url}"
                answers[url] = client.execute(text, timeout_seconds=_SECONDS)

            callers = [threading.Thread(target=ask, args=(url,)) for url in urls]
            for each in callers:
                each.start()
            for each in callers:
                each.join()
    finally:
        query.stop()

    assert answers == {"streams": "16", "no-poster": "0"}


@pytest.mark.timeout(900)
def test_a_topic_lands_by_the_hour_each_record_once(show: ExampleRunner) -> None:
    folder = show.folder / "lake"
    landing = Landing(
        topics=show.topic("clicks"), brokers=show.address, folder=str(folder), format="string"
    )

    def land() -> None:
        query = landing.start(show.spark, checkpoint=str(folder / "_checkpoint"), trigger=NOW)
        assert query.awaitTermination(_SECONDS)

    show.feed("clicks", "one", "two")
    land()
    show.feed("clicks", "three")
    land()

    rows = show.spark.read.parquet(str(folder)).collect()
    assert sorted(row["value"] for row in rows) == ["one", "three", "two"]
    assert len({row["offset"] for row in rows}) == 3
    (first, *_) = rows
    assert first["timestamp"].astimezone().timestamp() // 3600 * 3600 == _hour(first)
    assert stray_files(landing.files(show.spark)) == []


def _hour(row: Any) -> float:
    text = f"{row['date']} {int(row['hour']):02}:00+00:00"
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.timeout(900)
def test_hashtags_are_counted_in_postgresql_once_although_a_batch_is_repeated(
    show: ExampleRunner, postgres: PostgresServer
) -> None:
    def counted() -> dict[str, tuple[int, int]]:
        with psycopg.connect(postgres.url) as connection:
            rows = connection.execute("SELECT tag, n, likes FROM hashtags").fetchall()
        return {tag: (n, likes) for tag, n, likes in rows}

    plan = show.plan("hashtags_postgres/hashtags.py", "tweets", database=postgres.url)
    show.feed("tweets", {"text": "#a #B", "likes": 2}, {"text": "none"}, {"text": "#a", "likes": 3})
    show.run(plan)
    assert counted() == {"a": (2, 5), "b": (1, 2)}

    show.forget_last_batch(plan)
    show.run(plan)
    assert counted() == {"a": (2, 5), "b": (1, 2)}

    show.feed("tweets", {"text": "#b", "likes": 1})
    show.run(plan)
    assert counted() == {"a": (2, 5), "b": (2, 3)}


@pytest.mark.timeout(900)
def test_sessions_are_emitted_when_they_have_ended(show: ExampleRunner) -> None:
    plan = show.plan("session_windows/sessions.py", "clicks", "visits")
    show.feed(
        "clicks",
        *({"user": "ann", "page": page, "at": at * MINUTE} for page, at in (("/", 0), ("/a", 20))),
        {"user": "ann", "page": "/", "at": 100 * MINUTE},
    )
    show.run(plan)

    (visit,) = show.read("visits")
    assert (visit["user"], visit["clicks"], visit["pages"]) == ("ann", 2, 2)
    assert visit["session_end"].startswith("1970-01-01T00:20:00")
