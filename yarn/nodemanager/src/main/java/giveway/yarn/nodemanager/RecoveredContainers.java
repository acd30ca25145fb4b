package giveway.yarn.nodemanager;

import java.lang.reflect.Field;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.event.EventHandler;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.Container;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.monitor.ContainersMonitor;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.scheduler.ContainerScheduler;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.scheduler.ContainerSchedulerEvent;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.scheduler.ContainerSchedulerEventType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a restarted NodeManager from counting the resources of its running containers twice.
 *
 * <p>Hadoop's ContainerScheduler counts a running container when its state is recovered, and looks for room for it again when it is scheduled after that. On a full node
 * the container then waits for resources that it holds itself: its end is not noticed, and if it is an application master its application hangs. So this handler, which
 * receives events before the ContainerScheduler does, takes the first count back. There is no method for that, hence the reflection.
 */
public final class RecoveredContainers implements EventHandler<ContainerSchedulerEvent> {
  private static final Logger LOG = LoggerFactory.getLogger(RecoveredContainers.class);

  private final Context context;
  /** Containers that are counted and not scheduled yet. */
  private final Set<ContainerId> counted = new HashSet<>();
  /** Those that the ContainerScheduler holds for running. */
  private Map<?, ?> running;

  public RecoveredContainers(Context context) {
    this.context = context;
  }

  /** Called after the NodeManager has recovered its containers and before it handles events. */
  public synchronized void load() {
    try {
      Field field = ContainerScheduler.class.getDeclaredField("runningContainers");
      field.setAccessible(true);
      running = (Map<?, ?>) field.get(context.getContainerManager().getContainerScheduler());
      running.keySet().forEach(id -> counted.add((ContainerId) id));
    } catch (ReflectiveOperationException | RuntimeException e) {
      LOG.warn("Giveway: cannot correct the count of recovered containers; if this node is full, some of them are not watched until another one ends", e);
    }
  }

  @Override
  public synchronized void handle(ContainerSchedulerEvent event) {
    Container container = event.getContainer();
    if (container == null || !counted.remove(container.getContainerId()) || event.getType() != ContainerSchedulerEventType.SCHEDULE_CONTAINER) {
      return;
    }
    if (running.remove(container.getContainerId()) != null) {
      ContainerScheduler scheduler = context.getContainerManager().getContainerScheduler();
      ContainersMonitor.decreaseResourceUtilization(scheduler.getContainersMonitor(), scheduler.getCurrentUtilization(), container.getResource());
    }
  }
}
