"""A request of any version in the shape of the newest one, so that a handler reads one shape.

What an old version lacks has the newest version's default, or zero, empty or null. What only an
old version has (DeleteTopics' list of names before topic ids came) is not carried over: the few
handlers that need it look at the request as it came.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

from kio.schema.errors import ErrorCode

Entity = TypeVar("Entity")


@dataclass
class _Nothing:
    """Stands for a struct that the older version lacks: every field has its default."""


def upgrade(message: Any, newest: type[Entity]) -> Entity:
    """Return `message`, of any version, as an instance of `newest`."""
    if type(message) is newest:
        return message
    converted: Entity = _converter(type(message), newest)(message)
    return converted


_converters: dict[tuple[Any, Any], Callable[[Any], Any]] = {}


def _converter(source: Any, target: Any) -> Callable[[Any], Any]:
    known = _converters.get((source, target))
    if known is None:
        known = _converters[source, target] = _make_converter(source, target)
    return known


def _make_converter(source: Any, target: Any) -> Callable[[Any], Any]:
    source_fields = {field.name: field for field in fields(source)}
    constants: dict[str, Any] = {}
    copies: list[tuple[str, Callable[[Any], Any]]] = []
    for field in fields(target):
        if field.name in source_fields:
            copies.append((field.name, _value_converter(source_fields[field.name], field)))
        elif field.default is MISSING:
            constants[field.name] = _zero(field)

    def convert(message: Any) -> Any:
        values = {name: change(getattr(message, name)) for name, change in copies}
        return target(**constants, **values)

    return convert


def _value_converter(source: Field[Any], target: Field[Any]) -> Callable[[Any], Any]:
    source_item, target_item = _item_type(source.type), _item_type(target.type)
    nullable = _is_nullable(target.type)
    zero = None if nullable else _zero(target)
    if not is_dataclass(source_item) or not is_dataclass(target_item):
        return lambda value: zero if value is None else value
    convert = _converter(source_item, target_item)
    if get_origin(_strip_null(target.type)) is tuple:
        return lambda value: zero if value is None else tuple(map(convert, value))
    return lambda value: zero if value is None else convert(value)


def _strip_null(annotation: Any) -> Any:
    if get_origin(annotation) is UnionType:
        (annotation,) = (arg for arg in get_args(annotation) if arg is not NoneType)
    return annotation


def _is_nullable(annotation: Any) -> bool:
    return get_origin(annotation) is UnionType and NoneType in get_args(annotation)


def _item_type(annotation: Any) -> Any:
    annotation = _strip_null(annotation)
    if get_origin(annotation) is tuple:
        return _strip_null(get_args(annotation)[0])
    return annotation


def _zero(field: Field[Any]) -> Any:
    if _is_nullable(field.type):
        return None
    annotation = _strip_null(field.type)
    if get_origin(annotation) is tuple:
        return ()
    if is_dataclass(annotation):
        return _converter(_Nothing, annotation)(None)
    return _ZERO[field.metadata["kafka_type"]]


_ZERO: Mapping[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": None,
} | dict.fromkeys(["int8", "int16", "uint16", "int32", "uint32", "int64", "float64"], 0)
