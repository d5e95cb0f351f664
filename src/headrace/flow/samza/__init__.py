"""Tasks in Samza's words: a `StreamTask` for each input partition, stores, a `.properties` file.

Example:
    from headrace.flow.samza.job import load
    from headrace.flow.samza.task import StreamTask
"""
