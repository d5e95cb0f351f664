import java.time.Duration;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints what MirrorMaker 2's client finds at the target of a mirror: address, alias, group. */
public class MirrorOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        String alias = arguments[1];
        try (MirrorClient client = new MirrorClient(settings)) {
            System.out.println("upstream: " + new TreeSet<>(client.upstreamClusters()));
            System.out.println("remote: " + new TreeSet<>(client.remoteTopics(alias)));
            System.out.println("hops: " + client.replicationHops(alias));
        }
        Map<TopicPartition, OffsetAndMetadata> offsets =
            RemoteClusterUtils.translateOffsets(
                settings, alias, arguments[2], Duration.ofSeconds(30));
        for (Map.Entry<TopicPartition, OffsetAndMetadata> each : offsets.entrySet()) {
            System.out.println("offset: " + each.getKey() + " " + each.getValue().offset());
        }
    }
}
