package giveway.yarn;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractLeafQueue;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** What the ResourceManager knows, in the words of the wire. */
final class Cluster implements Bridge.Source {
  // The priorities at which Hadoop's MapReduce asks for containers (RMContainerAllocator): a map that failed 5, a reduce 10, a map 20.
  private static final int REDUCE_PRIORITY = 10;
  private static final String MAPREDUCE = "MAPREDUCE";
  private static final int MAP = 0;
  private static final int REDUCE = 1;

  private final RMContext context;
  private final Map<ApplicationId, Integer> progress;
  private final Set<String> toldNodes = new HashSet<>();

  Cluster(RMContext context, Map<ApplicationId, Integer> progress) {
    this.context = context;
    this.progress = progress;
  }

  @Override
  public void tellAll(Consumer<byte[]> to) {
    toldNodes.clear();
    tellNodes(to);
    AbstractYarnScheduler<?, ?> scheduler = (AbstractYarnScheduler<?, ?>) context.getScheduler();
    for (SchedulerApplication<?> application : scheduler.getSchedulerApplications().values()) {
      SchedulerApplicationAttempt app = application.getCurrentAppAttempt();
      if (app == null || app.isStopped() || !isOurs(app)) {
        continue;
      }
      to.accept(application(app));
      for (RMContainer container : app.getLiveContainers()) {
        if (!container.isAMContainer()) {
          to.accept(started(app, container));
        }
      }
      to.accept(report(app));
    }
    // How those ended that the sidecar may still take for active.
    for (RMApp application : context.getRMApps().values()) {
      if (application.isAppInCompletedStates()) {
        to.accept(gone(application.getApplicationId(), application.getFinalApplicationStatus()));
      }
    }
  }

  /** Nodes are looked at instead of listened for: a listener would have to be put into the dispatcher while it runs. */
  @Override
  public void tellNodes(Consumer<byte[]> to) {
    long slotMb = context.getScheduler().getMinimumResourceCapability().getMemorySize();
    Set<String> up = new HashSet<>();
    for (RMNode node : context.getRMNodes().values()) {
      if (node.getState() != NodeState.RUNNING && node.getState() != NodeState.DECOMMISSIONING) {
        continue;
      }
      String name = node.getNodeID().toString();
      up.add(name);
      if (toldNodes.add(name)) {
        long memoryMb = node.getTotalCapability().getMemorySize();
        to.accept(Frame.of('N').text(name).text(node.getRackName()).number(8, memoryMb).number(8, slotMb).content());
      }
    }
    toldNodes.removeIf(name -> {
      if (up.contains(name)) {
        return false;
      }
      to.accept(Frame.of('n').text(name).content());
      return true;
    });
  }

  byte[] application(SchedulerApplicationAttempt app) {
    RMApp known = context.getRMApps().get(app.getApplicationId());
    int priority = app.getPriority() == null ? 0 : app.getPriority().getPriority();
    return Frame.of('A')
        .text(app.getApplicationId().toString())
        .text(known == null ? "" : known.getName())
        .text(app.getUser())
        .text(app.getQueueName())
        .number(4, priority)
        .content();
  }

  static byte[] gone(ApplicationId application, FinalApplicationStatus status) {
    int how = status == FinalApplicationStatus.SUCCEEDED ? 0 : status == FinalApplicationStatus.FAILED ? 2 : 1;
    return Frame.of('a').text(application.toString()).number(1, how).content();
  }

  byte[] report(SchedulerApplicationAttempt app) {
    Frame frame = Frame.of('Q').text(app.getApplicationId().toString());
    frame.number(4, progress.getOrDefault(app.getApplicationId(), 0));
    return asks(frame, app).content();
  }

  byte[] started(SchedulerApplicationAttempt app, RMContainer container) {
    Frame frame = Frame.of('C').text(app.getApplicationId().toString()).text(container.getContainerId().toString());
    frame.text(container.getNodeId().toString()).number(1, kind(app, container.getAllocatedSchedulerKey()));
    return asks(frame, app).content();
  }

  /**
   * A container that its application master stopped counts as done: MapReduce stops those whose tasks are done and that have not left yet. A task that it
   * gives up is asked for again, and is a new task then.
   */
  byte[] ended(SchedulerApplicationAttempt app, RMContainer container, boolean appSucceeded) {
    int status = container.getContainerExitStatus();
    boolean done = status == ContainerExitStatus.SUCCESS || status == ContainerExitStatus.KILLED_BY_APPMASTER || appSucceeded;
    Frame frame = Frame.of('c').text(app.getApplicationId().toString()).text(container.getContainerId().toString());
    return asks(frame.number(1, done ? 1 : 0), app).content();
  }

  /** What it asks for now. It goes with all news of an application, so whatever crosses on the way is soon put right. */
  private Frame asks(Frame frame, SchedulerApplicationAttempt app) {
    int[] asks = new int[2];
    for (SchedulerRequestKey key : app.getSchedulerKeys()) {
      asks[kind(app, key)] += Math.max(0, app.getOutstandingAsksCount(key));
    }
    // An application whose master has no container yet is seen to ask for one only some of the time.
    if (asks[MAP] + asks[REDUCE] == 0 && app.isWaitingForAMContainer()) {
      asks[MAP] = 1;
    }
    return frame.number(4, asks[MAP]).number(4, asks[REDUCE]);
  }

  /** Only MapReduce has reduces; what other applications run counts as maps. */
  private int kind(SchedulerApplicationAttempt app, SchedulerRequestKey key) {
    if (key == null || key.getPriority() == null || key.getPriority().getPriority() != REDUCE_PRIORITY) {
      return MAP;
    }
    RMApp known = context.getRMApps().get(app.getApplicationId());
    return known != null && MAPREDUCE.equals(known.getApplicationType()) ? REDUCE : MAP;
  }

  private static boolean isOurs(SchedulerApplicationAttempt app) {
    return app.getQueue() instanceof AbstractLeafQueue
        && ((AbstractLeafQueue) app.getQueue()).getOrderingPolicy() instanceof GivewayOrderingPolicy;
  }
}
