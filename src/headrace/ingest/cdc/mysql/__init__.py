"""Change capture from MySQL and MariaDB: types, positions and the binary log."""
