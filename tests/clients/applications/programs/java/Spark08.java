import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import kafka.serializer.StringDecoder;
import org.apache.spark.SparkConf;
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
              for (Tuple2<String, String> record : rdd.collect()) {
                System.out.println(record._2());
              }
            });
    context.start();
    context.awaitTermination();
  }
}
