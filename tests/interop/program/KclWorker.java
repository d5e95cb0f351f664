package software.amazon.kinesis.coordinator;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.client.builder.AwsClientBuilder;
import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.common.KinesisClientUtil;
import software.amazon.kinesis.common.StreamIdentifier;
import software.amazon.kinesis.leases.LeaseManagementConfig;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
import software.amazon.kinesis.retrieval.RetrievalConfig;
import software.amazon.kinesis.retrieval.fanout.FanOutConfig;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * One worker of the Kinesis Client Library. It writes what it processes to a file that all workers share:
 * `begin WORKER SHARD`, `record WORKER SHARD KEY NUMBER`, `end WORKER SHARD`. Each call appends its lines with one
 * write, before the checkpoint, so the lines are in the order in which the workers processed.
 *
 * Arguments: Kinesis, DynamoDB (URLs), application, stream, worker, file, "polling" or "fan-out", workers.
 *
 * The scheduler is the library's own, with one change: a worker of a new application waits up to 30 seconds, at
 * random, before it may list the shards; this one waits until all workers are up, so that the shards are divided
 * among them. That is why it is in the library's package.
 */
public class KclWorker extends Scheduler {
    private static final long FAILOVER_MS = 3_000;

    private final Path file;
    private final String worker;
    private final int workers;

    private KclWorker(
            ConfigsBuilder configs, LeaseManagementConfig leases, RetrievalConfig retrieval, String[] arguments) {
        super(
            configs.checkpointConfig(),
            configs.coordinatorConfig().parentShardPollIntervalMillis(200).shardConsumerDispatchPollIntervalMillis(100),
            leases,
            configs.lifecycleConfig(),
            configs.metricsConfig().metricsFactory(new NullMetricsFactory()),
            configs.processorConfig(),
            retrieval);
        worker = arguments[4];
        file = Path.of(arguments[5]);
        workers = Integer.parseInt(arguments[7]);
    }

    @Override
    boolean shouldInitiateLeaseSync() throws InterruptedException {
        try {
            Files.writeString(file, "up " + worker + " -\n", StandardOpenOption.APPEND);
            while (Files.readAllLines(file).stream().filter(line -> line.startsWith("up ")).count() < workers) {
                Thread.sleep(100);
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        return true;
    }

    public static void main(String[] arguments) throws Exception {
        boolean fanOut = arguments[6].equals("fan-out");
        String application = arguments[2];
        String stream = arguments[3];
        String worker = arguments[4];
        KinesisAsyncClient kinesis = fanOut
            ? KinesisClientUtil.createKinesisAsyncClient(at(arguments[0], KinesisAsyncClient.builder()))
            : at(arguments[0], KinesisAsyncClient.builder())
                .httpClientBuilder(NettyNioAsyncHttpClient.builder().protocol(Protocol.HTTP1_1))
                .build();
        DynamoDbAsyncClient dynamo = at(arguments[1], DynamoDbAsyncClient.builder()).build();
        CloudWatchAsyncClient cloudWatch = at(arguments[1], CloudWatchAsyncClient.builder()).build();
        OutputStream log = new FileOutputStream(arguments[5], true);
        SingleStreamTracker tracker = new SingleStreamTracker(
            StreamIdentifier.singleStreamInstance(stream),
            InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.TRIM_HORIZON));
        ConfigsBuilder configs = new ConfigsBuilder(
            tracker, application, kinesis, dynamo, cloudWatch, worker, () -> new Processor(worker, log));
        LeaseManagementConfig leases = configs.leaseManagementConfig()
            .failoverTimeMillis(FAILOVER_MS)
            .leaseAssignmentIntervalMillis(FAILOVER_MS / 2)
            .dynamoDbLockBasedLeaderLeaseDurationInMillis(2 * FAILOVER_MS)
            .dynamoDbLockBasedLeaderHeartbeatPeriodInMillis(FAILOVER_MS / 2);
        leases.workerUtilizationAwareAssignmentConfig()
            .disableWorkerMetrics(true)
            .inMemoryWorkerMetricsCaptureFrequencyMillis(200)
            .workerMetricsReporterFreqInMillis(FAILOVER_MS);
        RetrievalConfig retrieval = configs.retrievalConfig().retrievalSpecificConfig(
            fanOut
                ? new FanOutConfig(kinesis).streamName(stream).applicationName(application)
                : new PollingConfig(stream, kinesis).idleTimeBetweenReadsInMillis(250));
        System.out.println("starts");
        new KclWorker(configs, leases, retrieval, arguments).run();
    }

    private static <B extends AwsClientBuilder<B, C>, C> B at(String url, B builder) {
        return builder
            .endpointOverride(URI.create(url))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("any", "any")));
    }

    private static final class Processor implements ShardRecordProcessor {
        private final String worker;
        private final OutputStream log;
        private String shard;

        Processor(String worker, OutputStream log) {
            this.worker = worker;
            this.log = log;
        }

        @Override
        public void initialize(InitializationInput input) {
            shard = input.shardId();
            write("begin " + worker + " " + shard + "\n");
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            StringBuilder lines = new StringBuilder();
            for (KinesisClientRecord record : input.records()) {
                lines.append("record ").append(worker).append(' ').append(shard).append(' ')
                    .append(record.partitionKey()).append(' ')
                    .append(StandardCharsets.UTF_8.decode(record.data())).append('\n');
            }
            write(lines.toString());
            checkpoint(input.checkpointer());
        }

        @Override
        public void leaseLost(LeaseLostInput input) {
            write("lost " + worker + " " + shard + "\n");
        }

        @Override
        public void shardEnded(ShardEndedInput input) {
            write("end " + worker + " " + shard + "\n");
            checkpoint(input.checkpointer());
        }

        @Override
        public void shutdownRequested(ShutdownRequestedInput input) {
            checkpoint(input.checkpointer());
        }

        private void write(String lines) {
            try {
                log.write(lines.getBytes(StandardCharsets.UTF_8));
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        private static void checkpoint(RecordProcessorCheckpointer checkpointer) {
            try {
                checkpointer.checkpoint();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
