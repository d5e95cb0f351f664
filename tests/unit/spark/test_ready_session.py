"""What `headrace.spark.session` says before Spark starts."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import headrace.spark
from headrace.process.java import JavaMissing, find_java


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
