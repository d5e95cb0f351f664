"""Stream programs in the words of Storm, Trident and Samza and in SQL, executed by Spark."""
