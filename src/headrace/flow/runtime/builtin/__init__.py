"""Works that are not a user's class: functions per tuple, totals by key, windows."""
