"""Java is found as Spark's own scripts find it, and a missing or old one is named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.process.java import JavaMissing, find_java


@pytest.fixture(autouse=True)
def no_cached_java(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Search for Java in every test, and keep no fake one after it."""
    find_java.cache_clear()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    yield
    find_java.cache_clear()


def install_java(home: Path, says: str, exit_code: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install_java(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16')
    path = install_java(tmp_path / "path", 'openjdk version "17.0.15" 2025-04-15')
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))

    java = find_java()

    assert (java.path, java.major) == (home, 21)


def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JavaMissing, match="no java on the path; install openjdk-17-jre-headless"):
        find_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")

    with pytest.raises(JavaMissing, match=r"JAVA_HOME \(/no/such/java\) has no bin/java"):
        find_java()


def test_an_old_java_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, 'openjdk version "11.0.22" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match="is Java 11, and Java 17 is needed"):
        find_java()


def test_a_java_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path, "broken", exit_code=3)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match="does not run"):
        find_java()
