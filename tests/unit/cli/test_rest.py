"""`headrace rest user add`: who may use the proxy."""

from pathlib import Path

from testkit.process.command_line import run_headrace


def test_a_user_without_rights_is_refused_and_not_written(tmp_path: Path) -> None:
    users = tmp_path / "users.txt"

    done = run_headrace("rest", "user", "add", "ann", "--users", str(users))

    assert done.code == 2
    assert "name topics with --read, --write or --admin; --admin '*' allows" in done.err
    assert not users.exists()


def test_a_user_has_the_rights_that_were_named(tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    options = ("--read", "orders-*", "--write", "orders-eu", "--group", "ann-")

    done = run_headrace("rest", "user", "add", "ann", "--users", str(users), *options)

    assert done.code == 0
    assert done.out.startswith("ann:")
    assert "read:orders-* write:orders-eu group:ann-" in users.read_text()
    assert done.out.strip().removeprefix("ann:") not in users.read_text()
