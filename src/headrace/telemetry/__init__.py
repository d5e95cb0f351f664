"""Logs and metrics, and the HTTP server that serves them."""
