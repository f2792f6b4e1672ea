import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.Properties;

/** SimpleConsumerShell of 0.8.2: a partition at a time, with a formatter of ours. */
final class Shell {
    private static volatile Asked.Reading reading;
    private static volatile int partition;
    private static volatile long nextOffset;

    /** What the shell prints is the offset behind a record, and then the record. */
    public static final class Lines implements kafka.tools.MessageFormatter {
        @Override
        public void writeTo(byte[] key, byte[] value, PrintStream output) {
            reading.record(partition, nextOffset - 1, key, value, "");
        }

        @Override
        public void init(Properties properties) {}

        @Override
        public void close() {}
    }

    public static void main(String[] arguments) {
        final Asked asked = new Asked(arguments);
        System.setOut(new PrintStream(new ByteArrayOutputStream()) {
            @Override
            public void println(String line) {
                said(line);
            }

            @Override
            public void println(Object line) {
                said(String.valueOf(line));
            }
        });
        asked.readAll(new Asked.Read() {
            @Override
            public void read(Asked.Reading topic) throws Exception {
                reading = topic;
                for (int p = 0; p < topic.partitions && topic.goesOn(); p++) {
                    partition = p;
                    kafka.tools.SimpleConsumerShell.main(new String[] {
                        "--broker-list", asked.get("bootstrap", ""), "--topic", topic.name,
                        "--partition", String.valueOf(p), "--formatter", Lines.class.getName(),
                        "--print-offsets", "--no-wait-at-logend", "--fetchsize", "4194304"});
                    for (Thread thread : Thread.getAllStackTraces().keySet())
                        if (thread.getName().contains("simple-consumer-shell"))
                            while (thread.isAlive() && topic.goesOn()) thread.join(50);
                }
            }
        });
    }

    private static void said(String line) {
        if (line.startsWith("next offset = ")) nextOffset = Long.parseLong(line.substring(14));
    }
}
