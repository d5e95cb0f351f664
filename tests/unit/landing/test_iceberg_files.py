"""The files of an Iceberg table in other processes: they reach the storage, not the catalog."""

import pickle
import threading
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.landing.error import TableUnavailable
from headrace.landing.iceberg_table import _reaching
from headrace.landing.source import Source
from headrace.landing.table_factory import create_table
from headrace.model.table.table_name import TableName

pytest.importorskip("pyiceberg")

ROWS = pa.schema([pa.field("id", pa.int64())])
SOURCE = Source(topic="clicks", topic_id=None)


class Session:
    """What signs the requests of a catalog: it holds a lock, and cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_no_secret_of_the_catalog_goes_to_other_processes(tmp_path: Path) -> None:
    catalog = {
        "uri": f"sqlite:///{tmp_path}/hidden-1.db",
        "warehouse": f"file://{tmp_path}/lake",
        "credential": "client:hidden-2",
        "token": "hidden-3",
        "header.Authorization": "Bearer hidden-4",
        "s3.region": "eu-north-1",
    }
    name = TableName.parse("iceberg:lake.shop.clicks")
    table: Any = create_table(name, catalog, ROWS, SOURCE, {0: 0})
    table._table.io.properties["auth.manager"] = Session()

    sent = pickle.dumps(table.files())
    files = pickle.loads(sent)

    assert b"hidden-" not in sent
    assert files.io.properties == {"s3.region": "eu-north-1"}
    path, stream = files.create_file(None)
    with stream:
        stream.write(b"rows")
    written = Path(path.removeprefix("file://"))
    assert written.read_bytes() == b"rows"
    table.remove_file(path)
    assert not written.exists()


def test_errors_have_no_password_of_the_catalog() -> None:
    name = TableName.parse("iceberg:lake.shop.clicks")

    with pytest.raises(TableUnavailable) as found, _reaching(name):
        raise OSError("404 for url: https://ana:hidden@lake:8181/v1/config")

    assert str(found.value).endswith("404 for url: https://lake:8181/v1/config")
    assert "hidden" not in "".join(traceback.format_exception(found.value))
