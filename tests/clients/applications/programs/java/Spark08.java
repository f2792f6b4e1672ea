import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import kafka.serializer.StringDecoder;
import org.apache.spark.Partition;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext$;
import org.apache.spark.streaming.Durations;
import org.apache.spark.streaming.api.java.JavaStreamingContext;
import org.apache.spark.streaming.kafka.KafkaUtils;
import scala.Tuple2;

/** Spark Streaming's direct stream of the 0.8 connector, printed: HOST:PORT TOPIC. */
public final class Spark08 {
  public static void main(String[] asked) throws Exception {
    SparkConf conf = new SparkConf().setMaster("local[1]").setAppName("reading");
    conf.set("spark.ui.enabled", "false").set("spark.driver.bindAddress", "127.0.0.1");
    conf.set("spark.driver.host", "127.0.0.1");
    JavaStreamingContext context = new JavaStreamingContext(conf, Durations.seconds(1));
    Map<String, String> settings = new HashMap<>();
    settings.put("metadata.broker.list", asked[0]);
    settings.put("auto.offset.reset", "smallest");
    KafkaUtils.createDirectStream(
            context,
            String.class,
            String.class,
            StringDecoder.class,
            StringDecoder.class,
            settings,
            Collections.singleton(asked[1]))
        .foreachRDD(
            rdd -> {
              // Not `collect`: before it runs a job, Spark 2 looks into the JDK's classes, and knows
              // those of Java 8. What reads is the connector all the same.
              for (Partition partition : rdd.rdd().partitions()) {
                scala.collection.Iterator<Tuple2<String, String>> records =
                    rdd.rdd().iterator(partition, TaskContext$.MODULE$.empty());
                while (records.hasNext()) {
                  System.out.println(records.next()._2());
                }
              }
            });
    context.start();
    context.awaitTermination();
  }
}
