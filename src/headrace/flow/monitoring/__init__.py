"""The figures of running flows, and the list of those that run here."""
