"""Where a table's rows come from. The table stores it, so that a later run cannot mix it up."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from headrace.landing.error import LandingError

PROPERTY = "headrace.source"
"""The name of the table property that has a `Source` as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A topic, and how its records become rows.

    Attributes:
        topic_id: None where brokers have no ids of topics.
        values: raw, json or registry: how values become columns.
        keys: the columns that name a row, for upserts; none where rows are only added.
        envelope: debezium, if values are change events.
        partition_by: such as hour(timestamp).
    """

    topic: str
    topic_id: str | None
    values: str = "raw"
    keys: tuple[str, ...] = ()
    envelope: str | None = None
    partition_by: str | None = None

    def as_json(self) -> str:
        """Return the text that the table stores."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, text: str | None, table: object) -> "Source":
        """Return the source that a table stores.

        Raises:
            LandingError: the table stores none.
        """
        try:
            found: dict[str, Any] = json.loads(text or "")
            found["keys"] = tuple(found["keys"])
            return cls(**found)
        except (ValueError, TypeError, KeyError) as error:
            raise LandingError(
                f"{table} was not made by headrace land, which stores offsets in its tables: "
                "name a table that does not exist yet"
            ) from error

    def check(self, wanted: "Source", table: object) -> None:
        """Check that a run wants what the table has.

        Raises:
            LandingError: it does not.
        """
        for each in fields(self):
            have, want = getattr(self, each.name), getattr(wanted, each.name)
            if have == want or (each.name == "topic_id" and None in (have, want)):
                continue
            if each.name == "topic_id":
                raise LandingError(
                    f"topic {self.topic} was deleted and created again since {table} was filled: "
                    "its offsets mean other records now; land it in another table"
                )
            raise LandingError(
                f"{table} was made with {each.name} {_shown(have)}, not {_shown(want)}: "
                "say the same, or name another table"
            )


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    return "none" if value is None else str(value)
