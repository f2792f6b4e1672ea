import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import kafka.tools.DumpLogSegments;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * What a broker of Kafka 3.9.1 says of the partition directories that are named, a line for each:
 * name, what its DumpLogSegments complains of, what it found when it loaded the log as after a
 * crash: start, end, last stable offset, bytes before and after, aborted transactions. Fields are
 * separated by tabs. Loading changes a directory as recovery does.
 */
public class Judge {
    public static void main(String[] paths) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(new ByteArrayOutputStream() {
            @Override public synchronized void write(byte[] data, int at, int size) { }
        }));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (String path : paths) {
            File directory = new File(path);
            answers.println(directory.getName() + "\t" + dump(directory) + "\t" + load(directory, scheduler));
        }
        answers.flush();
        System.exit(0);
    }

    static String dump(File directory) {
        PrintStream usual = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setErr(new PrintStream(said, true));
        try {
            List<String> files = new ArrayList<>();
            for (File file : directory.listFiles())
                if (file.getName().matches("\\d{20}\\.(log|index|timeindex|txnindex|snapshot)"))
                    files.add(file.getPath());
            String names = String.join(",", files);
            // The check of an index that a starting broker makes, and then each entry against the log.
            DumpLogSegments.main(new String[] {"--deep-iteration", "--index-sanity-check", "--files", names});
            DumpLogSegments.main(new String[] {"--deep-iteration", "--print-data-log", "--files", names});
        } catch (Throwable error) {
            said.writeBytes(error.toString().getBytes());
        } finally {
            System.setErr(usual);
        }
        return said.toString().replaceAll("\\s+", " ").trim();
    }

    static String load(File directory, KafkaScheduler scheduler) {
        try {
            long before = logBytes(directory);
            UnifiedLog log = UnifiedLog.apply(directory, new LogConfig(new java.util.Properties()), 0L, 0L, scheduler,
                new BrokerTopicStats(false), Time.SYSTEM, 900000, new ProducerStateManagerConfig(86400000, false), 600000,
                new LogDirFailureChannel(10), false, scala.Option.empty(), true, new ConcurrentHashMap<>(), false,
                LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
            log.updateHighWatermark(log.logEndOffset());
            StringBuilder aborted = new StringBuilder();
            for (LogSegment segment : log.logSegments())
                segment.txnIndex().allAbortedTxns().forEach(t -> aborted.append(t.producerId()).append(':')
                    .append(t.firstOffset()).append('-').append(t.lastOffset()).append(' '));
            String found = log.logStartOffset() + "\t" + log.logEndOffset() + "\t" + log.lastStableOffset() + "\t"
                + before + "\t" + logBytes(directory) + "\t" + aborted.toString().trim();
            log.close();
            return found;
        } catch (Throwable error) {
            return "failed: " + error;
        }
    }

    static long logBytes(File directory) {
        return Arrays.stream(directory.listFiles((d, name) -> name.endsWith(".log"))).mapToLong(File::length).sum();
    }
}
