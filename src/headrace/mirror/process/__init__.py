"""The mirror as a process: reads one cluster, writes another, both over Kafka's protocol alone.

`mirror_process` runs the flows of a file, `copier` one of them; `topic_sync`, `checkpoint` and
`housekeeping` do what MirrorMaker 2 does beside copying.
"""
