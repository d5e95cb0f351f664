"""Figures of a run: from tasks and from Spark, and how both are served."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.flow.execution.job import driver_addresses
from headrace.flow.monitoring.metrics import FlowFigures, FlowMetrics, prometheus_text, read_figures
from headrace.flow.monitoring.metrics import records_read as records_of
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.shown_table import ShownTable
from headrace.flow.plan.graph import Graph
from headrace.flow.runtime.report import ReportAddress, send_report
from headrace.flow.runtime.tally import ComponentTally
from headrace.testing.readiness import wait_until

PROGRESS: dict[str, Any] = {
    "batchId": 7,
    "batchDuration": 500,
    "numInputRows": 3,  # chunks
    "sources": [
        {
            "numInputRows": 3,
            "startOffset": '{"in": {"0": 10, "1": 0}}',
            "endOffset": {"in": {"0": 110, "1": 50}},
            "latestOffset": {"in": {"0": 130, "1": 50}},
        }
    ],
    "stateOperators": [{"numRowsTotal": 4, "memoryUsedBytes": 1000}],
}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    with MetricsServer() as server:
        server.serve_query("words", lambda: PROGRESS)
        yield server


def listening(server: MetricsServer) -> ReportAddress:
    address = server.listen("127.0.0.1")
    assert address is not None
    return address


def test_reports_of_all_tasks_add_up() -> None:
    metrics = FlowMetrics("words")
    metrics.add(0, "split", (10, 30, 1, 5_000_000))
    metrics.add(1, "split", (10, 20, 0, 15_000_000))

    (split,) = metrics.figures().components
    assert (split.executed, split.emitted, split.failed) == (20, 50, 1)
    assert split.latency_ms == pytest.approx(1.0)


def test_capacity_is_that_of_the_busiest_task_over_the_last_minute() -> None:
    clock = Clock()
    metrics = FlowMetrics("words", clock)
    metrics.add(0, "split", (1, 1, 0, 60_000_000_000))
    clock.now += 100
    metrics.add(0, "split", (1, 1, 0, 15_000_000_000))
    metrics.add(1, "split", (1, 1, 0, 30_000_000_000))

    (split,) = metrics.figures().components
    assert split.capacity == pytest.approx(0.5)


def test_records_are_counted_by_offsets_not_by_the_rows_that_spark_sees() -> None:
    figures = FlowMetrics("words").figures(PROGRESS)

    assert records_of(PROGRESS) == figures.records == 150
    assert figures.records_per_second == 300
    assert figures.lag == 20
    assert (figures.batch, figures.batch_ms) == (7, 500)
    assert (figures.state_rows, figures.state_bytes) == (4, 1000)


def test_a_source_without_offsets_by_partition_counts_its_rows_and_has_no_lag() -> None:
    progress = {"batchId": 1, "sources": [{"numInputRows": 5, "endOffset": "17"}]}

    figures = FlowMetrics("rate").figures(progress)

    assert figures.records == 5
    assert figures.lag is None


def test_figures_survive_json() -> None:
    metrics = FlowMetrics("words")
    metrics.add(0, "split", (1, 2, 3, 4))
    figures = metrics.figures(PROGRESS)
    assert FlowFigures.from_json(figures.to_json()) == figures


def test_what_a_task_reports_is_served(server: MetricsServer) -> None:
    address = listening(server)

    send_report(
        address, 0, {"split": ComponentTally(executed=3, emitted=9), "idle": ComponentTally()}
    )

    wait_until(lambda: bool(server.figures().components), what="the report")
    figures = read_figures(server.address)
    assert figures.plan == "words"
    assert [(each.component, each.emitted) for each in figures.components] == [("split", 9)]


def test_a_driver_listens_at_one_address_and_is_reached_at_another(server: MetricsServer) -> None:
    conf = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}
    address = server.listen(*driver_addresses(conf))

    assert address is not None and address.host == "localhost"
    send_report(address, 0, {"split": ComponentTally(executed=3)})
    wait_until(lambda: bool(server.figures().components), what="the report")
    assert driver_addresses({"spark.driver.host": "driver-svc"}) == ("driver-svc", "driver-svc")


@pytest.mark.parametrize("bind", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_fails_no_run(server: MetricsServer, bind: str) -> None:
    assert server.listen(bind, "driver-svc") is None
    assert server.figures().plan == "words"


def test_figures_in_prometheus_text_format(server: MetricsServer) -> None:
    send_report(listening(server), 0, {'a"b': ComponentTally(executed=3)})
    wait_until(lambda: bool(server.figures().components), what="the report")

    with urllib.request.urlopen(f"http://{server.address}/metrics") as answer:
        lines = answer.read().decode().splitlines()

    assert 'headrace_flow_lag{flow="words"} 20' in lines
    assert 'headrace_flow_executed_total{flow="words",component="a\\"b"} 3' in lines
    assert "# TYPE headrace_flow_executed_total counter" in lines


def test_a_report_with_another_token_and_noise_are_dropped(server: MetricsServer) -> None:
    address = listening(server)

    send_report(
        ReportAddress(address.host, address.port, "guessed"), 0, {"a": ComponentTally(executed=1)}
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for noise in (b"", b"\xff", b"[]", b'{"token": 1}', b"[" * 30_000):
            sender.sendto(noise, (address.host, address.port))
    send_report(address, 0, {"b": ComponentTally(executed=1)})

    wait_until(lambda: bool(server.figures().components), what="the report behind the noise")
    assert [each.component for each in server.figures().components] == ["b"]


def test_a_report_without_a_receiver_does_no_harm() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        port = gone.getsockname()[1]

    send_report(ReportAddress("127.0.0.1", port, ""), 0, {"a": ComponentTally(executed=1)})
    send_report(ReportAddress("127.0.0.1", port, ""), 0, {"a": ComponentTally(executed=1)})


def test_an_unknown_page_lists_the_pages_there_are(server: MetricsServer) -> None:
    with pytest.raises(urllib.error.HTTPError, match="there are /metrics and /figures") as caught:
        urllib.request.urlopen(f"http://{server.address}/nothing")
    caught.value.close()


def test_counts_go_on_when_a_changed_plan_is_followed(server: MetricsServer) -> None:
    send_report(listening(server), 0, {"a": ComponentTally(executed=1)})
    wait_until(lambda: bool(server.figures().components), what="the report")

    server.serve_query("words", lambda: None)

    assert server.figures().components[0].executed == 1
    assert server.figures().batch is None
    assert prometheus_text(server.figures()).count("headrace_flow_batch{") == 0


def test_a_graph_and_tables_come_with_the_figures(server: MetricsServer) -> None:
    table = ShownTable("Rising", ("page", "change"), (("/", "+5%"),))
    server.describe(
        Graph.of_query("count", reads="views", writes="counts").to_json(), lambda: [table]
    )

    with urllib.request.urlopen(f"http://{server.address}/figures", timeout=60) as answer:
        served = json.loads(answer.read())

    (shown,) = served["tables"]
    assert shown == {"title": "Rising", "columns": ["page", "change"], "rows": [["/", "+5%"]]}
    assert [(each["kind"], each["what"]) for each in served["graph"]["nodes"]] == [
        ("spout", "views"),
        ("bolt", "Spark"),
        ("sink", "counts"),
    ]
    assert read_figures(server.address).plan == "words"
