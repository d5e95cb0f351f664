"""Topics whose records must name schemas that a registry has."""
