"""From a Flume configuration to the plan of an agent."""
