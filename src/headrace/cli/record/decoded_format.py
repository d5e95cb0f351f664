"""How `topic consume --use-schema-registry` prints records: keys and values as JSON."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from headrace.cli.record.format import JsonFormat, Records, TextFormat
from headrace.cli.record.registry_decoder import DecodedField, RegistryDecoder


class DecodedTextFormat:
    """A format of text whose `%k` and `%v` are JSON where they decode."""

    def __init__(self, text: TextFormat, decoder: RegistryDecoder) -> None:
        self._text = text
        self._decoder = decoder
        self.columns: Sequence[str] = decoder.columns(text.columns)

    def render(self, records: Records) -> memoryview:
        columns = records.columns
        for name, fields in self._decoder.decode(records.partition, columns).items():
            at = columns.schema.get_field_index(name)
            raw = columns.column(at)
            texts = [
                data if field is None else field.json.encode()
                for data, field in zip(raw.to_pylist(), fields, strict=True)
            ]
            columns = columns.set_column(at, name, pa.array(texts, pa.large_binary()))
        return self._text.render(Records(records.partition, columns, records.printed))


class DecodedJsonFormat(JsonFormat):
    """One object per line. What decodes is an object of its own, not text, and beside it is
    `key_schema` or `value_schema`: the id of its schema."""

    def __init__(self, decoder: RegistryDecoder) -> None:
        self._decoder = decoder
        self._decoded: dict[str, list[DecodedField | None]] = {}

    def render(self, records: Records) -> memoryview:
        self._decoded = dict(self._decoder.decode(records.partition, records.columns))
        return super().render(records)

    def _fields(self, name: str, column: pa.Array) -> Iterable[str]:
        plain = super()._fields(name, column)
        decoded = self._decoded.get(name)
        if decoded is None:
            return plain
        return [
            text if field is None else _object(name, field)
            for text, field in zip(plain, decoded, strict=True)
        ]


def _object(name: str, field: DecodedField) -> str:
    schema = f'"{field.schema}"' if isinstance(field.schema, str) else field.schema
    return f'"{name}":{field.json},"{name}_schema":{schema}'
