"""What every command shares: options, tables, progress, signals."""
