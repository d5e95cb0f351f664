"""Flows whose driver runs on another machine, seen and changed through topics of their brokers."""
