"""Under which subject the schema of a topic is registered."""

from enum import StrEnum

from headrace.schema.parsed import ParsedSchema
from headrace.serde.error import Unencodable


class SubjectNameStrategy(StrEnum):
    """Confluent's three, by the names that its REST proxy has."""

    TOPIC_NAME = "TOPIC_NAME"
    RECORD_NAME = "RECORD_NAME"
    TOPIC_RECORD_NAME = "TOPIC_RECORD_NAME"

    def subject(self, topic: str, schema: ParsedSchema | None = None, *, key: bool = False) -> str:
        """Return the subject of a topic's keys or values.

        >>> SubjectNameStrategy.TOPIC_NAME.subject("clicks")
        'clicks-value'

        Raises:
            Unencodable: the strategy needs a record's name, and there is none.
        """
        if self is SubjectNameStrategy.TOPIC_NAME:
            return f"{topic}-{'key' if key else 'value'}"
        name = None if schema is None else schema.name
        if not name:
            raise Unencodable(f"{self.value} needs a schema with a record's name or a title")
        return name if self is SubjectNameStrategy.RECORD_NAME else f"{topic}-{name}"
