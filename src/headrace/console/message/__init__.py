"""The records of a topic, as a person reads them: searched, followed, masked and rendered."""
