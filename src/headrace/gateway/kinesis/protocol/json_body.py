"""Bodies in JSON 1.1: blobs in base64, times in seconds."""

import base64
import json
from json.encoder import encode_basestring_ascii
from typing import Any, Final

import numpy as np

from headrace.gateway.kinesis.error import serialization
from headrace.gateway.kinesis.protocol.base64_column import encoded
from headrace.gateway.kinesis.protocol.timestamp import Timestamp

JSON_TYPE: Final = "application/x-amz-json-1.1"
_LONGEST_NUMBER: Final = 40  # characters; int() of a longer text is quadratic
_MOST_VALUES: Final = 160_000
"""500 records of three members, with keys of 256 commas. Millions hold all threads for seconds."""


def read_json(body: bytes) -> Any:
    """Parse a request's body. An empty one is an empty structure.

    Raises:
        ServiceError: SerializationException.
    """
    if not body:
        return {}
    if len(body) > _MOST_VALUES and _separators(body) > _MOST_VALUES:
        raise serialization()
    try:
        return json.loads(body, parse_int=_number, parse_float=_float, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise serialization() from None


def write_json(response: dict[str, Any]) -> bytes:
    """Write a response's body."""
    records = response.get("Records")
    if not records or "SequenceNumber" not in records[0] or "Data" not in records[0]:
        return _dumped(response).encode()
    rest = {name: each for name, each in response.items() if name != "Records"}
    texts = _written(records)
    texts[0] = f'{{"Records":[{texts[0]}'
    texts[-1] += f"],{_dumped(rest)[1:]}" if rest else "]}"
    return ",".join(texts).encode()


def _written(records: list[dict[str, Any]]) -> list[str]:
    """Write each record as `_dumped` would, which takes twice as long: a read has thousands."""
    texts = []
    blobs = encoded([each["Data"] for each in records])
    for record, data in zip(records, blobs, strict=True):
        key = record.get("PartitionKey")
        written = "" if key is None else f',"PartitionKey":{encode_basestring_ascii(key)}'
        texts.append(
            f'{{"SequenceNumber":"{record["SequenceNumber"]}",'
            f'"ApproximateArrivalTimestamp":{record["ApproximateArrivalTimestamp"].ms / 1000!r},'
            f'"Data":"{data}","EncryptionType":"{record["EncryptionType"]}"{written}}}'
        )
    return texts


def _dumped(value: Any) -> str:
    return json.dumps(value, default=_plain, separators=(",", ":"))


def _separators(body: bytes) -> int:
    """Return how many commas and brackets a body has; none of them is in base64."""
    characters = np.frombuffer(body, dtype=np.uint8)
    return int(sum(np.count_nonzero(characters == each) for each in b",[{"))


def _number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("too long")
    return int(text)


def _float(text: str) -> float:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("too long")
    return float(text)


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Timestamp):
        return value.ms / 1000
    raise TypeError(type(value))
