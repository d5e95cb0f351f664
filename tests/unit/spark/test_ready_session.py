"""What `headrace.spark.session` says before Spark starts."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

import headrace.spark
from headrace.process.java import JavaMissing, find_java
from headrace.spark.ready_session import SparkUnavailable


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("", "-Xss16m"), ("-Dx=y", "-Dx=y -Xss16m"), ("-Xss4m", "-Xss4m")],
)
def test_java_gets_a_deep_stack_unless_the_user_chose_one(
    given: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, str] = {}

    def start(builder: SparkSession.Builder) -> SparkSession:
        asked.update(builder._options)
        raise NotNow("not in this test", messageParameters={})

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", start)
    monkeypatch.setattr("headrace.spark.ready_session.find_java", lambda: None)
    config = {"spark.driver.extraJavaOptions": given} if given else {}

    with pytest.raises(SparkUnavailable):
        headrace.spark.session(config=config)

    assert asked["spark.driver.extraJavaOptions"] == wanted
