package giveway.yarn.nodemanager;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.launcher.GivewayContainersLauncher;
import org.apache.hadoop.yarn.server.nodemanager.nodelabels.NodeAttributesProvider;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells the ResourceManager about this NodeManager by node attributes: {@code nm.yarn.io/giveway-pause-mb} is the memory that paused containers may keep, 0 if the
 * rest of the configuration does not support pausing; {@code nm.yarn.io/giveway-speed} is {@code giveway.node.speed}, if that is set.
 */
public final class NodeAnnouncement {
  static final String PAUSE_ATTRIBUTE = "giveway-pause-mb";
  static final String SPEED_ATTRIBUTE = "giveway-speed";
  private static final Logger LOG = LoggerFactory.getLogger(NodeAnnouncement.class);
  private static final String PROVIDER = YarnConfiguration.NM_NODE_ATTRIBUTES_PROVIDER_CONFIG;
  /** Part of the physical memory that containers, running and paused, may use. */
  private static final double USABLE_MEMORY = 0.9;

  private NodeAnnouncement() {}

  /**
   * Called before the NodeManager creates its provider of node attributes from the same configuration.
   *
   * @param executorMissing what the executor itself lacks to pause containers; null if nothing
   */
  public static void announce(Configuration conf, String executorMissing) {
    String missing = executorMissing != null ? executorMissing : missing(conf);
    if (missing != null) {
      LOG.warn("Giveway: this NodeManager does not pause containers: {}", missing);
      if (conf.get(GivewayAttributeProvider.SPEED) == null) {
        return;
      }
    }
    long pauseMb = missing == null ? pauseMb(conf) : 0;
    String attribute = PAUSE_ATTRIBUTE + ",STRING," + pauseMb;
    String provider = conf.get(PROVIDER, "");
    if (!provider.isEmpty()) {
      LOG.warn("Giveway: {} is `{}`; the ResourceManager pauses containers here only if that provides the attribute `{}`", PROVIDER, provider, attribute);
      return;
    }
    conf.setClass(PROVIDER, GivewayAttributeProvider.class, NodeAttributesProvider.class);
    conf.setLong(GivewayAttributeProvider.PAUSE_MB, pauseMb);
    if (missing == null) {
      LOG.info("Giveway: this NodeManager pauses containers, up to {} MB at once", pauseMb);
    }
  }

  /** The property that is missing, with its value; null if pausing is possible. */
  private static String missing(Configuration conf) {
    if (conf.getInt(YarnConfiguration.NM_OPPORTUNISTIC_CONTAINERS_MAX_QUEUE_LENGTH, YarnConfiguration.DEFAULT_NM_OPPORTUNISTIC_CONTAINERS_MAX_QUEUE_LENGTH) <= 0) {
      return "set " + YarnConfiguration.NM_OPPORTUNISTIC_CONTAINERS_MAX_QUEUE_LENGTH + " to 100";
    }
    if (!conf.getBoolean(YarnConfiguration.NM_CONTAINER_QUEUING_USE_PAUSE_FOR_PREEMPTION, YarnConfiguration.DEFAULT_NM_CONTAINER_QUEUING_USE_PAUSE_FOR_PREEMPTION)) {
      return "set " + YarnConfiguration.NM_CONTAINER_QUEUING_USE_PAUSE_FOR_PREEMPTION + " to true";
    }
    if (!GivewayContainersLauncher.class.getName().equals(conf.get(YarnConfiguration.NM_CONTAINERS_LAUNCHER_CLASS))) {
      return "set " + YarnConfiguration.NM_CONTAINERS_LAUNCHER_CLASS + " to " + GivewayContainersLauncher.class.getName();
    }
    return null;
  }

  /**
   * Memory that paused containers may keep: {@code giveway.paused-memory.max-mb}, or what the machine has, swap included, beyond the memory that the
   * NodeManager gives to containers.
   */
  private static long pauseMb(Configuration conf) {
    long configured = conf.getLong("giveway.paused-memory.max-mb", -1);
    if (configured >= 0) {
      return configured;
    }
    long containersMb = conf.getLong(YarnConfiguration.NM_PMEM_MB, YarnConfiguration.DEFAULT_NM_PMEM_MB);
    try {
      double usable = USABLE_MEMORY * memInfoMb("MemTotal") + memInfoMb("SwapTotal");
      return Math.max(0, (long) usable - (containersMb > 0 ? containersMb : YarnConfiguration.DEFAULT_NM_PMEM_MB));
    } catch (IOException | RuntimeException e) {
      LOG.warn("Giveway: cannot read the machine's memory, so no container is paused; set giveway.paused-memory.max-mb", e);
      return 0;
    }
  }

  private static long memInfoMb(String field) throws IOException {
    for (String line : Files.readAllLines(Paths.get("/proc/meminfo"))) {
      if (line.startsWith(field + ":")) {
        return Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024;
      }
    }
    throw new IOException("/proc/meminfo has no field " + field);
  }
}
