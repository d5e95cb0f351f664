"""What carries out the decisions of the group and transaction state machines."""
