"""The console of a cluster with 1,000 topics and 200 groups: what a look costs, and what the page
feels like in a real browser."""

import tempfile
from pathlib import Path
from typing import Any

from bench.row import Row, median, seconds, spread
from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import wait_until
from testkit.peer.browser import chromium, strict_page
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient

TOPICS = 1_000
GROUPS = 200
_AT_ONCE = 50
_ROUNDS = 7
_KEYS = ("9", "99", "9", "")

# From a letter typed into the filter to the frame that shows its result.
_TYPE = """async ([selector, text]) => {
  const input = document.querySelector(selector);
  const start = performance.now();
  input.value = text;
  input.dispatchEvent(new Event("input"));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  return performance.now() - start;
}"""
_WATCH = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
  }).observe({ type: "longtask" });
}"""


def run() -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        BrokerProcess(Path(folder)) as broker,
    ):
        settings = ClientSettings.of({"bootstrap.servers": broker.address})
        _fill(settings)
        console_settings = ConsoleSettings(
            settings, listen=Address("127.0.0.1", 0), interval_seconds=1.0
        )
        with ConsoleServer(console_settings) as server:
            wait_until(
                lambda: server.state.cluster_poller.problem is None,
                what="a snapshot",
                timeout_seconds=120,
            )
            return [*_server(server), *_page(server)]


def _fill(settings: ClientSettings) -> None:
    with ConnectionPool(settings) as pool:
        for first in range(0, TOPICS, _AT_ONCE):
            numbers = range(first, first + _AT_ONCE)
            topics = [NewTopic(f"topic-{number:04}", 2) for number in numbers]
            assert set(Admin(pool).create_topics(topics).values()) == {None}
        for number in range(GROUPS):
            partitions = [TopicPartition(f"topic-{number:04}", index) for index in (0, 1)]
            GroupAdmin(pool).commit(f"group-{number:03}", dict.fromkeys(partitions, 0))


def _server(server: ConsoleServer) -> list[Row]:
    looks = []
    for _ in range(_ROUNDS):
        before = server.state.cluster_poller.snapshot
        server.state.cluster_poller.refresh()
        wait_until(
            lambda b=before: server.state.cluster_poller.snapshot is not b, what="a snapshot"
        )  # type: ignore[misc]
        looks.append(float(server.state.cluster_poller.snapshot.took_ms))
    client = ConsoleClient(server.url)
    answers = [seconds(lambda: client.get("topics")) * 1000 for _ in range(_ROUNDS)]
    overview = [seconds(lambda: client.get("overview")) * 1000 for _ in range(_ROUNDS)]
    return [
        Row(
            name="one whole look at the cluster",
            ours=median(looks),
            unit="ms",
            spread=spread(looks),
        ),
        Row(
            name="/api/topics, 1,000 topics",
            ours=median(answers),
            unit="ms",
            spread=spread(answers),
            bar="≤ 100 ms",
            reached=median(answers) <= 100,
        ),
        Row(
            name="/api/overview with the picture of the flow",
            ours=median(overview),
            unit="ms",
            spread=spread(overview),
            bar="≤ 100 ms",
            reached=median(overview) <= 100,
        ),
    ]


def _page(server: ConsoleServer) -> list[Row]:
    rows = []
    with chromium() as browser, strict_page(browser, server.url) as page:
        page.evaluate(_WATCH)
        for name, path, wanted in (("topics", "/topics", 100), ("groups", "/groups", 100)):
            opened = [_open(page, path, wanted) for _ in range(_ROUNDS)]
            typed = [page.evaluate(_TYPE, ["#main input[type=search]", key]) for key in _KEYS * 3]
            rows += [
                _row(f"open the page of {name}", opened, 500),
                _row(f"a letter in the filter of {name}", typed, 100),
            ]
        longest = float(page.evaluate("window.longest"))
        rows.append(_row("the longest the page was busy at once", [longest or 1.0], 200))
    return rows


def _open(page: Any, path: str, rows: int) -> float:
    page.evaluate("() => { location.hash = '/flows' }")
    page.wait_for_selector("#main h1:text('Flows')")

    def go() -> None:
        page.evaluate("path => { location.hash = path }", path)
        page.wait_for_function(
            "rows => document.querySelectorAll('#main tbody tr').length === rows", arg=rows
        )

    return seconds(go) * 1000


def _row(name: str, rounds: list[float], bar_ms: float) -> Row:
    return Row(
        name=name,
        ours=median(rounds),
        unit="ms",
        spread=spread(rounds),
        bar=f"≤ {bar_ms:g} ms",
        reached=median(rounds) <= bar_ms,
    )
