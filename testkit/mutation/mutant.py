"""One small fault in a source file, and all those that a file can have.

Operators: a comparison (its border, and turned round), a sign, `and` with `or`, `not` dropped, a
whole number one up and one down, True with False, the negation of what a predicate returns, a
statement removed. A mutant replaces one piece of text, so that its difference is a line to read.

Left out, because no test could or should notice them: annotations, docstrings, the text of errors
and log lines, assertions (`strict` of zip too), `__slots__`, `__repr__`, defaults of arguments and
fields, the numbers that a module declares, -2 for -1.
"""

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_LOGGERS = ("log", "_log", "logger", "_logger")
_UNSEEN_NAMES = ("__slots__", "__all__")
_UNSEEN_FUNCTIONS = ("__repr__", "__str__")
_UNSEEN_FIELDS = (
    *("annotation", "returns", "decorator_list", "type_comment", "exc", "cause", "msg"),
    *("defaults", "kw_defaults"),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A piece of a file, from byte `start` to `end`, and what takes its place."""

    path: Path
    line: int
    operator: str
    start: int
    end: int
    replacement: str

    def apply(self, source: str) -> str:
        """Return the source with the fault in it."""
        data = source.encode()
        return (data[: self.start] + self.replacement.encode() + data[self.end :]).decode()

    def changed_lines(self, source: str) -> tuple[str, str]:
        """Return the lines that went and those that came, each without its indent."""
        before, after = [], []
        for line in difflib.ndiff(source.splitlines(), self.apply(source).splitlines()):
            if line.startswith("- "):
                before.append(line[2:].strip())
            elif line.startswith("+ "):
                after.append(line[2:].strip())
        return " ".join(before), " ".join(after)


def mutants_of(path: Path, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    found = list(
        _Finder(path, source).walk(ast.parse(source), ast.Module(body=[], type_ignores=[]))
    )
    unique = {(each.start, each.end, each.replacement): each for each in found}
    return sorted(unique.values(), key=lambda each: (each.start, each.end, each.replacement))


class _Finder:
    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def walk(self, node: ast.AST, parent: ast.AST, predicate: bool = False) -> Iterator[Mutant]:
        if _unseen(node, parent):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            predicate = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        yield from self._here(node, parent, predicate)
        for child in _children(node):
            yield from self.walk(child, node, predicate)

    def _here(self, node: ast.AST, parent: ast.AST, predicate: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.expr):
            for operator, new in _expressions(node, parent):
                yield self._replace(node, operator, new)
        elif isinstance(node, ast.stmt):
            for operator, new in _statements(node, predicate):
                yield self._replace(node, operator, new)

    def _replace(self, node: ast.expr | ast.stmt, operator: str, new: str) -> Mutant:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        return Mutant(self._path, node.lineno, operator, start, end, new)


def _expressions(node: ast.expr, parent: ast.AST) -> Iterator[tuple[str, str]]:
    """Return what may stand in the place of an expression, each with the name of its operator."""
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                others = _COMPARISONS[type(op)]
                for other in others if len(ops) == 1 else others[:1]:
                    changed = [*ops[:at], other(), *ops[at + 1 :]]
                    new = ast.Compare(node.left, changed, node.comparators)
                    yield "comparison", _nested(new, parent)
        case ast.BoolOp(op=op, values=values):
            flipped = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and/or", f"({ast.unparse(ast.BoolOp(flipped, values))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand):
            yield "not" if isinstance(op, ast.Not) else "sign", f"({ast.unparse(operand)})"
        case ast.BinOp(op=op) if type(op) in _SIGNS and not _is_text(node):
            new_sign = ast.BinOp(node.left, _SIGNS[type(op)](), node.right)
            yield "sign", f"({ast.unparse(new_sign)})"
        case ast.Constant(value=bool() as value):
            yield "constant", str(not value)
        case ast.Constant(value=int() as value) if not _is_sentinel(parent):
            yield "constant", str(value + 1)
            yield "constant", f"({value - 1})" if value < 1 else str(value - 1)


def _statements(node: ast.stmt, predicate: bool) -> Iterator[tuple[str, str]]:
    """Return what may stand in the place of a statement, each with the name of its operator."""
    match node:
        case ast.AugAssign(op=op):
            if type(op) in _SIGNS:
                new = ast.AugAssign(node.target, _SIGNS[type(op)](), node.value)
                yield "sign", ast.unparse(new)
            yield "removed", "pass"
        case ast.Return(value=ast.expr() as value) if predicate:
            yield "return", f"return not ({ast.unparse(value)})"
        case (
            ast.Expr(value=ast.Call() | ast.Await())
            | ast.Raise()
            | ast.Delete()
            | ast.Continue()
            | ast.Break()
            | ast.Return(value=None)
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
        ):
            yield "removed", "pass"


def _nested(node: ast.expr, parent: ast.AST) -> str:
    text = ast.unparse(node)
    plain = isinstance(parent, ast.If | ast.While | ast.Return | ast.Assign | ast.IfExp)
    return text if plain else f"({text})"


def _is_sentinel(parent: ast.AST) -> bool:
    """Return whether a number is the 1 of a -1, or an exponent: another one says the same."""
    return isinstance(parent, ast.UnaryOp) or (
        isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow | ast.LShift)
    )


def _is_text(node: ast.BinOp) -> bool:
    """Return whether a plus joins texts or bytes rather than numbers."""
    sides = (node.left, node.right)
    return any(
        isinstance(each, ast.JoinedStr)
        or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for each in sides
    )


def _unseen(node: ast.AST, parent: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.keyword(arg="strict"):
            # zip's own assertion
            return True
        case ast.FunctionDef(name=name):
            return name in _UNSEEN_FUNCTIONS
        case ast.ClassDef(bases=bases):
            return any(isinstance(each, ast.Name) and each.id == "Protocol" for each in bases)
        case ast.Assign(targets=[ast.Name(id=name)]):
            # A test of a declared number could only repeat it.
            declared = isinstance(parent, ast.Module) and name.isupper()
            return declared or name in _UNSEEN_NAMES or name in _LOGGERS
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGGERS
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name)))):
            return name in _LOGGERS
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            declared = isinstance(parent, ast.Module) and name.isupper()
            return declared or (
                isinstance(parent, ast.ClassDef) and not isinstance(value, ast.Call)
            )
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Return what is below a node, without annotations, and without the text of an error."""
    for name, value in ast.iter_fields(node):
        if name in _UNSEEN_FIELDS:
            continue
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, ast.AST))
