"""`partition.metadata`: of which topic a partition directory is (KIP-516)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.log.filesystem import FileSystem
from headrace.model.error import CorruptLog
from headrace.model.ids import TopicId, parse_uuid_text, uuid_text

FILE_NAME: Final = "partition.metadata"


@dataclass(frozen=True, slots=True)
class PartitionMetadataFile:
    """The id of the topic: a topic that was deleted and created again has another, and then the
    directory is a stray one that must not be served.

    Byte format (Kafka's, version 0): the two lines `version: 0` and `topic_id: <base64url>`.
    Written once, atomically, before the partition's first append.
    """

    topic_id: TopicId

    @classmethod
    def read(cls, filesystem: FileSystem, directory: Path) -> "PartitionMetadataFile | None":
        """Read the file of a partition's directory; None when it has none.

        Raises:
            CorruptLog: the file does not hold.
        """
        path = directory / FILE_NAME
        try:
            content = filesystem.read_bytes(path)
        except FileNotFoundError:
            return None
        lines = content.decode("latin-1").splitlines()
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        if fields.get("version") != "0" or "topic_id" not in fields:
            raise CorruptLog(f"{path} must hold 'version: 0' and a topic_id")
        try:
            return cls(TopicId(parse_uuid_text(fields["topic_id"].strip())))
        except ValueError as error:
            raise CorruptLog(f"{path} has a wrong topic_id: {error}") from None

    def write(self, filesystem: FileSystem, directory: Path) -> None:
        """Write the file, durable on return."""
        content = f"version: 0\ntopic_id: {uuid_text(self.topic_id)}"
        filesystem.write_atomically(directory / FILE_NAME, content.encode("ascii"))
