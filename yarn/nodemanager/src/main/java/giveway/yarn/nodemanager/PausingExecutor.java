package giveway.yarn.nodemanager;

import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.Container;

/** An executor that can pause containers. */
public interface PausingExecutor {
  /** Called by the launcher for a container that was paused before the NodeManager restarted. */
  void recoverPausedContainer(Container container);
}
