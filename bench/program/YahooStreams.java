import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;

/**
 * The Yahoo streaming benchmark's job in Kafka Streams: views of ads, each with the ad's campaign,
 * counted by campaign and ten seconds. Campaigns are in a map and counts in memory, which is what is
 * fastest here; everything else is a default, but for two threads and the interval of commits.
 *
 * Arguments: bootstrap server, source topic, folder, file with an ad and its campaign per line.
 *
 * Each line of standard input is a run: a number, a guarantee, a target topic with one partition, and how
 * many views there are. A run reads the source from its beginning. Its result is a line with the
 * nanoseconds from the first event to the moment when a consumer has committed totals of all views.
 */
public class YahooStreams {
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final Duration WINDOW = Duration.ofSeconds(10);
    // Events are not in the order of their times.
    private static final Duration LATE = Duration.ofHours(1);
    // The default of exactly once. With that of at least once, 30 s, a run would end by waiting.
    private static final int COMMIT_MS = 100;
    private static final byte[] NOTHING = new byte[0];
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ObjectReader EVENTS = JSON.readerFor(Event.class);

    @JsonIgnoreProperties(ignoreUnknown = true)
    public static class Event {
        @JsonProperty("ad_id")
        public String ad;

        @JsonProperty("event_type")
        public String type;

        @JsonProperty("event_time")
        public long timeMs;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> campaigns = new HashMap<>();
        for (String line : Files.readAllLines(Path.of(arguments[3]))) {
            String[] words = line.split(" ");
            campaigns.put(words[0], words[1]);
        }
        BufferedReader runs = new BufferedReader(new InputStreamReader(System.in));
        for (String line = runs.readLine(); line != null; line = runs.readLine()) {
            String[] run = line.split(" ");
            System.out.println(nanoseconds(arguments, campaigns, run));
            System.out.flush();
        }
    }

    private static long nanoseconds(String[] arguments, Map<String, String> campaigns, String[] run)
            throws Exception {
        String target = run[2];
        AtomicLong started = new AtomicLong();
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "yahoo-" + run[0] + "-" + target);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2] + "/state");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, run[1]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, COMMIT_MS);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder job = job(arguments[1], target, campaigns, started);
        try (KafkaStreams streams = new KafkaStreams(job.build(), settings)) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            awaitTotals(arguments[0], target, Long.parseLong(run[3]));
            return System.nanoTime() - started.get();
        }
    }

    private static StreamsBuilder job(
            String source, String target, Map<String, String> campaigns, AtomicLong started) {
        Serde<Event> events = Serdes.serdeFrom(
            (topic, event) -> NOTHING, (topic, data) -> data == null ? null : event(data));
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(source, Consumed.with(Serdes.ByteArray(), events)
                .withTimestampExtractor((record, before) -> {
                    if (started.get() == 0) {
                        started.compareAndSet(0, System.nanoTime());
                    }
                    return ((Event) record.value()).timeMs;
                }))
            .filter((key, event) -> event.type.equals("view"))
            .map((key, event) -> KeyValue.pair(campaigns.get(event.ad), NOTHING))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, LATE))
            .count(Materialized.<String, Long>as(
                    Stores.inMemoryWindowStore("counts", LATE.plus(LATE), WINDOW, false))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .map((window, count) -> KeyValue.pair(
                window.key(),
                "{\"campaign\":\"" + window.key() + "\",\"start_ms\":" + window.window().start()
                    + ",\"n\":" + count + "}"))
            .to(target, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    private static Event event(byte[] data) {
        try {
            return EVENTS.readValue(data);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Returns when the newest totals of the target, as far as they are committed, add up to this. */
    private static void awaitTotals(String server, String target, long views) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", server,
            "isolation.level", "read_committed",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
        Map<String, Long> totals = new HashMap<>();
        long end = System.nanoTime() + LIMIT.toNanos();
        long sum = 0;
        try (KafkaConsumer<byte[], byte[]> results = new KafkaConsumer<>(settings)) {
            List<TopicPartition> all = List.of(new TopicPartition(target, 0));
            results.assign(all);
            results.seekToBeginning(all);
            while (sum != views) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("totals of " + sum + " views of " + views);
                }
                for (ConsumerRecord<byte[], byte[]> each : results.poll(Duration.ofMillis(100))) {
                    JsonNode total = JSON.readTree(new String(each.value(), StandardCharsets.UTF_8));
                    long n = total.get("n").asLong();
                    String key = total.get("campaign").asText() + " " + total.get("start_ms").asLong();
                    Long earlier = totals.put(key, n);
                    sum += n - (earlier == null ? 0 : earlier);
                }
            }
        }
    }
}
