"""Folders of any file system that pyarrow knows, or HDFS."""
