"""Interceptors: change or drop events on their way from a source to its channels."""
