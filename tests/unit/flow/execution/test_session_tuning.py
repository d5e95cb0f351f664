"""What a plan sets in a session, and what it leaves alone."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.flow.error import FlowError
from headrace.flow.execution import session_tuning
from headrace.flow.execution.session_tuning import (
    asked_cores,
    await_executors,
    partitioned,
    partitions_of,
    tuned,
)
from headrace.flow.storage.file_store import LocalFileStore

PARTITIONS = "spark.sql.shuffle.partitions"
STORE = "spark.sql.streaming.stateStore.providerClass"


class Settings(dict[str, str]):
    """The settings of a session: `get` returns what was set, never Spark's default."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        self.pop(key, None)

    def isModifiable(self, key: str) -> bool:  # noqa: N802 - Spark's name
        return key != "spark.executor.memory"


def session(master: str = "local[4]", *, cores: int = 4, **settings: str) -> Any:
    conf = Settings({key.replace("_", "."): text for key, text in settings.items()})
    application = SimpleNamespace(getAll=lambda: [("spark.master", master), *conf.items()])
    context = SimpleNamespace(master=master, defaultParallelism=cores, getConf=lambda: application)
    return SimpleNamespace(conf=conf, sparkContext=context)


def test_an_untouched_session_is_tuned_and_restored() -> None:
    spark = session()

    with tuned(spark, {}):
        assert spark.conf[PARTITIONS] == "4"
        assert spark.conf[STORE].endswith("RocksDBStateStoreProvider")

    assert spark.conf == {}


def test_states_on_this_machine_have_one_checksum_each(tmp_path: Path) -> None:
    checksum = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
    spark, other = session(), session(**{checksum.replace(".", "_"): "true"})

    with tuned(spark, {}, LocalFileStore(tmp_path)), tuned(other, {}, LocalFileStore(tmp_path)):
        assert (spark.conf[checksum], other.conf[checksum]) == ("false", "true")
    with tuned(spark, {}):
        assert checksum not in spark.conf


def test_what_the_user_has_set_in_the_session_stays() -> None:
    spark = session()
    spark.conf.update({PARTITIONS: "200", STORE: "mine"})

    with tuned(spark, {}):
        assert (spark.conf[PARTITIONS], spark.conf[STORE]) == ("200", "mine")
        assert not any("rocksdb" in key for key in spark.conf)


def test_a_setting_of_the_plan_wins() -> None:
    spark = session()
    spark.conf[PARTITIONS] = "200"

    with tuned(spark, {PARTITIONS: "8", "metrics.topic": "m"}):
        assert spark.conf[PARTITIONS] == "8"

    assert spark.conf == {PARTITIONS: "200"}


def test_a_query_goes_on_with_the_number_of_its_checkpoint(tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path)
    for batch, number in (("2", "3"), ("10", "7")):
        settings = json.dumps({"batchWatermarkMs": 0, "conf": {PARTITIONS: number}})
        store.write(f"offsets/{batch}", f"v1\n{settings}\n{{}}".encode())
    spark = session("yarn")

    assert partitions_of(store) == 7
    with partitioned(spark, store):
        assert spark.conf[PARTITIONS] == "7"


def test_a_checkpoint_of_an_unknown_form_says_nothing(tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path)
    assert partitions_of(store) is None
    store.write("offsets/0", b"v9")
    assert partitions_of(store) is None


@pytest.mark.parametrize(
    ("application", "cores"),
    [
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ({"spark.executor.instances": "3", "spark.master": "yarn"}, 3),
        ({"spark.executor.instances": "3", "spark.master": "spark://a:7077"}, None),
        ({"spark.cores.max": "6", "spark.master": "spark://a:7077"}, 6),
        ({"spark.cores.max": "6", "spark.master": "k8s://a"}, None),
        ({"spark.default.parallelism": "40"}, 40),
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "5",
                "spark.executor.instances": "1",
                "spark.executor.cores": "2",
            },
            10,
        ),
        ({}, None),
    ],
)
def test_cores_that_an_application_asks_for(application: dict[str, str], cores: int | None) -> None:
    assert asked_cores(application) == cores


def test_executors_are_waited_for() -> None:
    seen = iter([0, 0, 2])

    await_executors(lambda: next(seen), "spark://a:7077", settle_seconds=0)

    assert next(seen, None) is None


class QuickClock:
    """A clock that sleepers put on."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


def test_executors_that_still_register_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_tuning, "time", QuickClock())
    seen = [1, 1, 3, 8]

    await_executors(lambda: seen.pop(0) if len(seen) > 1 else 8, "spark://a:7077")

    assert seen == [8]


def test_without_executors_the_number_is_asked_for() -> None:
    with pytest.raises(FlowError, match=r"no executor of yarn .* write -X spark\.sql\.shuffle"):
        await_executors(lambda: 0, "yarn", seconds=0)
