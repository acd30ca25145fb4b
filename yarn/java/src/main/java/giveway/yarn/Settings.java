package giveway.yarn;

import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.net.NetUtils;

/** What a cluster's owner may say in yarn-site.xml. */
final class Settings {
  final String host;
  final int port;
  final Path tokenFile;
  final int silenceMs;
  final int retryMs;

  Settings(String host, int port, Path tokenFile, int silenceMs, int retryMs) {
    this.host = host;
    this.port = port;
    this.tokenFile = tokenFile;
    this.silenceMs = silenceMs;
    this.retryMs = retryMs;
  }

  static Settings of(Configuration conf) {
    java.net.InetSocketAddress address = NetUtils.createSocketAddr(conf.get("giveway.sidecar.address", "127.0.0.1:7040"));
    return new Settings(
        address.getHostString(),
        address.getPort(),
        Paths.get(conf.get("giveway.token.file", "/etc/giveway/token")),
        conf.getInt("giveway.silence.ms", 3_000),
        conf.getInt("giveway.retry.ms", 1_000));
  }
}
