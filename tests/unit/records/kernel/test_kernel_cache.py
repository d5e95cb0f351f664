"""Kernels are kept on disk where that can be done."""

import pytest
from numba.core import caching

from headrace.records.kernel.memory import kernel


def _double(number: int) -> int:
    return 2 * number


def test_a_kernel_runs_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])

    assert kernel(_double)(21) == 42
