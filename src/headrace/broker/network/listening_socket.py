"""A socket on which clients connect, bound before anything behind it is ready to serve them."""

import errno
import socket
from dataclasses import dataclass, replace

from headrace.broker.config.listener import Listener
from headrace.model.error import ConfigError


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A bound socket. The kernel holds connections until `Acceptor` accepts them.

    Attributes:
        listener: the address, with the port that the kernel chose for port 0.
    """

    sock: socket.socket
    listener: Listener

    @classmethod
    def bind(cls, listener: Listener, backlog: int) -> "ListeningSocket":
        """Open the socket of a listener.

        Raises:
            ConfigError: the address is in use or is not this machine's.
        """
        try:
            sock = _bound_socket(listener, backlog)
        except OSError as error:
            raise ConfigError(f"cannot listen on {listener.address}: {_reason(error)}") from error
        return cls(sock, replace(listener, port=sock.getsockname()[1]))

    def close(self) -> None:
        """Close it. A second call changes nothing."""
        self.sock.close()


def _bound_socket(listener: Listener, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((listener.host, listener.port))
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there already; choose another port with --listen"
    return error.strerror or str(error)
