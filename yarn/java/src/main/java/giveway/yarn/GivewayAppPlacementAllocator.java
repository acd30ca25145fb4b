package giveway.yarn;

import java.util.Optional;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.activities.DiagnosticsCollector;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.LocalityAppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Hadoop's own placement by locality, without the nodes that the sidecar refuses to an application. Set it as {@code yarn.scheduler.app-placement-allocator.class};
 * the scheduler creates one for each priority of each application.
 *
 * <p>It runs while the scheduler holds its locks, so it only looks up a table. Never refused are the container of the application master, a container that is
 * promoted, and work that was lost. Without a sidecar nothing is refused.
 */
public class GivewayAppPlacementAllocator<N extends SchedulerNode> extends LocalityAppPlacementAllocator<N> {
  /** The ResourceManager requests the application master's container at this priority. */
  private static final int MASTER_PRIORITY = 0;

  private final RefusalWait wait = new RefusalWait();

  @Override
  public boolean precheckNode(SchedulerNode node, SchedulingMode mode, Optional<DiagnosticsCollector> diagnostics) {
    return super.precheckNode(node, mode, diagnostics) && accepts(node);
  }

  private boolean accepts(SchedulerNode node) {
    try {
      return isExempt(schedulerRequestKey)
          || wait.accepts(GivewayPlugin.refusals(), appSchedulingInfo.getApplicationId(), node.getNodeID(), Time.monotonicNow());
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
      return true;
    }
  }

  @Override
  public ContainerRequest allocate(SchedulerRequestKey key, NodeType type, SchedulerNode node) {
    ContainerRequest request = super.allocate(key, type, node);
    try {
      wait.allocated(GivewayPlugin.refusals(), appSchedulingInfo.getApplicationId(), node.getNodeID());
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
    }
    return request;
  }

  /** True if requests with this key may use every node. */
  static boolean isExempt(SchedulerRequestKey key) {
    if (key == null || key.getPriority() == null || key.getContainerToUpdate() != null) {
      return true;
    }
    int priority = key.getPriority().getPriority();
    return priority == MASTER_PRIORITY || priority == ClusterStateEncoder.FAILED_MAP_PRIORITY;
  }
}
