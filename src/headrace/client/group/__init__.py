"""Consumer groups: membership in one, and their description and administration from outside."""
