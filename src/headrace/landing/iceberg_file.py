"""Where the files of an Iceberg table go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table.locations import load_location_provider

from headrace.landing.time_partition import TimePartition


@dataclass(frozen=True, slots=True)
class IcebergFiles:
    """The location of a table. It pickles: other processes may write files for a commit.

    Attributes:
        properties: of the table; they choose the names of files.
    """

    location: str
    io: FileIO = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)
    file_schema: pa.Schema
    partitioning: TimePartition | None

    def create_file(self, partition: int | None) -> tuple[str, IO[bytes]]:
        name = f"{uuid4()}.parquet"
        if self.partitioning is not None:
            value = self.partitioning.text(partition) or "null"
            name = f"{self.partitioning.name}={value}/{name}"
        provider = load_location_provider(self.location, dict(self.properties))
        path = provider.new_data_location(name)
        stream: Any = self.io.new_output(path).create()
        return path, stream

    def remove_file(self, path: str) -> None:
        self.io.delete(path)
