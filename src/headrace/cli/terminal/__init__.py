"""What commands share: options, tables, progress, signals."""
