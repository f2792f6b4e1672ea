import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What every program is asked, and how it says what it read: python/asked.py has the same. */
final class Asked {
    interface Read {
        void read(Reading reading) throws Exception;
    }

    interface Send {
        void send(String topic, List<byte[][]> pairs) throws Exception;
    }

    static final long GRACE = 250;
    private static final PrintStream OUT =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false);

    final Map<String, String> options = new HashMap<String, String>();
    final List<String> topics = new ArrayList<String>();

    Asked(String[] arguments) {
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            if (arguments[i].equals("--topic")) topics.add(arguments[i + 1]);
            else options.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    String get(String name, String otherwise) {
        return options.containsKey(name) ? options.get(name) : otherwise;
    }

    long waitMillis() {
        return (long) (1000 * Double.parseDouble(get("wait", "8")));
    }

    void readAll(Read read) {
        for (String topic : topics) {
            String[] parts = topic.split(":");
            final Reading reading = new Reading(parts[0], Integer.parseInt(parts[1]),
                    Integer.parseInt(parts[2]), waitMillis());
            guard(reading.name, waitMillis() + 10000, reading);
            try {
                read.read(reading);
                sayEnd(reading.name, reading.seen >= reading.count ? "count" : "time");
            } catch (Throwable error) {
                error.printStackTrace();
                sayEnd(reading.name, String.valueOf(error));
            }
            reading.ended = true;
        }
        OUT.flush();
        Runtime.getRuntime().halt(0);
    }

    void produceAll(Send send) throws IOException {
        Map<String, List<byte[][]>> records = new LinkedHashMap<String, List<byte[][]>>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String topic = field(line, "topic");
            if (!records.containsKey(topic)) records.put(topic, new ArrayList<byte[][]>());
            records.get(topic).add(new byte[][] {bytes(field(line, "k")), bytes(field(line, "v"))});
        }
        guard("all", waitMillis() + 20000, null);
        for (Map.Entry<String, List<byte[][]>> entry : records.entrySet()) {
            String end = "count";
            try {
                send.send(entry.getKey(), entry.getValue());
            } catch (Throwable error) {
                error.printStackTrace();
                end = String.valueOf(error);
            }
            sayEnd(entry.getKey(), end);
        }
        OUT.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void guard(final String topic, final long millis, final Reading reading) {
        Thread thread = new Thread() {
            @Override
            public void run() {
                try {
                    Thread.sleep(millis);
                } catch (InterruptedException error) {
                    return;
                }
                if (reading != null && reading.ended) return;
                sayEnd(topic, "hangs");
                Runtime.getRuntime().halt(3);
            }
        };
        thread.setDaemon(true);
        thread.start();
    }

    private static void sayEnd(String topic, String end) {
        String text = end.replaceAll("[^ -~]|[\"\\\\]", " ");
        if (text.length() > 300) text = text.substring(0, 300);
        OUT.println("{\"topic\":\"" + topic + "\",\"end\":\"" + text + "\"}");
        OUT.flush();
    }

    /** Of a line as our own script writes it: strings without escapes, or null. */
    private static String field(String line, String name) {
        int at = line.indexOf("\"" + name + "\": ") + name.length() + 4;
        if (line.startsWith("null", at)) return null;
        return line.substring(at + 1, line.indexOf('"', at + 1));
    }

    private static byte[] bytes(String hex) {
        if (hex == null) return null;
        byte[] data = new byte[hex.length() / 2];
        for (int i = 0; i < data.length; i++)
            data[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return data;
    }

    /** One topic: when to stop, and the lines. */
    static final class Reading {
        final String name;
        final int partitions;
        final int count;
        final long started = System.currentTimeMillis();
        private final long wait;
        volatile boolean ended;
        volatile int seen;
        private long complete;

        Reading(String name, int partitions, int count, long wait) {
            this.name = name;
            this.partitions = partitions;
            this.count = count;
            this.wait = wait;
        }

        boolean goesOn() {
            long now = System.currentTimeMillis();
            if (seen >= count && complete == 0) complete = now;
            if (complete != 0) return now - complete < GRACE && seen < 2 * count + 10;
            return now - started < wait;
        }

        void record(int partition, long offset, byte[] key, byte[] value, String more) {
            seen++;
            StringBuilder line = new StringBuilder("{\"topic\":\"").append(name);
            line.append("\",\"p\":").append(partition).append(",\"o\":").append(offset);
            line.append(",\"k\":").append(hex(key)).append(",\"v\":").append(hex(value));
            OUT.println(line.append(more).append('}'));
        }
    }

    static String hex(byte[] data) {
        if (data == null) return "null";
        StringBuilder text = new StringBuilder(2 * data.length + 2).append('"');
        for (byte each : data) {
            text.append(Character.forDigit(each >> 4 & 15, 16));
            text.append(Character.forDigit(each & 15, 16));
        }
        return text.append('"').toString();
    }

    /** A header's name, which may be of any characters. */
    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each < ' ' || each > '~' || each == '"' || each == '\\')
                quoted.append(String.format("\\u%04x", (int) each));
            else quoted.append(each);
        }
        return quoted.append('"').toString();
    }
}
