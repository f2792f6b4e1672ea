import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** The consumer of kafka-clients 0.9 to 4.x. What not all of them have is asked for by its name. */
final class Clients {
    public static void main(String[] arguments) {
        final Asked asked = new Asked(arguments);
        asked.readAll(new Asked.Read() {
            @Override
            public void read(Asked.Reading reading) throws Exception {
                Clients.read(asked, reading);
            }
        });
    }

    private static void read(Asked asked, Asked.Reading reading) throws Exception {
        boolean group = asked.get("mode", "").equals("group");
        Properties properties = Producer.properties(asked);
        properties.put("auto.offset.reset", "earliest");
        properties.put("max.partition.fetch.bytes", String.valueOf(4 << 20));
        properties.put("fetch.max.wait.ms", "100");
        properties.put("enable.auto.commit", String.valueOf(group));
        if (group) properties.put("group.id", asked.get("group", "g") + "-" + UUID.randomUUID());
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<byte[], byte[]>(properties);
        try {
            if (group) {
                consumer.subscribe(Collections.singletonList(reading.name));
            } else {
                List<TopicPartition> partitions = new ArrayList<TopicPartition>();
                for (int p = 0; p < reading.partitions; p++)
                    partitions.add(new TopicPartition(reading.name, p));
                consumer.assign(partitions);
                seekToBeginning(consumer, partitions);
            }
            while (reading.goesOn())
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer))
                    reading.record(record.partition(), record.offset(), record.key(),
                            record.value(), more(record));
        } finally {
            consumer.close();
        }
    }

    /** Of one partition or several, by version. */
    private static void seekToBeginning(KafkaConsumer<?, ?> consumer, List<TopicPartition> all)
            throws Exception {
        for (Method method : KafkaConsumer.class.getMethods()) {
            if (!method.getName().equals("seekToBeginning")) continue;
            boolean array = method.getParameterTypes()[0].isArray();
            method.invoke(consumer, array ? all.toArray(new TopicPartition[0]) : all);
            return;
        }
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer)
            throws Exception {
        Object found;
        try {
            found = KafkaConsumer.class.getMethod("poll", Duration.class)
                    .invoke(consumer, Duration.ofMillis(100));
        } catch (NoSuchMethodException old) {
            found = KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 100L);
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw (Exception) error.getCause();
        }
        return (ConsumerRecords<byte[], byte[]>) found;
    }

    private static String more(ConsumerRecord<?, ?> record) throws Exception {
        StringBuilder more = new StringBuilder();
        Object timestamp = of(record, "timestamp");
        if (timestamp == null) return "";
        more.append(",\"t\":").append(timestamp);
        more.append(",\"tt\":\"").append(of(record, "timestampType")).append('"');
        Object headers = of(record, "headers");
        if (headers == null) return more.toString();
        String separator = ",\"h\":[";
        for (Object header : (Iterable<?>) headers) {
            more.append(separator).append('[').append(Asked.quoted((String) of(header, "key")));
            more.append(',').append(Asked.hex((byte[]) of(header, "value"))).append(']');
            separator = ",";
        }
        return more.append(separator.equals(",") ? "]" : ",\"h\":[]").toString();
    }

    private static Object of(Object object, String getter) throws Exception {
        try {
            Method method = object.getClass().getMethod(getter);
            method.setAccessible(true);
            return method.invoke(object);
        } catch (NoSuchMethodException old) {
            return null;
        }
    }
}
