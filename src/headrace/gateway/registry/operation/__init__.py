"""What the registry can be asked for: one file per resource."""
