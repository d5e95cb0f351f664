"""The partitions this broker leads or follows, their logs, and the requests that wait on them."""
