package giveway.yarn;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/** The plug-in's properties in yarn-site.xml. */
final class Settings {
  final String host;
  final int port;
  final Path tokenFile;
  /** After this time without a complete frame the sidecar counts as unreachable. */
  final int readTimeoutMs;
  /** Pause before the next connection attempt. */
  final int retryMs;
  /** True if nodes can be refused to applications: the allocator is in use. */
  final boolean refusesNodes;
  /** Interval at which the progress of single tasks is read from application masters; 0 if it is not. */
  final int taskProgressMs;

  Settings(String host, int port, Path tokenFile, int readTimeoutMs, int retryMs, boolean refusesNodes, int taskProgressMs) {
    this.host = host;
    this.port = port;
    this.tokenFile = tokenFile;
    this.readTimeoutMs = readTimeoutMs;
    this.retryMs = retryMs;
    this.refusesNodes = refusesNodes;
    this.taskProgressMs = taskProgressMs;
  }

  static Settings of(Configuration conf) {
    InetSocketAddress address = NetUtils.createSocketAddr(conf.get("giveway.sidecar.address", "127.0.0.1:7040"));
    return new Settings(
        address.getHostString(),
        address.getPort(),
        Paths.get(conf.get("giveway.token.file", "/etc/giveway/token")),
        conf.getInt("giveway.read-timeout.ms", 3_000),
        conf.getInt("giveway.retry.ms", 1_000),
        GivewayAppPlacementAllocator.class.getName().equals(conf.get(YarnConfiguration.APPLICATION_PLACEMENT_TYPE_CLASS)),
        Math.max(0, conf.getInt("giveway.task-progress.ms", 5_000)));
  }
}
