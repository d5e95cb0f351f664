"""Keys and values that name a schema of a registry, as JSON."""

import json
import math
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.cli.record.undecodable_record import UndecodableRecord
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.serde.deserializer import Deserializer
from headrace.serde.error import RegistryError, Undecodable

FIELDS: Final = ("key", "value")


@dataclass(frozen=True, slots=True)
class DecodedField:
    """A key or value in JSON, and its schema: the id, or the GUID where there is no id."""

    json: str
    schema: int | str


class RegistryDecoder:
    """Decodes the keys, the values, or both.

    What does not decode stays as it is: the first one is reported, all are counted. A registry
    that does not answer, or that wants another login, is an error.

    Args:
        fields: of `FIELDS`.
        strict: raise `UndecodableRecord` for what does not decode.
    """

    def __init__(
        self, deserializer: Deserializer, fields: Collection[str], *, strict: bool = False
    ) -> None:
        self.fields = [each for each in FIELDS if each in fields]
        self._deserializer = deserializer
        self._strict = strict
        self._undecodable: Counter[str] = Counter()

    def columns(self, needed: Sequence[str]) -> list[str]:
        """Return the columns that it takes to decode those of a format."""
        if not any(each in needed for each in self.fields):
            return list(needed)
        return list(dict.fromkeys((*needed, "offset", "headers")))

    def decode(
        self, partition: TopicPartition, columns: pa.RecordBatch
    ) -> Mapping[str, list[DecodedField | None]]:
        """Return the decoded rows of the columns that are there; None for a row that stays.

        Raises:
            UndecodableRecord: a row does not decode, and this is strict.
            RegistryError, RegistryUnreachable: the registry does not do its part.
        """
        names = [each for each in self.fields if each in columns.schema.names]
        found: dict[str, list[DecodedField | None]] = {name: [] for name in names}
        if not names:
            return found
        data = {name: columns.column(name).to_pylist() for name in names}
        headers = columns.column("headers").to_pylist()
        for row in range(columns.num_rows):
            pairs = [(each["key"], each["value"]) for each in headers[row] or ()]
            for name in names:
                try:
                    field = self._decode(data[name][row], pairs, name)
                except (Undecodable, RegistryError) as error:
                    if isinstance(error, RegistryError) and not _is_about_schema(error):
                        raise
                    offset = columns.column("offset")[row].as_py()
                    self._complain(
                        f"the {name} at offset {offset} of {partition}", name, error, row
                    )
                    field = None
                found[name].append(field)
        return found

    def _decode(
        self, data: bytes | None, headers: list[tuple[str, bytes | None]], name: str
    ) -> DecodedField | None:
        if data is None:
            return None
        decoded = self._deserializer.decode(data, headers, key=name == "key", as_json=True)
        schema = decoded.schema
        try:
            text = json_text(decoded.value)
        except (RecursionError, ValueError) as error:
            raise Undecodable(f"the value has no JSON: {error}") from error
        return DecodedField(text, schema.guid or -1 if schema.id < 0 else schema.id)

    def _complain(self, what: str, name: str, error: HeadraceError, row: int) -> None:
        if self._strict:
            raise UndecodableRecord(f"{what} does not decode: {error}", row) from error
        if not self._undecodable[name]:
            print(
                f"headrace: {what} does not decode: {error}; it is printed as it is, and so are "
                "others like it",
                file=sys.stderr,
            )
        self._undecodable[name] += 1

    def report(self) -> None:
        """Print how many did not decode, if any."""
        counts = [
            f"{count} {name}{'' if count == 1 else 's'}"
            for name, count in self._undecodable.items()
        ]
        if counts:
            verb = "was" if self._undecodable.total() == 1 else "were"
            print(f"headrace: {' and '.join(counts)} {verb} not decoded", file=sys.stderr)


def _is_about_schema(error: RegistryError) -> bool:
    """Return whether a registry refused one schema, and not the login or everything."""
    return error.status != 401 and error.status < 500


def json_text(value: Any) -> str:
    """Return JSON on one line that every parser and encoding takes.

    >>> json_text({"a": float("nan"), "b": "é"})
    '{"a":"NaN","b":"é"}'
    """
    try:
        text = _strict(value)
    except ValueError:
        text = _strict(_with_named_numbers(value))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character
        return json.dumps(_with_named_numbers(value), separators=(",", ":"))
    return text


_strict: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _with_named_numbers(value: Any) -> Any:
    """Replace what JSON has no number for by its name, as Java's and Protobuf's encoders do."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _with_named_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_named_numbers(each) for each in value]
    return value
