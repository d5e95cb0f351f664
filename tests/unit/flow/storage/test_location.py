"""Folders as users write them, and which of them executors on other machines reach."""

from pathlib import Path

import pytest

from headrace.flow.error import FlowError
from headrace.flow.storage.location import Location, check_reachable, is_cluster


@pytest.mark.parametrize(
    ("text", "scheme", "local"),
    [
        ("words", None, Path("words")),
        ("/var/words/", None, Path("/var/words")),
        ("hdfs://nn:8020/ck", "hdfs", None),
        ("s3a://bucket/ck", "s3a", None),
        ("file:///mnt/ck", "file", Path("/mnt/ck")),
        ("file:/mnt/ck", "file", Path("/mnt/ck")),
    ],
)
def test_a_path_or_a_uri(text: str, scheme: str | None, local: Path | None) -> None:
    location = Location.of(text)

    assert (location.scheme, location.local_path) == (scheme, local)


def test_a_child_keeps_the_uri_whole() -> None:
    assert str(Location.of("hdfs://nn:8020/ck/").child("a")) == "hdfs://nn:8020/ck/a"


def test_a_uri_in_a_path_has_lost_a_slash_and_is_refused() -> None:
    with pytest.raises(FlowError, match="pass it as text"):
        Location.of(Path("hdfs://nn:8020/ck"))


def test_two_runs_compare_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert Location.of("ck").absolute == str(tmp_path / "ck")
    assert Location.of("hdfs://nn/ck").absolute == "hdfs://nn/ck"


@pytest.mark.parametrize("master", ["yarn", "spark://a:7077", "k8s://https://a"])
def test_a_folder_of_this_machine_is_refused_on_a_cluster(master: str) -> None:
    with pytest.raises(FlowError, match=r"write hdfs://.* or file:///ck if every machine mounts"):
        check_reachable(Location.of("/ck"), "the checkpoint", master=master, default_fs="file:///")


@pytest.mark.parametrize(
    ("text", "master", "default_fs"),
    [
        ("/ck", "local[*]", "file:///"),
        ("/ck", "local-cluster[2,1,1024]", "file:///"),
        ("/ck", "yarn", "hdfs://nn:8020"),
        ("hdfs://nn/ck", "yarn", "file:///"),
        ("file:///mnt/ck", "spark://a:7077", "file:///"),
    ],
)
def test_what_executors_reach_is_taken(text: str, master: str, default_fs: str) -> None:
    check_reachable(Location.of(text), "the checkpoint", master=master, default_fs=default_fs)


def test_only_local_masters_are_one_machine() -> None:
    assert not is_cluster("local[2]")
    assert is_cluster("yarn")
