"""Consumer instances: members of groups that clients use over HTTP."""
