"""A missing peer skips a test on a developer's machine and fails it in CI."""

import pytest

from testkit.peer.peer import PeerMissing, find_program, require_peer


def test_a_missing_peer_skips_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install kcat"):
        require_peer("kcat is not installed; on Debian: apt-get install kcat")


def test_in_ci_a_missing_peer_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="kcat is not installed"):
        require_peer("kcat is not installed")


def test_a_program_on_the_path_is_found() -> None:
    assert find_program("sh", package="dash").name == "sh"


def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(PeerMissing, match="apt-get install nothing-of-the-kind"):
        find_program("no-such-program", package="nothing-of-the-kind")
