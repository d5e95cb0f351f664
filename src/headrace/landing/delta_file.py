"""Where the files of a Delta table go."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

import pyarrow as pa

from headrace.landing.time_partition import TimePartition

_NO_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DeltaFiles:
    """The folder of a table. It pickles: other processes may write files for a commit."""

    folder: Path
    file_schema: pa.Schema
    partitioning: TimePartition | None

    def create_file(self, partition: int | None) -> tuple[str, IO[bytes]]:
        path = f"part-{uuid4()}.zstd.parquet"
        if self.partitioning is not None:
            value = self.partitioning.text(partition) or _NO_PARTITION
            path = f"{self.partitioning.name}={value}/{path}"
        whole = self.folder / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        return path, whole.open("xb")

    def remove_file(self, path: str) -> None:
        (self.folder / path).unlink(missing_ok=True)
