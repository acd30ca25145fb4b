package giveway.yarn.nodemanager;

import java.util.HashSet;
import java.util.Set;
import java.util.TimerTask;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeType;
import org.apache.hadoop.yarn.server.nodemanager.nodelabels.NodeAttributesProvider;

/** Provides the attributes of {@link NodeAnnouncement}, which never change. */
public class GivewayAttributeProvider extends NodeAttributesProvider {
  static final String PAUSE_MB = "giveway.paused-memory.announced-mb";
  static final String SPEED = "giveway.node.speed";
  /** An interval of -1 lets the timer run once. */
  private static final long ONCE = -1;

  public GivewayAttributeProvider() {
    super("Giveway node attributes");
  }

  @Override
  protected void serviceInit(Configuration conf) throws Exception {
    super.serviceInit(conf);
    setIntervalTime(ONCE);
    Set<NodeAttribute> attributes = new HashSet<>();
    attributes.add(attribute(NodeAnnouncement.PAUSE_ATTRIBUTE, conf.get(PAUSE_MB, "0")));
    if (conf.get(SPEED) != null) {
      attributes.add(attribute(NodeAnnouncement.SPEED_ATTRIBUTE, conf.get(SPEED)));
    }
    setDescriptors(attributes);
  }

  private static NodeAttribute attribute(String name, String value) {
    return NodeAttribute.newInstance(NodeAttribute.PREFIX_DISTRIBUTED, name, NodeAttributeType.STRING, value);
  }

  @Override
  public TimerTask createTimerTask() {
    return new TimerTask() {
      @Override
      public void run() {
        // Nothing changes.
      }
    };
  }

  @Override
  protected void cleanUp() {
    // Nothing is held.
  }
}
