"""Landing in tables with Spark: options, and places that executors do not reach."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.flow.error import FlowError
from headrace.flow.land_table import TableLanding, _check_shared, _claim, _EachBatch
from headrace.flow.storage.file_store import LocalFileStore
from headrace.model.error import HeadraceError
from headrace.model.table.table_name import TableName


def landing(table: str = "delta:lake/clicks", **options: Any) -> TableLanding:
    return TableLanding(
        topic="clicks", brokers="127.0.0.1:1", table=TableName.parse(table), **options
    )


@pytest.mark.parametrize(
    ("table", "catalog"),
    [
        ("delta:lake/clicks", {}),
        ("iceberg:lake.shop.clicks", {"warehouse": "lake"}),
    ],
)
def test_a_table_of_this_machine_is_refused_on_others(table: str, catalog: dict[str, str]) -> None:
    spark = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://h:7077"))

    with pytest.raises(FlowError, match=r"the table lake.* is a folder of this machine"):
        landing(table, catalog=catalog)._check_table(spark)
    mounted = "delta:file:///mnt/clicks" if not catalog else table
    landing(mounted, catalog={"warehouse": "s3://lake"})._check_table(spark)


def test_the_checkpoint_is_beside_a_delta_table_only() -> None:
    assert landing().checkpoint.text == "lake/clicks_checkpoint"
    with pytest.raises(FlowError, match="--checkpoint DIR"):
        _ = landing("iceberg:lake.shop.clicks").checkpoint


def test_a_mounted_folder_is_a_path() -> None:
    name = TableName.parse("delta:file:///mnt/clicks/")

    assert name.path == Path("/mnt/clicks")
    assert name.dead_letters.path == Path("/mnt/clicks_dead_letters")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": "csv"}, "a format cannot be 'csv'"),
        ({"values": "registry"}, "--registry URL"),
        ({"columns": "a INT"}, "add --as json"),
        ({"values": "json", "columns": "a NUMBER"}, "there is no type NUMBER"),
        ({"partition_by": "week(timestamp)"}, "hour\\(COLUMN\\) or day\\(COLUMN\\)"),
        ({"starting": "now"}, "earliest or latest"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, str], message: str) -> None:
    with pytest.raises(HeadraceError, match=message):
        landing(**options)


def test_settings_cannot_change_what_the_table_relies_on() -> None:
    options = landing(options={"valueFormat": "json", "subscribe": "other"})._source_options()

    assert (options["valueFormat"], options["subscribe"]) == ("raw", "clicks")


def test_offsets_of_a_batch_are_those_of_sparks_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    text = 'v1\n{"batchWatermarkMs":0}\n{"clicks":{"0":5,"1":7}}'
    (tmp_path / "offsets" / "3").write_text(text)
    (tmp_path / "offsets" / "4").write_text("v1\n{}\n-")
    each = _EachBatch(None, LocalFileStore(tmp_path), "clicks", "delta:x")  # type: ignore[arg-type]

    assert each._offsets(3) == {0: 5, 1: 7}
    for wrong in (4, 5):
        with pytest.raises(FlowError, match=f"offsets/{wrong} of the checkpoint"):
            each._offsets(wrong)


@pytest.mark.parametrize("catalog", [{"type": "rest"}, {"uri": "https://lake:8181"}])
def test_the_warehouse_of_a_rest_catalog_may_be_a_name(catalog: dict[str, str]) -> None:
    spark = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://h:7077"))

    table = landing("iceberg:lake.shop.clicks", catalog={"warehouse": "prod", **catalog})
    table._check_table(spark)
    assert table._warehouse() is None
    with pytest.raises(FlowError, match="is a folder of this machine"):
        _check_shared(spark, "/lake/shop/clicks")


def test_a_checkpoint_belongs_to_one_table(tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path / "own")
    table = TableName.parse(f"delta:{tmp_path}/clicks")
    _claim(store, table)
    store.write("offsets/0", b"v1")
    _claim(store, TableName.parse(f"delta:file://{tmp_path}/clicks"))

    with pytest.raises(FlowError, match=r"belongs to delta:.*/clicks, not to delta:.*/views"):
        _claim(store, TableName.parse(f"delta:{tmp_path}/views"))
    other = LocalFileStore(tmp_path / "other")
    other.write("offsets/0", b"v1")
    with pytest.raises(FlowError, match="belongs to another query"):
        _claim(other, table)
