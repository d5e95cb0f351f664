"""What runs beside serving: health and metrics, retention, compaction."""
