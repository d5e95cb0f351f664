"""Storm's REST API, asked as a dashboard and a script made for Storm ask it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from headrace.console.server import ConsoleServer
from headrace.flow.monitoring.metrics import FlowFigures
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.run_folder import (
    FOLDER_VARIABLE,
    Run,
    RunFolder,
    start_ticks,
    this_run,
)
from headrace.flow.remote.driver_link import DriverLink
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient

GRAPH = {
    "nodes": [
        {"name": "lines", "kind": "spout", "what": "lines", "parallelism": 1},
        {"name": "split", "kind": "bolt", "what": "split", "parallelism": 4},
    ],
    "arrows": [{"source": "lines", "target": "split", "stream": "default"}],
}


FIGURES = FlowFigures("words", batch=7, batch_ms=20, records=900)


class Answerer:
    """A run in a folder, and a thread that answers the requests to it."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.requests: list[dict[str, Any]] = []
        self.run_folder = RunFolder(folder)
        self.run = run
        self.run_folder.write(run)
        self._closed = Event()
        self._thread = Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        while not self._closed.wait(0.02):
            request = self.run_folder.take_request(self.run)
            if request is not None:
                self.requests.append(request)
                problem = "no component absent" if "absent" in str(request) else None
                self.run_folder.answer(self.run, request, problem)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()


class Flow(Answerer):
    """A process that does nothing, whose requests are answered."""

    def __init__(self, folder: Path, metrics: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
        run = Run(
            name="words",
            pid=self.process.pid,
            started_ticks=start_ticks(self.process.pid) or 0,
            started_ms=time.time_ns() // 1_000_000 - 5_000,
            program="words.py",
            master="local[2]",
            brokers="",
            metrics=metrics,
            graph=GRAPH,
        )
        super().__init__(folder, run)

    def close(self) -> None:
        super().close()
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextmanager
def running(folder: Path) -> Iterator[Flow]:
    with MetricsServer() as metrics:
        metrics.serve_query("words", lambda: {"batchId": 3, "batchDuration": 20})
        metrics._metrics.add(0, "split", (900, 4_000, 7, 9_000_000))
        flow = Flow(folder, metrics.address)
        try:
            yield flow
        finally:
            flow.close()


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flow]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with running(tmp_path) as started:
        yield started


def topology_of(client: ConsoleClient, flow: Answerer) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def there() -> bool:
        found[:] = client.get("v1/topology/summary").json()["topologies"]
        return [each["id"].split("-")[1] for each in found] == [str(flow.run.pid)]

    wait_until(there, what="the flow", timeout_seconds=60)
    return found[0]


def test_a_dashboard_reads_cluster_topology_and_component(
    client: ConsoleClient, flow: Flow
) -> None:
    topology = topology_of(client, flow)
    path = f"v1/topology/{topology['id']}"
    wait_until(
        # A flow that did not serve its figures in time is shown without them.
        lambda: client.get(path).json()["bolts"][0]["executed"] == 900,
        what="the figures of the flow",
    )
    cluster = client.get("v1/cluster/summary").json()
    (supervisor,) = client.get("v1/supervisor/summary").json()["supervisors"]
    detail = client.get(f"v1/topology/{topology['id']}?window=600&sys=0").json()
    bolt = client.get(f"v1/topology/{topology['id']}/component/split").json()

    assert (topology["status"], topology["tasksTotal"]) == ("ACTIVE", 5)
    assert (cluster["topologies"], cluster["tasksTotal"], cluster["slotsUsed"]) == (1, 5, 1)
    assert cluster["slotsTotal"] == cluster["slotsUsed"] + cluster["slotsFree"]
    assert supervisor["slotsTotal"] == cluster["slotsTotal"]
    assert client.get("v1/cluster/configuration").json()["ui.actions.enabled"] is True
    (split,) = detail["bolts"]
    assert (split["executed"], split["failed"], split["executeLatency"]) == (900, 7, "0.010")
    assert (bolt["id"], bolt["boltStats"][3]["acked"]) == ("split", 893)
    assert client.get("v1/topology/other-1-1").status == 404
    assert client.get(f"v1/topology/{topology['id']}/component/absent").status == 404
    assert client.get(f"v1/topology/{topology['id']}?window=7").json()["window"] == "600"
    assert client.get(f"v1/topology/{topology['id']}?window=x").status == 400
    (nimbus,) = client.get("v1/nimbus/summary").json()["nimbuses"]
    assert nimbus["status"] == "Leader"
    metrics = client.get(f"v1/topology/{topology['id']}/metrics").json()
    assert [each["id"] for each in metrics["bolts"]] == ["split"]


def test_a_script_deactivates_activates_rebalances_and_kills(
    client: ConsoleClient, flow: Flow
) -> None:
    path = f"v1/topology/{topology_of(client, flow)['id']}"

    for operation in ("deactivate", "activate"):
        answer = client.ask("POST", f"{path}/{operation}").json()
        assert answer == {
            "topologyOperation": operation,
            "topologyId": path.rpartition("/")[2],
            "status": "success",
        }
    options = {"numWorkers": 2, "executors": {"split": "7"}}
    assert client.post(f"{path}/rebalance/30", {"rebalanceOptions": options}).status == 200
    assert client.ask("POST", f"{path}/rebalance/0").status == 200
    bad = client.post(f"{path}/rebalance/0", {"rebalanceOptions": {"executors": {"absent": 2}}})
    assert (bad.status, bad.json()["error"]) == (409, "no component absent")
    assert (
        client.post(f"{path}/rebalance/0", {"rebalanceOptions": {"numWorkers": "x"}}).status == 400
    )
    for options in ({"numWorkers": 10_001}, {"executors": {"x" * 301: 1}}):
        assert client.post(f"{path}/rebalance/0", {"rebalanceOptions": options}).status == 400
    assert client.ask("POST", f"{path}/rebalance/{'9' * 5000}").status == 400
    asked = [{key: each[key] for key in each if key != "id"} for each in flow.requests]
    assert asked[:4] == [
        {"deactivate": True},
        {"activate": True},
        {"parallelism": {"split": 7}, "partitions": 2},
        {"restart": True},
    ]

    assert client.ask("POST", f"{path}/kill/0").status == 200
    assert flow.process.wait(90) == -15
    assert client.ask("POST", f"{path}/kill/0").status == 404


@pytest.fixture
def remote(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Answerer]:
    """A flow whose driver is seen through the brokers alone."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "here"))
    run = this_run(
        name="words", program="words.py", master="yarn", brokers=broker.address, graph=GRAPH
    )
    flow = Answerer(tmp_path / "elsewhere", run)
    link = DriverLink(
        {"bootstrap.servers": broker.address},
        name="words",
        application="application_1_0001",
        figures=lambda: FIGURES,
        run_folder=flow.run_folder,
        heartbeat_seconds=0.3,
    )
    try:
        with link:
            yield flow
    finally:
        flow.close()


def test_a_flow_of_another_machine_is_shown_and_changed(
    client: ConsoleClient, remote: Answerer
) -> None:
    topology = topology_of(client, remote)
    (shown,) = client.get("flows").json()["flows"]
    detail = client.get(f"v1/topology/{topology['id']}").json()
    body = {key: shown[key] for key in ("name", "pid", "application")}

    assert (shown["application"], shown["master"]) == ("application_1_0001", "yarn")
    assert (shown["figures"]["batch"], shown["problem"]) == (7, None)
    assert [each["boltId"] for each in detail["bolts"]] == ["split"]
    assert client.get("v1/cluster/summary").json()["slotsUsed"] == 0
    assert client.post("flows/deactivate", body).status == 200
    assert client.post("flows/activate", {**body, "application": None}).status == 404
    options = {"rebalanceOptions": {"executors": {"absent": 2}}}
    refused = client.post(f"v1/topology/{topology['id']}/rebalance/0", options)
    assert (refused.status, refused.json()["error"]) == (409, "no component absent")
    assert [set(each) - {"id"} for each in remote.requests] == [
        {"deactivate"},
        {"parallelism", "partitions"},
    ]


def test_a_page_of_another_site_changes_nothing(console: ConsoleServer, flow: Flow) -> None:
    path = f"v1/topology/{topology_of(ConsoleClient(console.url), flow)['id']}/deactivate"
    assert ConsoleClient(console.url, headers={}).ask("POST", path).status == 403
    assert flow.requests == []
