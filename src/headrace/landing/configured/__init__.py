"""Landing of every topic whose configuration names a table: `headrace land --configured`.

`configured_topic` finds the topics, `landing_process` takes turns with them, `turn` lands one of
them up to its end, and `status_group` publishes what became of it, for the console.
"""
