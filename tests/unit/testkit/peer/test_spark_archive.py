"""The archive of Spark's classes: used where it is, and belonging to one Java and its jars."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.peer import spark_archive
from testkit.peer.class_archive import archive_path, options_of
from testkit.peer.java import SHORT_RUN, Java, find_java
from testkit.peer.peer import PeerMissing, require_peer


@pytest.fixture
def java() -> Java:
    try:
        return find_java()
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A SPARK_HOME whose archive would lie below the test's folder."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "headrace").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spark_archive.spark_java_options.cache_clear()
    yield tmp_path / "spark"
    spark_archive.spark_java_options.cache_clear()


def test_spark_starts_without_an_archive_that_is_not_there(java: Java, home: Path) -> None:
    assert spark_archive.spark_java_options() == SHORT_RUN


def test_spark_starts_with_the_archive(java: Java, home: Path) -> None:
    spark_archive._archive().touch()

    assert spark_archive.spark_java_options() == (
        *SHORT_RUN,
        *options_of(spark_archive._archive()),
    )


def test_jars_that_were_installed_again_have_another_archive(java: Java, home: Path) -> None:
    before = spark_archive._archive()
    (home / "jars" / "more.jar").touch()

    assert spark_archive._archive() != before


def test_an_archive_that_cannot_be_made_is_none(
    java: Java, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_archive, "_make", lambda archive: None)

    assert not spark_archive.make_spark_archive()
    assert list((home.parent / "headrace").iterdir()) == []


def test_what_belongs_to_something_else_lies_elsewhere(java: Java, tmp_path: Path) -> None:
    paths = {archive_path(tmp_path / "spark", java, belongs_to=each) for each in ("a", "b")}

    assert len(paths) == 2
