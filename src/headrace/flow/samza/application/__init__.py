"""Samza's high level programs: streams of messages, and operators on them."""
