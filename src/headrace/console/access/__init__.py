"""Who may use the console: users, their sessions, and the checks that every request passes."""
