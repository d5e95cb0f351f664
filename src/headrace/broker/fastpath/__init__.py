"""Fast paths: requests that repeat an earlier one skip the handler."""
