"""How kernels are compiled, and how they touch memory: by address.

numba counts references to an array at every call that is handed one, and tests every index for
being negative. In a loop that spends 20 ns on a record both show. So a kernel takes arrays, turns
them into addresses once, and the pieces it is made of work on addresses.

Rule 1: a kernel reads and writes only inside the arrays it was handed, whatever the bytes say. The
loads, stores and copies here check nothing: the check stands where they are called, and
`tests/property/records` runs them against guard pages.
Rule 2: a kernel has one signature. What is read is always a read-only array (`readable`,
`read_only`), so that bytes and bytearrays do not compile it twice.
Rule 3: numba keys its disk cache by the file of the kernel, not by what that kernel calls or by the
constants it imports. After a change of a part, or of a constant that another file uses, delete
`kernel/__pycache__`.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba import extending, njit, types

assert sys.byteorder == "little", "the kernels load words in little-endian order"

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]

STEP_BYTES = 32
_LARGE_COPY_BYTES = 512

# numba's types for these two describe the Python call, not the one inside a kernel.
_intrinsic: Any = extending.intrinsic
int64: Callable[[Any], int] = cast(Any, np.int64)
"""Widen to int64, so that no expression turns into a float (uint64 with int64 does)."""

_Number = TypeVar("_Number", bound=np.generic)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile on first call, keep the code on disk, and run without the GIL.

    Where neither this folder nor the user's cache can be written to, as on an executor of Spark
    without a home, every process compiles for itself, unless NUMBA_CACHE_DIR names a place.
    """
    return _compiled(function, nogil=True)


def short_kernel(function: _Function) -> _Function:
    """Compile like `kernel`, for work of microseconds on the event loop: it keeps the GIL, because
    getting it back from another thread can take longer than the work."""
    return _compiled(function, nogil=False)


def _compiled(function: _Function, *, nogil: bool) -> _Function:
    try:
        return cast(_Function, njit(cache=True, nogil=nogil)(function))
    except RuntimeError:  # "cannot cache function ...: no locator available"
        return cast(_Function, njit(nogil=nogil)(function))


def part(function: _Function) -> _Function:
    """Compile a piece of kernels, always inlined into them."""
    return cast(_Function, njit(nogil=True, forceinline=True)(function))


def readable(buffer: Any) -> Bytes:
    """Return the bytes of a buffer as the array that kernels read from, without a copy."""
    return read_only(np.frombuffer(buffer, dtype=np.uint8))


def read_only(array: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return the array, marked as one that is only read."""
    array.flags.writeable = False
    return array


def _address(typing_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


def _load(width: int, result: Any) -> Callable[..., Any]:
    def typed(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            return builder.load(pointer, align=1)

        return result(types.int64), generate

    return typed


def _swap(kind: Any) -> Callable[..., Any]:
    def typed(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bswap(arguments[0])

        return kind(kind), generate

    return typed


def _store(width: int, kind: Any) -> Callable[..., Any]:
    def typed(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            builder.store(arguments[1], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, kind), generate

    return typed


def _copy32(typing_context: Any, to: Any, source: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), STEP_BYTES).as_pointer()
        word = builder.load(builder.inttoptr(arguments[1], vector), align=1)
        builder.store(word, builder.inttoptr(arguments[0], vector), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _copy(typing_context: Any, to: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        move = builder.module.declare_intrinsic("llvm.memcpy", [byte, byte, ir.IntType(64)])
        to, source = (builder.inttoptr(argument, byte) for argument in arguments[:2])
        builder.call(move, [to, source, arguments[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _prefetch(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        fetch = builder.module.declare_intrinsic(
            "llvm.prefetch.p0", fnty=ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
        )
        # For reading, to be kept in every level of the cache, and data rather than code.
        how = [ir.Constant(int32, number) for number in (0, 3, 1)]
        builder.call(fetch, [builder.inttoptr(arguments[0], byte), *how])
        return context.get_dummy_value()

    return types.void(types.int64), generate


address: Callable[[npt.NDArray[Any]], int] = _intrinsic(_address)
"""Where an array's first element lies. The array must outlive the use of it."""

load8: Callable[[int], np.uint8] = _intrinsic(_load(8, types.uint8))
load32: Callable[[int], np.int32] = _intrinsic(_load(32, types.int32))
load64: Callable[[int], np.uint64] = _intrinsic(_load(64, types.uint64))
"""One, four, eight bytes in the machine's order, at any alignment."""

swap32: Callable[[np.int32], np.int32] = _intrinsic(_swap(types.int32))
swap64: Callable[[np.uint64], np.uint64] = _intrinsic(_swap(types.uint64))
"""Big-endian to the machine's order."""

prefetch: Callable[[int], None] = _intrinsic(_prefetch)
"""Ask for the cache line at an address that will be read soon. Any address will do."""

store8: Callable[[int, int], None] = _intrinsic(_store(8, types.uint8))
store32: Callable[[int, Any], None] = _intrinsic(_store(32, types.int32))
store64: Callable[[int, np.uint64], None] = _intrinsic(_store(64, types.uint64))

copy32: Callable[[int, int], None] = _intrinsic(_copy32)
"""Move 32 bytes: to, from."""

copy: Callable[[int, int, int], None] = _intrinsic(_copy)
"""memcpy: to, from, size."""


@part
def int64_at(at: int) -> int:
    """Read a big-endian int64."""
    return int64(swap64(load64(at)))


@part
def int32_at(at: int) -> int:
    """Read a big-endian int32."""
    return int64(np.int32(swap32(load32(at))))


@part
def int16_at(at: int) -> int:
    """Read a big-endian int16."""
    return int64(np.int16(int64(load8(at)) << 8 | int64(load8(at + 1))))


@part
def put(to: int, to_end: int, source: int, source_end: int, size: int) -> None:
    """Copy `size` bytes in steps of 32, past the end of what was asked, where both sides have room.

    The caller has checked that both sides have `size` bytes; what lies between those and `to_end`
    may be overwritten. A short value costs a vector move or two this way, where memcpy costs a call
    and a tree of branches on the size.
    """
    if (
        size <= _LARGE_COPY_BYTES
        and source + size + STEP_BYTES <= source_end
        and to + size + STEP_BYTES <= to_end
    ):
        done = 0
        while done < size:
            copy32(to + done, source + done)
            done += STEP_BYTES
    else:
        copy(to, source, size)
