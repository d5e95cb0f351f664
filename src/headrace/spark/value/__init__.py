"""Decodes values into columns: text, JSON, CSV, Avro."""
