import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Tuple;

/** The spout of storm-kafka-client in a local cluster, and a bolt that prints: HOST:PORT TOPIC. */
public final class StormNew {
  public static final class Print extends BaseBasicBolt {
    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
      System.out.println(tuple.getStringByField("value"));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {}
  }

  public static void main(String[] asked) throws Exception {
    KafkaSpoutConfig<String, String> settings =
        KafkaSpoutConfig.builder(asked[0], asked[1])
            .setProp("group.id", asked[1])
            .setFirstPollOffsetStrategy(KafkaSpoutConfig.FirstPollOffsetStrategy.EARLIEST)
            .build();
    TopologyBuilder topology = new TopologyBuilder();
    topology.setSpout("kafka", new KafkaSpout<>(settings));
    topology.setBolt("print", new Print()).shuffleGrouping("kafka");
    new LocalCluster().submitTopology("reading", new Config(), topology.createTopology());
    Thread.sleep(Long.MAX_VALUE);
  }
}
