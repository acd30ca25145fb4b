package giveway.yarn.nodemanager;

import java.util.Collections;
import java.util.TimerTask;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeType;
import org.apache.hadoop.yarn.server.nodemanager.nodelabels.NodeAttributesProvider;

/** Provides the one attribute of {@link PauseSupport}, which never changes. */
public class PauseAttributeProvider extends NodeAttributesProvider {
  static final String PAUSE_MB = "giveway.paused-memory.announced-mb";
  /** An interval of -1 lets the timer run once. */
  private static final long ONCE = -1;

  public PauseAttributeProvider() {
    super("Giveway pause attribute");
  }

  @Override
  protected void serviceInit(Configuration conf) throws Exception {
    super.serviceInit(conf);
    String pauseMb = conf.get(PAUSE_MB, "0");
    setIntervalTime(ONCE);
    setDescriptors(
        Collections.singleton(NodeAttribute.newInstance(NodeAttribute.PREFIX_DISTRIBUTED, PauseSupport.ATTRIBUTE, NodeAttributeType.STRING, pauseMb)));
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
