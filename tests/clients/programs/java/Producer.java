import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The producer of kafka-clients 0.8.2 to 4.x. */
final class Producer {
    public static void main(String[] arguments) throws Exception {
        final Asked asked = new Asked(arguments);
        asked.produceAll(new Asked.Send() {
            @Override
            public void send(String topic, List<byte[][]> pairs) throws Exception {
                Producer.send(asked, topic, pairs);
            }
        });
    }

    static Properties properties(Asked asked) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", asked.get("bootstrap", ""));
        for (String side : new String[] {"key", "value"}) {
            String name = "org.apache.kafka.common.serialization.ByteArray";
            properties.put(side + ".deserializer", name + "Deserializer");
            properties.put(side + ".serializer", name + "Serializer");
        }
        return properties;
    }

    private static void send(Asked asked, String topic, List<byte[][]> pairs) throws Exception {
        Properties properties = properties(asked);
        properties.put("acks", asked.get("acks", "1"));
        properties.put("compression.type", asked.get("codec", "none"));
        properties.put("linger.ms", "50");
        if (!asked.get("acks", "1").equals("all")) properties.put("enable.idempotence", "false");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<byte[], byte[]>(properties);
        try {
            List<Future<?>> sent = new ArrayList<Future<?>>();
            for (byte[][] pair : pairs)
                sent.add(producer.send(
                        new ProducerRecord<byte[], byte[]>(topic, 0, pair[0], pair[1])));
            for (Future<?> each : sent) each.get();
        } finally {
            producer.close();
        }
    }
}
