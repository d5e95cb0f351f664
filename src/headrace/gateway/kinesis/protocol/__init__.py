"""Requests and responses as bytes: JSON 1.1 and CBOR, checked against the service model."""
