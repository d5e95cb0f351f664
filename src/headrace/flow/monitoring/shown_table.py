"""A table that a flow shows beside its figures; the console draws it."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A few rows of texts and numbers. The console draws a column `change` as a rise or fall."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
