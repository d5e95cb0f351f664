"""Interceptors: they change or drop events between a source and its channels."""
