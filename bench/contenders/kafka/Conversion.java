import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.network.TransferableChannel;
import org.apache.kafka.common.record.BaseRecords;
import org.apache.kafka.common.record.ConvertedRecords;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.LazyDownConversionRecords;
import org.apache.kafka.common.record.LazyDownConversionRecordsSend;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.record.RecordsSend;
import org.apache.kafka.common.utils.Time;

/**
 * How fast do Kafka's own classes convert a segment? A co-process: it works only while it is asked.
 *
 * <p>Arguments: lazy or eager, the magic to convert to, the segment. Standard input: a line "position size
 * firstOffset" for each fetch, an empty line, then a line for each round: "round", or "check" for one that
 * also computes the CRC-32 of all bytes sent. Each is answered by one line of JSON.
 *
 * <p>Lazy is what a broker does for a fetch of v0-v3: construct, toSend, write until completed. Eager is
 * FileRecords.downConvert, what brokers did before KIP-283.
 */
public final class Conversion {
    private record Fetch(int position, int size, long firstOffset) {}

    private static final TopicPartition PARTITION = new TopicPartition("bench", 0);

    private final boolean isLazy;
    private final byte toMagic;
    private final FileRecords segment;
    private final List<Fetch> fetches = new ArrayList<>();

    private Conversion(boolean isLazy, byte toMagic, FileRecords segment) {
        this.isLazy = isLazy;
        this.toMagic = toMagic;
        this.segment = segment;
    }

    public static void main(String[] args) throws IOException {
        FileRecords segment = FileRecords.open(new File(args[2]), false);
        Conversion conversion = new Conversion(args[0].equals("lazy"), Byte.parseByte(args[1]), segment);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); !line.isEmpty(); line = commands.readLine()) {
            String[] fetch = line.split(" ");
            conversion.fetches.add(
                new Fetch(
                    Integer.parseInt(fetch[0]), Integer.parseInt(fetch[1]), Long.parseLong(fetch[2])));
        }
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(conversion.round(line.equals("check")));
        }
    }

    private String round(boolean isChecked) throws IOException {
        Discard channel = new Discard(isChecked);
        long records = 0;
        long started = System.nanoTime();
        for (Fetch fetch : fetches) {
            Records slice = segment.slice(fetch.position, fetch.size);
            records += isLazy ? lazily(slice, fetch, channel) : eagerly(slice, fetch, channel);
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        return String.format(
            Locale.ROOT,
            "{\"records\": %d, \"size\": %d, \"seconds\": %.9f, \"crc\": %d}",
            records, channel.size, seconds, channel.crc.getValue());
    }

    private long lazily(Records slice, Fetch fetch, Discard channel) throws IOException {
        LazyDownConversionRecordsSend send =
            new LazyDownConversionRecords(PARTITION, slice, toMagic, fetch.firstOffset, Time.SYSTEM)
                .toSend();
        write(send, channel);
        return send.recordConversionStats().numRecordsConverted();
    }

    private long eagerly(Records slice, Fetch fetch, Discard channel) throws IOException {
        ConvertedRecords<? extends Records> converted =
            slice.downConvert(toMagic, fetch.firstOffset, Time.SYSTEM);
        write(converted.records().toSend(), channel);
        return converted.recordConversionStats().numRecordsConverted();
    }

    private static void write(RecordsSend<? extends BaseRecords> send, Discard channel)
        throws IOException {
        while (!send.completed()) {
            send.writeTo(channel);
        }
    }

    /** A channel that takes everything at once and keeps nothing. */
    private static final class Discard implements TransferableChannel {
        private final boolean isChecked;
        private final CRC32 crc = new CRC32();
        private long size = 0;

        private Discard(boolean isChecked) {
            this.isChecked = isChecked;
        }

        @Override
        public int write(ByteBuffer source) {
            int taken = source.remaining();
            if (isChecked) {
                crc.update(source);
            }
            source.position(source.limit());
            size += taken;
            return taken;
        }

        @Override
        public long write(ByteBuffer[] sources) {
            return write(sources, 0, sources.length);
        }

        @Override
        public long write(ByteBuffer[] sources, int offset, int length) {
            long taken = 0;
            for (int i = offset; i < offset + length; i++) {
                taken += write(sources[i]);
            }
            return taken;
        }

        @Override
        public long transferFrom(FileChannel file, long position, long count) throws IOException {
            throw new IOException("nothing that is converted is transferred from a file");
        }

        @Override
        public boolean hasPendingWrites() {
            return false;
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {}
    }
}
