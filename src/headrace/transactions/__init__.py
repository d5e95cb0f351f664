"""Transactions: the coordinator's pure state machine, its records and its producer ids."""
