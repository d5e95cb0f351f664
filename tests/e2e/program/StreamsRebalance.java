import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Two instances count records by key, exactly once, with standbys. The first gets a thread more, loses
 * one, and both are closed. Prints how long each step took, and what the threads do if one hangs.
 *
 * Arguments: bootstrap server, application id, input topic, output topic, folder.
 */
public class StreamsRebalance {
    private static final Duration LIMIT = Duration.ofSeconds(90);
    // An instance that is closed does not leave its group: the others wait for its session to end.
    private static final int SESSION_MS = 6_000;

    public static void main(String[] arguments) throws Exception {
        KafkaStreams first = instance(arguments, "first");
        KafkaStreams second = instance(arguments, "second");
        Thread watch = new Thread(StreamsRebalance::dump);
        watch.setDaemon(true);
        watch.start();
        timed("start", () -> {
            first.start();
            second.start();
            return running(first, 1) && running(second, 1);
        });
        timed("add", () -> first.addStreamThread().isPresent() && running(first, 2));
        timed("remove", () -> first.removeStreamThread(LIMIT).isPresent());
        timed("close second", () -> second.close(LIMIT));
        timed("close first", () -> first.close(LIMIT));
        System.exit(0);
    }

    private static KafkaStreams instance(String[] arguments, String name) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, name);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4] + "/" + name);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), SESSION_MS);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 200);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey()
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        return new KafkaStreams(builder.build(), settings);
    }

    private static boolean running(KafkaStreams streams, int threads) throws InterruptedException {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (System.nanoTime() < end) {
            long found = streams.metadataForLocalThreads().stream()
                .filter(thread -> thread.threadState().equals("RUNNING")).count();
            if (found >= threads) {
                return true;
            }
            Thread.sleep(20);
        }
        return false;
    }

    private static void timed(String step, Callable<Boolean> work) throws Exception {
        long start = System.nanoTime();
        boolean done = work.call();
        System.out.printf("%s: %d ms %s%n", step, (System.nanoTime() - start) / 1_000_000, done);
        System.out.flush();
    }

    private static void dump() {
        try {
            Thread.sleep(2 * LIMIT.toMillis());
        } catch (InterruptedException ended) {
            return;
        }
        Thread.getAllStackTraces().forEach((thread, frames) -> {
            if (thread.getName().contains("StreamThread")) {
                System.out.println(thread.getName());
                for (StackTraceElement frame : frames) {
                    System.out.println("    at " + frame);
                }
            }
        });
    }
}
