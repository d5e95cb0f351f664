"""What breaks: networks, disks, clusters, and the histories that judge the outcome."""
