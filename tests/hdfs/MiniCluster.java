import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS in one process: a directory, the port of its HTTP, and one that is listened on when it is ready. */
public class MiniCluster {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(configuration, new File(arguments[0]))
            .numDataNodes(1)
            .nameNodeHttpPort(Integer.parseInt(arguments[1]))
            .build();
    cluster.waitActive();
    cluster.getFileSystem().setPermission(new Path("/"), new FsPermission((short) 0777));
    Path closed = new Path("/closed");
    cluster.getFileSystem().mkdirs(closed, new FsPermission((short) 0700));
    // Whoever waits for this port knows that all of it is there.
    new java.net.ServerSocket(Integer.parseInt(arguments[2]));
    while (System.in.read() >= 0) {}
    cluster.shutdown();
    System.exit(0);
  }
}
