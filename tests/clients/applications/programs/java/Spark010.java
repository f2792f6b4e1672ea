import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.spark.Partition;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext$;
import org.apache.spark.streaming.Durations;
import org.apache.spark.streaming.api.java.JavaStreamingContext;
import org.apache.spark.streaming.kafka010.ConsumerStrategies;
import org.apache.spark.streaming.kafka010.KafkaUtils;
import org.apache.spark.streaming.kafka010.LocationStrategies;

/** Spark Streaming's direct stream of the 0.10 connector, printed: HOST:PORT TOPIC. */
public final class Spark010 {
  public static void main(String[] asked) throws Exception {
    SparkConf conf = new SparkConf().setMaster("local[1]").setAppName("reading");
    conf.set("spark.ui.enabled", "false").set("spark.driver.bindAddress", "127.0.0.1");
    conf.set("spark.driver.host", "127.0.0.1");
    JavaStreamingContext context = new JavaStreamingContext(conf, Durations.seconds(1));
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", asked[0]);
    settings.put("key.deserializer", StringDeserializer.class);
    settings.put("value.deserializer", StringDeserializer.class);
    settings.put("group.id", asked[1]);
    settings.put("auto.offset.reset", "earliest");
    KafkaUtils.<String, String>createDirectStream(
            context,
            LocationStrategies.PreferConsistent(),
            ConsumerStrategies.Subscribe(Collections.singleton(asked[1]), settings))
        .map(ConsumerRecord::value)
        .foreachRDD(
            rdd -> {
              // Not `collect`: before it runs a job, Spark 2 looks into the JDK's classes, and knows
              // those of Java 8. What reads is the connector all the same.
              for (Partition partition : rdd.rdd().partitions()) {
                scala.collection.Iterator<String> records =
                    rdd.rdd().iterator(partition, TaskContext$.MODULE$.empty());
                while (records.hasNext()) {
                  System.out.println(records.next());
                }
              }
            });
    context.start();
    context.awaitTermination();
  }
}
