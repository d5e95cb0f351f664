"""Functions that note which of their statements run, to know which tests could notice a mutant.

A copy of each function calls `__mark__` before every statement and takes the place of the
function's own code. Only the marked files get slower, unlike with a trace of the interpreter.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from gc import get_objects
from pathlib import Path
from types import CodeType, FunctionType

Place = tuple[str, int]
"""A file, and the line on which a function or a statement begins."""

_OPTIMIZED = 1


def functions_of(paths: set[str]) -> dict[Place, list[FunctionType]]:
    """Return the functions of these files that are loaded, by the line of `def` or decorator."""
    found: defaultdict[Place, list[FunctionType]] = defaultdict(list)
    for each in get_objects():
        if type(each) is FunctionType and each.__code__.co_filename in paths:
            found[each.__code__.co_filename, each.__code__.co_firstlineno].append(each)
    return found


def mark(source: str, path: Path, functions: Mapping[Place, Sequence[FunctionType]]) -> set[Place]:
    """Put marks into the functions of a file. Return the set of statements, filled as they run."""
    ran: set[Place] = set()
    tree = ast.parse(source)
    for function in outermost_functions(tree):
        _mark_blocks(function, str(path))
    for code in codes(compile(ast.fix_missing_locations(tree), str(path), "exec")):
        for each in functions.get((str(path), code.co_firstlineno), ()):
            if len(each.__code__.co_freevars) == len(code.co_freevars):
                each.__globals__["__mark__"] = ran.add
                each.__code__ = code
    return ran


def _mark_blocks(node: ast.AST, path: str) -> None:
    for child in ast.iter_child_nodes(node):
        _mark_blocks(child, path)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            setattr(node, name, [each for stmt in block for each in (_mark(stmt, path), stmt)])


def _mark(statement: ast.stmt, path: str) -> ast.stmt:
    parts: list[ast.expr] = [ast.Constant(path), ast.Constant(statement.lineno)]
    place = ast.Tuple(parts, ast.Load())
    marked = ast.Expr(ast.Call(ast.Name("__mark__", ast.Load()), [place], []))
    return ast.fix_missing_locations(ast.copy_location(marked, statement))


def outermost_functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions and methods of a module, without those that numba compiles."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if not any("jit" in ast.unparse(each) for each in child.decorator_list):
                yield child
        else:
            yield from outermost_functions(child)


def first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line by which the function's code is known: its first decorator's."""
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def statement_at(function: ast.AST, line: int) -> int | None:
    """Return the line on which the innermost statement around a line begins."""
    found = None
    for child in ast.walk(function):
        if isinstance(child, ast.stmt) and child is not function:
            inside = child.lineno <= line <= (child.end_lineno or 0)
            if inside and (found is None or child.lineno >= found):
                found = child.lineno
    return found


def codes(code: CodeType) -> Iterator[CodeType]:
    """Return the code of every function inside, that of classes and modules left out."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & _OPTIMIZED:
                yield each
            else:
                yield from codes(each)
