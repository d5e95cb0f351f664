import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends three records to a compacted topic as one batch, the second of them without a key. Prints per record
 * the simple name of the exception that its future reports, or its offset.
 *
 * Arguments: bootstrap server, topic.
 */
public class KeylessRecord {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("linger.ms", "60000"); // until the flush, however slow the machine is
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.partitionsFor(arguments[1]);
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String key : new String[] {"a", null, "c"}) {
                sent.add(producer.send(new ProducerRecord<>(arguments[1], 0, key, "value")));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                try {
                    System.out.println(each.get().offset());
                } catch (ExecutionException failed) {
                    System.out.println(
                        failed.getCause().getClass().getSimpleName() + ": " + failed.getCause().getMessage());
                }
            }
        }
    }
}
