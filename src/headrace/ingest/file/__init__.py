"""Files that sources read and sinks write, on local disks and on HDFS."""
