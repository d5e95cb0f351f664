"""What `headrace doctor` reports about a machine."""

import json
import resource
import socket
from pathlib import Path

import pytest

from headrace.cli.doctor import CheckResult, examine
from headrace.process.java import JavaMissing
from testkit.process.command_line import run_headrace


def results(data: Path, port: int = 1) -> dict[str, CheckResult]:
    return {each.what: each.verdict for each in examine(data, {"broker": port})}


def test_a_port_in_use_is_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert results(tmp_path, port)[f"port {port}"] is CheckResult.WARNING


def test_a_free_port_is_fine(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert results(tmp_path, port)[f"port {port}"] is CheckResult.OK


def test_missing_java_is_a_problem_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise JavaMissing("there is no java on the path; install openjdk-17-jre-headless")

    monkeypatch.setattr("headrace.process.java.find_java", missing)
    (java,) = [each for each in examine(tmp_path, {}) if each.what == "java"]
    assert java.verdict is CheckResult.PROBLEM
    assert "install openjdk-17" in java.advice


def test_a_low_file_limit_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    (limit,) = [each for each in examine(tmp_path, {}) if each.what == "file limit"]
    assert limit.verdict is CheckResult.PROBLEM
    assert "ulimit -n" in limit.advice


def test_a_full_disk_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    assert results(tmp_path / "not" / "there" / "yet")["disk"] is CheckResult.PROBLEM


def test_a_problem_ends_with_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    done = run_headrace("doctor", "--data", str(tmp_path), "--format", "json")
    assert done.code == 1
    assert "file limit" in {each["what"] for each in json.loads(done.out)}


def test_the_table_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    done = run_headrace("doctor", "--data", str(tmp_path))
    assert "FAIL file limit" in done.out
    assert "ulimit -n" in done.out
