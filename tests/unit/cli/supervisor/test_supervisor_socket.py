"""One line of JSON each way, between a command and the supervisor of a data directory."""

import os
import socket
import stat
import threading
from contextlib import contextmanager, suppress

import pytest

from headrace.cli.supervisor import supervisor_socket
from headrace.cli.supervisor.supervisor_socket import SOCKET_NAME, SupervisorSocket, ask_supervisor
from headrace.client.error import ClientError
from headrace.model.error import ConfigError

NO_USER_OF_OURS = 2**31 - 7


@contextmanager
def serving(home, answer):
    commands = SupervisorSocket(home)
    ended = threading.Event()

    def serve():
        while not ended.is_set():
            commands.serve(0.05, answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield commands
    finally:
        ended.set()
        thread.join()
        commands.close()


def echo(request):
    return {"request": request}


def test_a_request_is_answered(tmp_path):
    with serving(tmp_path, echo):
        assert ask_supervisor(tmp_path, {"a": [1]}) == {"request": {"a": [1]}}


def test_the_path_may_be_longer_than_an_address_of_a_socket(tmp_path):
    home = tmp_path / ("x" * 120)

    with serving(home, echo):
        assert ask_supervisor(home, {}) == {"request": {}}


def test_an_error_is_raised(tmp_path):
    with serving(tmp_path, lambda _: {"error": "not now"}), pytest.raises(ClientError, match="now"):
        ask_supervisor(tmp_path, {})


def test_only_its_user_may_open_it(tmp_path):
    with serving(tmp_path, echo):
        assert stat.S_IMODE((tmp_path / SOCKET_NAME).stat().st_mode) == 0o600
    assert not (tmp_path / SOCKET_NAME).exists()


def test_another_user_is_refused_also_if_the_mode_lets_it_in(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(supervisor_socket, "_peer_user", lambda _: NO_USER_OF_OURS)

    with (
        serving(tmp_path, asked.append),
        socket.socket(socket.AF_UNIX) as stranger,
    ):
        stranger.settimeout(30)
        stranger.connect(str(tmp_path / SOCKET_NAME))
        assert b"belongs to another user" in stranger.recv(4096)
    assert asked == []


def test_a_socket_that_another_user_put_there_is_sent_nothing(tmp_path, monkeypatch):
    asked = []
    with serving(tmp_path, asked.append):
        monkeypatch.setattr(supervisor_socket, "_peer_user", lambda _: NO_USER_OF_OURS)
        with pytest.raises(ClientError, match="served by a user to whom"):
            ask_supervisor(tmp_path, {"command": "status"})
    assert asked == []


def test_the_kernel_names_the_user(tmp_path):
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert supervisor_socket._peer_user(one) == os.geteuid()


@pytest.mark.parametrize("home", ["", "missing"])
def test_a_directory_without_a_supervisor_is_named(tmp_path, home):
    with pytest.raises(ClientError, match="no headrace up with several brokers runs in"):
        ask_supervisor(tmp_path / home, {})


def test_a_second_supervisor_is_refused_and_the_first_goes_on(tmp_path):
    with serving(tmp_path, echo):
        with pytest.raises(ConfigError, match="another headrace up runs in"):
            SupervisorSocket(tmp_path)
        assert ask_supervisor(tmp_path, {}) == {"request": {}}


def test_what_a_killed_one_left_does_no_harm(tmp_path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / SOCKET_NAME))

    with serving(tmp_path, echo):
        assert ask_supervisor(tmp_path, {}) == {"request": {}}


@pytest.mark.parametrize("sent", [b"rubbish\n", b"[1]\n", b"\xff\n", b"[" * 60_000 + b"\n"])
def test_what_is_no_request_is_answered_with_an_error(tmp_path, sent):
    with serving(tmp_path, echo), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(tmp_path / SOCKET_NAME))
        client.sendall(sent)
        assert b"a request is a JSON object" in client.recv(4096)


@pytest.mark.parametrize("failure", [OSError("no room"), KeyError("x"), RecursionError("deep")])
def test_a_request_that_fails_is_answered_and_the_next_one_too(tmp_path, failure):
    def answer(request):
        if request:
            raise failure
        return {"well": True}

    with serving(tmp_path, answer):
        with pytest.raises(ClientError, match=f"the request failed: {type(failure).__name__}"):
            ask_supervisor(tmp_path, {"a": 1})
        assert ask_supervisor(tmp_path, {}) == {"well": True}


def test_an_answer_that_is_no_json_is_an_error(tmp_path):
    with (
        serving(tmp_path, lambda _: {"a": object()}),
        pytest.raises(ClientError, match="the request failed: TypeError"),
    ):
        ask_supervisor(tmp_path, {})


def test_a_client_that_says_nothing_is_dropped(tmp_path):
    with serving(tmp_path, echo), socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(tmp_path / SOCKET_NAME))
        assert ask_supervisor(tmp_path, {}) == {"request": {}}


def test_a_client_that_sends_a_byte_now_and_then_is_dropped(tmp_path):
    ended = threading.Event()

    def drip():
        with suppress(OSError):
            while not ended.wait(0.05):
                slow.send(b"x")

    with serving(tmp_path, echo), socket.socket(socket.AF_UNIX) as slow:
        slow.connect(str(tmp_path / SOCKET_NAME))
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert ask_supervisor(tmp_path, {}) == {"request": {}}
        finally:
            ended.set()
            thread.join()


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="cannot be made"):
        SupervisorSocket(tmp_path / "file" / "data")


def test_a_place_that_takes_no_socket_is_only_reported(tmp_path):
    (tmp_path / SOCKET_NAME).mkdir()  # stands for a file system without sockets

    commands = SupervisorSocket(tmp_path)

    assert SOCKET_NAME in commands.problem
    commands.serve(0.01, echo)
    commands.close()
