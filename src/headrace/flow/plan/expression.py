"""Small expressions over a tuple's fields that both Arrow and Spark's SQL can compute.

They are written as in Python: `status >= 500 and lower(page) != "/health"`. Nulls behave as in SQL:
a comparison with one is neither true nor false, and a filter passes only what is true.

An expression cannot loop or look anything up, so the length of its text bounds its work.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.error import FlowError

_MAX_LENGTH = 4_000

_COMPARE: dict[type, tuple[str, Callable[..., Any]]] = {
    ast.Eq: ("=", pc.equal),
    ast.NotEq: ("<>", pc.not_equal),
    ast.Lt: ("<", pc.less),
    ast.LtE: ("<=", pc.less_equal),
    ast.Gt: (">", pc.greater),
    ast.GtE: (">=", pc.greater_equal),
}
_ARITHMETIC: dict[type, tuple[str, Callable[..., Any]]] = {
    ast.Add: ("+", pc.add_checked),
    ast.Sub: ("-", pc.subtract_checked),
    ast.Mult: ("*", pc.multiply_checked),
}
_LOGIC: dict[type, tuple[str, Callable[..., Any]]] = {
    ast.And: ("AND", pc.and_kleene),
    ast.Or: ("OR", pc.or_kleene),
}


def _concat(*texts: Any) -> Any:
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


@dataclass(frozen=True, slots=True)
class _Function:
    sql: str
    arguments: tuple[int, int]
    compute: Callable[..., Any]


_MANY = 20
_FUNCTIONS = {
    "upper": _Function("upper", (1, 1), pc.utf8_upper),
    "lower": _Function("lower", (1, 1), pc.utf8_lower),
    "length": _Function("char_length", (1, 1), pc.utf8_length),
    "concat": _Function("concat", (1, _MANY), _concat),
    "coalesce": _Function("coalesce", (1, _MANY), pc.coalesce),
    "is_null": _Function("isnull", (1, 1), pc.is_null),
    "starts_with": _Function(
        "startswith", (2, 2), lambda text, start: pc.starts_with(text, start.as_py())
    ),
    "contains": _Function(
        "contains", (2, 2), lambda text, part: pc.match_substring(text, part.as_py())
    ),
}
# The second argument of these must be a literal text, not a column.
_LITERAL_SECOND = ("starts_with", "contains")


class Expression:
    """One expression, as SQL and as a function of Arrow columns.

    >>> Expression("ms * 2 > 10 and not is_null(page)").sql
    '(((`ms` * 2) > 10) AND (NOT isnull(`page`)))'

    Raises:
        FlowError: the text is no expression, or only one of Arrow and Spark could compute it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            if len(text) > _MAX_LENGTH:
                raise self._wrong(f"it is longer than {_MAX_LENGTH} characters")
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError) as error:
            raise self._wrong("it does not read as an expression") from error
        self.names = tuple(
            dict.fromkeys(
                each.id
                for each in ast.walk(tree)
                if isinstance(each, ast.Name) and each.id not in _FUNCTIONS
            )
        )
        self.sql = self._sql(tree.body)

    def compute(self, batch: pa.RecordBatch) -> pa.Array:
        """Return its value for each row."""
        # Parsed again rather than kept: a tree would be pickled for every worker.
        value = self._value(ast.parse(self.text.strip(), mode="eval").body, batch)
        if isinstance(value, pa.Scalar):
            return pa.repeat(value, batch.num_rows)
        return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value

    def _sql(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return f"`{name}`"
            case ast.Constant(value=value):
                return self._literal(value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(NOT {self._sql(operand)})"
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return f"(-{number!r})"
            case ast.BoolOp(op=op, values=values):
                word, _ = _LOGIC[type(op)]
                return f"({f' {word} '.join(self._sql(each) for each in values)})"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                sign, _ = _ARITHMETIC[type(op)]
                return f"({self._sql(left)} {sign} {self._sql(right)})"
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                sign, _ = _COMPARE[type(op)]
                return f"({self._sql(left)} {sign} {self._sql(right)})"
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call(name, args)
        raise self._wrong(f"{ast.unparse(node)!r} is not something that it can say")

    def _call(self, name: str, args: Sequence[ast.expr]) -> str:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise self._wrong(f"there is no {name}, only {', '.join(_FUNCTIONS)}")
        least, most = function.arguments
        if not least <= len(args) <= most:
            raise self._wrong(f"{name} does not take {len(args)} arguments")
        if name in _LITERAL_SECOND and not isinstance(args[1], ast.Constant):
            raise self._wrong(f"{name} looks for a text, in quotes")
        return f"{function.sql}({', '.join(self._sql(each) for each in args)})"

    def _literal(self, value: Any) -> str:
        if value is None or isinstance(value, bool):
            return "NULL" if value is None else str(value).upper()
        if isinstance(value, int | float):
            return repr(value)
        if isinstance(value, str):
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        raise self._wrong(f"{value!r} is neither a number nor a text")

    def _value(self, node: ast.expr, batch: pa.RecordBatch) -> Any:
        match node:
            case ast.Name(id=name):
                return batch.column(name)
            case ast.Constant(value=value):
                return pa.scalar(value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return pc.invert(self._value(operand, batch))
            case ast.UnaryOp(operand=operand):
                return pc.negate_checked(self._value(operand, batch))
            case ast.BoolOp(op=op, values=values):
                _, function = _LOGIC[type(op)]
                value = self._value(values[0], batch)
                for each in values[1:]:
                    value = function(value, self._value(each, batch))
                return value
            case ast.BinOp(left=left, op=op, right=right):
                _, function = _ARITHMETIC[type(op)]
                return function(self._value(left, batch), self._value(right, batch))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                _, function = _COMPARE[type(op)]
                return function(self._value(left, batch), self._value(right, batch))
            case ast.Call(func=ast.Name(id=name), args=args):
                return _FUNCTIONS[name].compute(*(self._value(each, batch) for each in args))
        raise AssertionError(f"{ast.unparse(node)} was not refused")

    def _wrong(self, why: str) -> FlowError:
        return FlowError(f"the expression {self.text[:100]!r} cannot be: {why}")

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"
