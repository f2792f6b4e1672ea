import java.util.UUID;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.Broker;
import org.apache.storm.kafka.KafkaSpout;
import org.apache.storm.kafka.SpoutConfig;
import org.apache.storm.kafka.StaticHosts;
import org.apache.storm.kafka.StringScheme;
import org.apache.storm.kafka.trident.GlobalPartitionInformation;
import org.apache.storm.spout.SchemeAsMultiScheme;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Tuple;

/** Storm's old spout, of storm-kafka, in a local cluster, and a bolt that prints: HOST:PORT TOPIC. */
public final class StormOld {
  public static final class Print extends BaseBasicBolt {
    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
      System.out.println(tuple.getString(0));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {}
  }

  public static void main(String[] asked) throws Exception {
    // Brokers are named here; where ZooKeeper names them, the spout knows those that register there.
    GlobalPartitionInformation partitions = new GlobalPartitionInformation(asked[1]);
    partitions.addPartition(0, Broker.fromString(asked[0]));
    SpoutConfig settings =
        new SpoutConfig(
            new StaticHosts(partitions), asked[1], "/spout", UUID.randomUUID().toString());
    settings.scheme = new SchemeAsMultiScheme(new StringScheme());
    settings.startOffsetTime = kafka.api.OffsetRequest.EarliestTime();
    TopologyBuilder topology = new TopologyBuilder();
    topology.setSpout("kafka", new KafkaSpout(settings));
    topology.setBolt("print", new Print()).shuffleGrouping("kafka");
    new LocalCluster().submitTopology("reading", new Config(), topology.createTopology());
    Thread.sleep(Long.MAX_VALUE);
  }
}
