"""Whether something listens on a port of this machine."""

import socket

HOST = "127.0.0.1"


def is_listening(port: int) -> bool:
    """Return whether a connection to a port on loopback is accepted."""
    try:
        with socket.create_connection((HOST, port), timeout=10):
            return True
    except OSError:
        return False
