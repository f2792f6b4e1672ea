// Runs Kroxylicious with the configuration in a file, until it is killed.

import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

public class Proxy {
    public static void main(String[] arguments) throws Exception {
        var parser = new ConfigParser();
        var configuration = parser.parseConfiguration(Files.readString(Path.of(arguments[0])));
        new KafkaProxy(parser, configuration, Features.defaultFeatures()).startup().block();
    }
}
