import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's transactional producer: aborts, commits, and is fenced; and what its admin client sees. */
public class Transact {
    static String address;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        KafkaProducer<String, String> first = producer();
        first.beginTransaction();
        first.send(new ProducerRecord<>("target", "dropped")).get();
        first.abortTransaction();
        first.beginTransaction();
        first.send(new ProducerRecord<>("target", "kept"));
        first.sendOffsetsToTransaction(
            Map.of(new TopicPartition("source", 0), new OffsetAndMetadata(5)), new ConsumerGroupMetadata("copies"));
        first.commitTransaction();
        first.beginTransaction();
        first.send(new ProducerRecord<>("target", "fenced")).get();
        look();
        KafkaProducer<String, String> second = producer();
        try {
            first.commitTransaction();
            throw new IllegalStateException("it was not fenced");
        } catch (KafkaException fenced) {
            System.out.println(fenced);
        }
        second.beginTransaction();
        second.send(new ProducerRecord<>("target", "last"));
        second.commitTransaction();
        second.close();
        System.exit(0);
    }

    static KafkaProducer<String, String> producer() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("transactional.id", "copier");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        KafkaProducer<String, String> made = new KafkaProducer<>(settings);
        made.initTransactions();
        return made;
    }

    static void look() throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        TopicPartition target = new TopicPartition("target", 0);
        try (Admin admin = Admin.create(settings)) {
            for (TransactionListing one : admin.listTransactions().all().get())
                expect(one.transactionalId().equals("copier") && one.state() == TransactionState.ONGOING);
            expect(admin.describeTransactions(List.of("copier")).all().get().get("copier")
                .topicPartitions().equals(Set.of(target)));
            expect(admin.describeProducers(List.of(target)).all().get().get(target)
                .activeProducers().get(0).currentTransactionStartOffset().isPresent());
        }
    }

    static void expect(boolean holds) {
        if (!holds)
            throw new IllegalStateException("not as expected");
    }
}
