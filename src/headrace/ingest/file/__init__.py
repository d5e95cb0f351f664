"""Files that sources read and sinks write, on local disks, HDFS and object stores."""
