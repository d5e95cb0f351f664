"""What `headrace.spark.session` says before Spark starts."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

import headrace.spark
from headrace.process.java import JavaMissing, find_java
from headrace.spark import socket_folder
from headrace.spark.ready_session import SparkUnavailable


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(socket_folder, "_folders", {})
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    find_java.cache_clear()
    yield
    find_java.cache_clear()


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")

    with pytest.raises(JavaMissing, match="install openjdk-17-jre-headless"):
        headrace.spark.session()


def test_the_package_has_nothing_else_to_ask_for() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sessions'"):
        _ = headrace.spark.sessions


class NotNow(PySparkRuntimeError):
    """Spark does not start in this test."""


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], dict[str, str]]:
    """Starts a session up to the point where Spark would start; returns its settings."""

    def start(config: dict[str, str]) -> dict[str, str]:
        settings: dict[str, str] = {}

        def get_or_create(builder: SparkSession.Builder) -> SparkSession:
            settings.update(builder._options)
            raise NotNow("not in this test", messageParameters={})

        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", get_or_create)
        monkeypatch.setattr("headrace.spark.ready_session.find_java", lambda: None)
        monkeypatch.setattr("headrace.spark.ready_session.quick_home", lambda: None)
        with pytest.raises(SparkUnavailable):
            headrace.spark.session(config=config)
        return settings

    return start


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", "-Xss16m"), ("-Dx=y", "-Dx=y -Xss16m"), ("-Xss4m", "-Xss4m")],
)
def test_java_gets_a_deep_stack_unless_the_user_chose_one(
    given: str, expected: str, start: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    settings = start({"spark.driver.extraJavaOptions": given} if given else {})

    assert settings["spark.driver.extraJavaOptions"] == expected


@pytest.mark.parametrize(
    ("variables", "config", "expected"),
    [
        ({}, {}, sys.executable),
        ({}, {"spark.pyspark.python": "/opt/python"}, "/opt/python"),
        ({"PYSPARK_PYTHON": "/usr/bin/python3"}, {}, "/usr/bin/python3"),
        (
            {"PYSPARK_PYTHON": "/usr/bin/python3"},
            {"spark.pyspark.python": "/opt/python"},
            "/usr/bin/python3",
        ),
        ({}, {"spark.master": "spark://somewhere:7077"}, None),
    ],
)
def test_local_workers_run_this_python_unless_the_user_chose_another(
    variables: dict[str, str],
    config: dict[str, str],
    expected: str | None,
    start: Callable[[dict[str, str]], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "so that it is restored")
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    start(config)

    assert os.environ.get("PYSPARK_PYTHON") == expected
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    "config",
    [
        {"spark.master": "spark://somewhere:7077"},
        {"spark.python.unix.domain.socket.enabled": "false"},
        {"spark.python.unix.domain.socket.dir": "/run/user/1000"},
    ],
)
def test_sockets_of_a_cluster_or_of_the_user_s_choice_are_left_alone(
    config: dict[str, str], start: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    settings = start(config)

    sockets = {key: settings[key] for key in settings if ".socket." in key}
    assert sockets == {key: config[key] for key in config if ".socket." in key}


def test_a_local_session_reaches_its_workers_through_sockets_that_only_its_user_may_open(
    start: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    settings = start({})

    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    folder = Path(settings["spark.python.unix.domain.socket.dir"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_session_on_a_cluster_does_not_inherit_the_sockets_of_one_on_this_machine(
    start: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    start({})

    settings = start({"spark.master": "spark://somewhere:7077"})

    assert settings["spark.python.unix.domain.socket.enabled"] == "false"
