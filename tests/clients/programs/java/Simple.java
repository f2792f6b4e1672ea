import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;

/** The SimpleConsumer of 0.8.2: fetches of a size, one partition after the other. */
final class Simple {
    public static void main(String[] arguments) {
        final Asked asked = new Asked(arguments);
        asked.readAll(new Asked.Read() {
            @Override
            public void read(Asked.Reading reading) throws Exception {
                Simple.read(asked, reading);
            }
        });
    }

    private static void read(Asked asked, Asked.Reading reading) throws Exception {
        String[] address = asked.get("bootstrap", "").split(",")[0].split(":");
        int size = 1024 * Integer.parseInt(asked.get("pin", "1024k").replace("k", ""));
        SimpleConsumer consumer =
                new SimpleConsumer(address[0], Integer.parseInt(address[1]), 10000, 65536, "simple");
        List<String> names = new ArrayList<String>();
        names.add(reading.name);
        consumer.send(new kafka.javaapi.TopicMetadataRequest(names));
        long[] next = new long[reading.partitions];
        for (int p = 0; p < next.length; p++) next[p] = earliest(consumer, reading.name, p);
        while (reading.goesOn()) {
            FetchRequestBuilder request = new FetchRequestBuilder().clientId("simple").maxWait(100);
            for (int p = 0; p < next.length; p++)
                request.addFetch(reading.name, p, next[p], size);
            FetchResponse response = consumer.fetch(request.build());
            for (int p = 0; p < next.length; p++) {
                if (response.errorCode(reading.name, p) != 0)
                    throw new Exception("error " + response.errorCode(reading.name, p));
                for (MessageAndOffset each : response.messageSet(reading.name, p)) {
                    if (each.offset() < next[p]) continue;
                    reading.record(p, each.offset(), bytes(each.message().key()),
                            bytes(each.message().payload()), "");
                    next[p] = each.nextOffset();
                }
            }
        }
        consumer.close();
    }

    private static long earliest(SimpleConsumer consumer, String topic, int partition) {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> wanted =
                new HashMap<TopicAndPartition, PartitionOffsetRequestInfo>();
        wanted.put(new TopicAndPartition(topic, partition), new PartitionOffsetRequestInfo(-2, 1));
        return consumer.getOffsetsBefore(new OffsetRequest(wanted, (short) 0, "simple"))
                .offsets(topic, partition)[0];
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return data;
    }
}
