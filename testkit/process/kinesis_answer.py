"""Holds answers of a gateway to the service's model: members, types, lengths, patterns, enums."""

import base64
import json
import re
from typing import Any

from botocore.model import OperationModel, Shape

_OK = 200
_MAY_BE_ZERO = ("ShardLevelMetrics", "FailedRecordCount")
"""Here the model has at least 1, and the service itself answers with none."""


def check_answer(operation_model: OperationModel, response_dict: dict[str, Any], **_: Any) -> None:
    """Fail if an answer does not fit its shape; a hook for boto3's event `before-parse`."""
    if response_dict["status_code"] != _OK or operation_model.has_event_stream_output:
        return
    body = response_dict["body"]
    answer = json.loads(body) if body else {}
    shape = operation_model.output_shape
    if shape is None:
        assert answer == {}, f"{operation_model.name} has no output, and got {answer}"
        return
    found = problems(shape, answer, operation_model.name)
    assert not found, found


def problems(shape: Shape, value: Any, path: str) -> list[str]:
    """Return what is wrong with a value, one sentence each."""
    kind = shape.type_name
    if kind == "structure":
        return _structure_problems(shape, value, path)
    if kind == "list":
        if not isinstance(value, list):
            return [f"{path} is no list: {value!r}"]
        found = _length_problems(shape, len(value), path)
        for at, each in enumerate(value):
            found += problems(shape.member, each, f"{path}[{at}]")
        return found
    if kind == "map":
        if not isinstance(value, dict):
            return [f"{path} is no map: {value!r}"]
        return [
            each
            for key, item in value.items()
            for each in problems(shape.key, key, path)
            + problems(shape.value, item, f"{path}.{key}")
        ]
    return _scalar_problems(shape, value, path)


def _structure_problems(shape: Shape, value: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path} is no structure: {value!r}"]
    found = [f"{path} lacks {name}" for name in shape.required_members if name not in value]
    for name, each in value.items():
        if name not in shape.members:
            found.append(f"{path} has {name}, which the model lacks")
        else:
            found += problems(shape.members[name], each, f"{path}.{name}")
    return found


def _scalar_problems(shape: Shape, value: Any, path: str) -> list[str]:
    wanted: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "blob": (str,),
        "integer": (int,),
        "long": (int,),
        "boolean": (bool,),
        "timestamp": (int, float),
    }
    kind = shape.type_name
    is_wrong_bool = isinstance(value, bool) and kind != "boolean"
    if not isinstance(value, wanted[kind]) or is_wrong_bool:
        return [f"{path} is no {kind}: {value!r}"]
    if kind == "blob":
        return _length_problems(shape, len(base64.b64decode(value, validate=True)), path)
    if kind in ("integer", "long"):
        return _length_problems(shape, value, path)
    if kind != "string":
        return []
    found = _length_problems(shape, len(value), path)
    if shape.enum and value not in shape.enum:
        found.append(f"{path} is {value!r}, not one of {shape.enum}")
    pattern = shape.metadata.get("pattern")
    if pattern is not None and not re.fullmatch(pattern, value):
        found.append(f"{path} is {value!r}, which {pattern} does not match")
    return found


def _length_problems(shape: Shape, size: int, path: str) -> list[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    found = []
    if path.endswith(_MAY_BE_ZERO):
        least = 0
    if least is not None and size < least:
        found.append(f"{path} has {size}, less than {least}")
    if most is not None and size > most:
        found.append(f"{path} has {size}, more than {most}")
    return found
