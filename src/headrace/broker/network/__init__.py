"""Sockets: accepting, polling, framing, TLS, sending."""
