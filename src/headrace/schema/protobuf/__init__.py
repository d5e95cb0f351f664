"""Protobuf: .proto files read, written in one form, turned into descriptors, and compared."""
