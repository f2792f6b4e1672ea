import java.io.FileReader;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** Consumes as the input of Logstash does, and prints the values: FILE_OF_SETTINGS TOPIC. */
public final class LogstashInput {
  public static void main(String[] asked) throws Exception {
    Properties settings = new Properties();
    try (FileReader file = new FileReader(asked[0])) {
      settings.load(file);
    }
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
      consumer.subscribe(Collections.singletonList(asked[1]));
      while (true) {
        for (ConsumerRecord<String, String> record : consumer.poll(100)) {
          System.out.println(record.value());
        }
      }
    }
  }
}
