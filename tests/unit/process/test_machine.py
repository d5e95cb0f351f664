"""A container's share of CPU time counts as cores."""

import os

import pytest

from headrace.process.machine import machine_name, usable_cores

ALLOWED = len(os.sched_getaffinity(0))


def test_a_machine_without_limits_has_the_cores_it_may_run_on(tmp_path):
    assert usable_cores(tmp_path) == ALLOWED


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000", ALLOWED),
        ("100000 100000", 1),
        ("50000 100000", 1),
        ("99900000 100000", ALLOWED),
        ("rubbish", ALLOWED),
        ("100000 0", ALLOWED),
    ],
)
def test_a_share_of_version_2_is_the_upper_bound(tmp_path, text, cores):
    (tmp_path / "cpu.max").write_text(text + "\n")

    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", ALLOWED), ("150000", 1)])
def test_a_share_of_version_1_is_the_upper_bound(tmp_path, quota, cores):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota + "\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")

    assert usable_cores(tmp_path) == cores


def test_the_machine_has_the_name_that_the_kernel_knows():
    assert machine_name() == os.uname().nodename
