"""Commands on one machine, a driver on another: they meet in two topics, each with its own rights.

The query stands for Spark's; the rest is what `headrace flow run` has inside a cluster. The driver
and the commands have different folders of runs, as on two machines.
"""

import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headrace.cli.flow.execution import Execution
from headrace.cli.flow.flow_run import RunOptions
from headrace.cli.terminal.stop import Stop
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.error import FlowError
from headrace.flow.execution.activation import Activation
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE, RunFolder, this_run
from headrace.flow.remote import driver_link
from headrace.flow.remote.driver_link import DriverLink
from headrace.flow.remote.remote_control import RemoteControl
from headrace.flow.storage.file_store import LocalFileStore
from headrace.flow.storage.location import Location
from headrace.model.clock import ManualClock, SystemClock
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace

RUNS, REQUESTS = "headrace.flow.runs", "headrace.flow.requests"
RIGHTS = {
    "driver": [
        ("headrace.flow.", AclOperation.CREATE),
        (RUNS, AclOperation.WRITE),
        (REQUESTS, AclOperation.READ),
    ],
    "operator": [(RUNS, AclOperation.READ), (REQUESTS, AclOperation.WRITE)],
    "viewer": [(RUNS, AclOperation.READ)],
    "deaf": [("headrace.flow.", AclOperation.CREATE), (RUNS, AclOperation.WRITE)],
    "stranger": [],
}


class Machine:
    """Runs drivers, and commands that log in as some user and see no driver's folder."""

    def __init__(self, folder: Path, brokers: str, logs: list[Any]) -> None:
        self.folder, self._brokers = folder, brokers
        self.logs = logs

    def settings(self, user: str) -> dict[str, str]:
        if user == "anonymous":
            return {"bootstrap.servers": self._brokers}
        return {
            "bootstrap.servers": self._brokers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": "apple",
        }

    def command(self, user: str, *arguments: str, folder: str = "here") -> Finished:
        login = self.folder / f"{user}.properties"
        lines = (f"{key}={value}\n" for key, value in self.settings(user).items())
        login.write_text("".join(lines))
        here = {
            FOLDER_VARIABLE: str(self.folder / folder),
            CLIENT_CONFIG_VARIABLE: str(login),
        }
        return run_headrace("flow", *arguments, environment=here)

    def listed(self, user: str = "operator") -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.command(user, "list", "--format=json").out)
        return rows

    @contextmanager
    def driver(self, user: str, application: str) -> Iterator[Thread]:
        """Run a flow until it is stopped, at the latest at the end of the block."""
        folder = RunFolder(self.folder / application)
        metrics = MetricsServer()
        with Stop() as stop:
            execution = Execution(
                name="words",
                options=RunOptions(
                    program="words.py", brokers=self._brokers, checkpoint=Location("words")
                ),
                spark=SimpleNamespace(sparkContext=SimpleNamespace(master="yarn", uiWebUrl=None)),
                begin=Query,
                change=_refuse,
                graph=dict,
                stopped=lambda: stop.requested,
                watch=lambda figures: None,
                metrics=metrics,
                activation=Activation(LocalFileStore(self.folder / f"{application}.checkpoint")),
                run_folder=folder,
            )

            def run() -> None:
                with DriverLink(
                    self.settings(user),
                    name="words",
                    application=application,
                    figures=metrics.figures,
                    run_folder=folder,
                    heartbeat_seconds=0.5,
                ):
                    execution.run()

            thread = Thread(target=run)
            thread.start()
            try:
                yield thread
            finally:
                stop.requested = True
                thread.join(60)
                assert not thread.is_alive()


class Query:
    """Has run its third batch, and runs no other until it is stopped."""

    def __init__(self) -> None:
        self.isActive = True
        self.lastProgress = {"batchId": 3, "batchDuration": 20}
        self.status = {"isTriggerActive": False}

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


def _refuse(request: Any) -> None:
    raise FlowError(f"words has no component {', '.join(request['parallelism'])}")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("control")
    users = folder / "users"
    users.write_text("".join(f"{name}=apple\n" for name in RIGHTS))
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(folder / "broker", settings) as process:
        found = re.search(r"listens on (\S+), (\S+)", process.log)
        assert found is not None
        acls = [
            AclBinding(
                ResourceType.TOPIC,
                name,
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for user, rights in RIGHTS.items()
            for name, operation in rights
        ]
        admin = AdminClient({"bootstrap.servers": found[1]})
        for created in admin.create_acls(acls).values():
            created.result(90)
        yield found[2]


@pytest.fixture
def machine(brokers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setattr("headrace.cli.flow.execution._POLL_SECONDS", 0.05)
    # A driver in this process would log into the output of a command.
    with structlog.testing.capture_logs() as logs:
        yield Machine(tmp_path, brokers, logs)


def test_a_flow_in_a_cluster_is_seen_changed_and_stopped(machine: Machine) -> None:
    with machine.driver("driver", "application_1_0001") as driver:
        wait_until(lambda: len(machine.listed()) == 1, what="the run in the list")
        (row,) = machine.listed()
        figures = machine.command("operator", "metrics", "words")
        described = machine.command("operator", "describe", "words", "--format=json")
        refused = machine.command("operator", "rebalance", "words", "-e", "shuot=2")
        paused = machine.command("operator", "deactivate", "application_1_0001")
        state_paused = machine.listed()[0]["state"]
        resumed = machine.command("operator", "activate", "words")
        restarted = machine.command("operator", "restart", "words")
        state_resumed = machine.listed()[0]["state"]
        stopped = machine.command("operator", "stop", "words")
        driver.join(60)
        alive = driver.is_alive()
        with Reader.of_topics(machine.settings("operator"), RUNS, columns=["value"]) as reader:
            written = b"".join(each or b"" for each in reader.read_all()["value"].to_pylist())

    assert (row["name"], row["application"], row["pid"]) == ("words", "application_1_0001", None)
    assert (row["host"], row["state"]) == (socket.gethostname(), "active")
    assert figures.lines == ["batch 3, 0 records, 0 records/s, 20 ms"], figures.err
    assert json.loads(described.out)["run"]["program"] == "words.py"
    assert (refused.code, "words has no component shuot" in refused.err) == (1, True), refused.err
    for each in (paused, resumed, restarted, stopped):
        assert each.code == 0, each.err
    assert (state_paused, state_resumed, alive) == ("inactive", "active", False)
    assert b"words.py" in written
    assert b"apple" not in written
    wait_until(lambda: machine.listed() == [], what="the end of the run in the list")
    assert "no flow called words runs" in machine.command("operator", "stop", "words").err


def test_flows_with_one_name_are_told_apart_by_their_application(machine: Machine) -> None:
    with (
        machine.driver("driver", "application_1_0002"),
        machine.driver("driver", "application_1_0003"),
    ):
        wait_until(lambda: len(machine.listed()) == 2, what="both in the list")
        ambiguous = machine.command("operator", "restart", "words")
        chosen = machine.command("operator", "restart", "application_1_0003")

    named = set(re.findall(r"application_\w+", ambiguous.err))
    assert named == {"application_1_0002", "application_1_0003"}, ambiguous
    assert chosen.code == 0, chosen.err


def test_a_driver_of_this_machine_comes_once_and_goes_by_its_pid(machine: Machine) -> None:
    with machine.driver("driver", "application_1_0008"):
        wait_until(lambda: len(machine.listed()) == 1, what="the run in the list")
        both = machine.command("operator", "list", "--format=json", folder="application_1_0008")

    (row,) = json.loads(both.out)
    assert (row["pid"], row["application"]) == (os.getpid(), None)


def test_flows_of_both_kinds_with_one_name_are_told_apart(machine: Machine) -> None:
    here = RunFolder(machine.folder / "here")
    mine = this_run(name="words", program="words.py", master="local", brokers="b:9092")
    here.write(mine)
    with machine.driver("driver", "application_1_0009"):
        wait_until(lambda: len(machine.listed()) == 2, what="both in the list")
        ambiguous = machine.command("operator", "stop", "words")

    assert ambiguous.code == 1
    assert f"pid {mine.pid}, application_1_0009" in ambiguous.err


def test_a_driver_that_was_killed_is_lost_and_not_asked(machine: Machine) -> None:
    later = ManualClock(SystemClock().wall_ms() + 3_600_000)
    control = RemoteControl(ClientSettings.of(machine.settings("operator")), later)
    with machine.driver("driver", "application_1_0004"):
        wait_until(lambda: len(machine.listed()) == 1, what="the run in the list")
        (run,) = control.runs()
        with pytest.raises(FlowError, match="has not reported for"):
            control.restart(run)

    assert run.state(later.wall_ms()) == "lost"


def test_without_a_right_a_command_says_so(machine: Machine) -> None:
    with machine.driver("driver", "application_1_0005"):
        wait_until(lambda: len(machine.listed()) == 1, what="the run in the list")
        seen = machine.listed("viewer")
        not_stopped = machine.command("viewer", "stop", "words")
        unseen = machine.command("stranger", "list", "--format=json")
        not_found = machine.command("stranger", "stop", "words")
        still_there = machine.listed()

    assert [each["state"] for each in (*seen, *still_there)] == ["active", "active"]
    assert (not_stopped.code, f"may not write to the topic {REQUESTS}" in not_stopped.err) == (
        1,
        True,
    ), not_stopped.err
    assert (unseen.code, unseen.out.strip()) == (0, "[]")
    assert f"may not read the topic {RUNS}" in unseen.err
    assert (not_found.code, f"may not read the topic {RUNS}" in not_found.err) == (1, True)


def test_a_driver_without_a_right_runs_all_the_same(machine: Machine) -> None:
    def warned() -> bool:
        return "flow_control_unavailable" in {each["event"] for each in machine.logs}

    with machine.driver("stranger", "application_1_0006") as driver:
        wait_until(warned, what="the warning")
        running, listed = driver.is_alive(), machine.listed()

    assert (running, listed) == (True, [])


def test_a_driver_that_cannot_read_requests_is_seen_and_says_why(machine: Machine) -> None:
    with machine.driver("deaf", "application_1_0007"):
        wait_until(lambda: len(machine.listed()) == 1, what="the run in the list")
        figures = machine.command("operator", "metrics", "words")
        refused = machine.command("operator", "restart", "words")

    assert figures.code == 0, figures.err
    assert (refused.code, "receives no requests: its driver cannot read" in refused.err) == (
        1,
        True,
    )


def test_a_driver_reports_again_when_its_broker_is_back(
    own_broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_link, "_RETRY_SECONDS", 0.2)
    # Short, and still long enough for its last report on a busy machine.
    monkeypatch.setitem(driver_link._LIMITS, "default.api.timeout.ms", "5000")
    own_broker.start()
    with structlog.testing.capture_logs() as logs:
        machine = Machine(tmp_path, own_broker.address, logs)
        with machine.driver("anonymous", "application_1_0010") as driver:
            wait_until(lambda: len(machine.listed("anonymous")) == 1, what="the run in the list")
            own_broker.kill()
            wait_until(lambda: bool(logs), what="a report that failed")
            running = driver.is_alive()
            own_broker.start()
            wait_until(
                lambda: machine.command("anonymous", "restart", "words").code == 0,
                what="a request that is done",
            )

    assert running
    wait_until(lambda: machine.listed("anonymous") == [], what="the end of the run in the list")


def test_brokers_that_do_not_answer_hide_no_flow_of_this_machine(machine: Machine) -> None:
    listed = run_headrace(
        "flow",
        "list",
        "--format=json",
        "-b",
        "127.0.0.1:1",
        environment={FOLDER_VARIABLE: "/nowhere"},
    )

    assert (listed.code, listed.out.strip()) == (0, "[]")
    assert "flows of other machines are not known" in listed.err
