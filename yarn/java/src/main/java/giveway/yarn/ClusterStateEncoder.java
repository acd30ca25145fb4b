package giveway.yarn;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.hadoop.ha.HAServiceProtocol.HAServiceState;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractLeafQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;

/** Encodes the ResourceManager's state and its changes as messages to the sidecar. */
final class ClusterStateEncoder implements SidecarClient.StateSource {
  // Request priorities of Hadoop's MapReduce (RMContainerAllocator): failed map 5, reduce 10, map 20.
  static final int FAILED_MAP_PRIORITY = 5;
  private static final int REDUCE_PRIORITY = 10;
  private static final String MAPREDUCE = "MAPREDUCE";
  /** The name of the node attribute that Giveway's container executor sets. */
  private static final String PAUSE_ATTRIBUTE = "giveway-pause-mb";
  /** The name of the node attribute with a node's speed as a factor, for example 1.5; the type of the attribute is STRING. */
  private static final String SPEED_ATTRIBUTE = "giveway-speed";
  private static final int WHOLE_PPM = 1_000_000;
  private static final double SPEED_MAX = 1_000;
  /** Messages are sent up to a hundred times a second; to poll thousands of nodes each time would cost much. */
  private static final long NODE_POLL_MS = 200;
  /** The scheduler recovers the containers of a node some time after the node is running. Until then they are looked for. */
  private static final long RECOVERY_MS = 30_000;
  /** The headroom of an application that no queue's maximum keeps from what it asks for. */
  private static final int NO_LIMIT = Integer.MAX_VALUE;
  private static final int MAP = 0;
  private static final int REDUCE = 1;

  private final RMContext context;
  /** Progress in parts per million, as reported by the application masters. */
  private final Map<ApplicationId, Integer> progressPpm;
  /** The sidecar's ranking, or null if there is none. */
  private final Supplier<Ranking> ranking;
  /** Made when the scheduler is initialized. */
  private volatile NodeSlots nodeSlots;
  /** By application, what its queue would grant it, as the sidecar was last told. */
  private final Map<ApplicationId, Headroom> headroom = new ConcurrentHashMap<>();
  /** Applications that have begun to ask, and for which the nodes have been polled. */
  private final Set<ApplicationId> begun = ConcurrentHashMap.newKeySet();
  /** Nodes that the sidecar was sent as up, with their attributes. Changed by the sending thread only. */
  private final Map<String, List<Long>> sentNodes = new ConcurrentHashMap<>();
  /** Nodes are polled before the next message: a container was allocated on a node that the sidecar was not sent, or an application has begun to ask. */
  private volatile boolean pollNow;
  private long nodesPolledAt;
  /** Nodes that have come, and until when containers that they already had are looked for. */
  private final Map<NodeId, Long> recovering = new HashMap<>();
  /** The containers of these nodes that the sidecar was sent. */
  private final Set<ContainerId> sentRecovered = new HashSet<>();

  ClusterStateEncoder(RMContext context, Map<ApplicationId, Integer> progressPpm, Supplier<Ranking> ranking) {
    this.context = context;
    this.progressPpm = progressPpm;
    this.ranking = ranking;
  }

  @Override
  public boolean isActive() {
    return context.getHAServiceState() == HAServiceState.ACTIVE;
  }

  @Override
  public void encodeSnapshot(Consumer<byte[]> sink) {
    sentNodes.clear();
    headroom.clear();
    recovering.clear();
    sentRecovered.clear();
    pollNodes(sink);
    for (SchedulerApplication<?> application : scheduler().getSchedulerApplications().values()) {
      SchedulerApplicationAttempt attempt = application.getCurrentAppAttempt();
      if (attempt == null || !Asks.isActive(attempt)) {
        continue;
      }
      sink.accept(applicationAdded(attempt));
      for (RMContainer container : attempt.getLiveContainers()) {
        if (!isTemporary(container)) {
          sink.accept(containerAllocated(attempt, container, isMaster(attempt, container)));
        }
      }
      sink.accept(applicationUpdated(attempt));
    }
    // Final status of applications that ended while the sidecar was not connected.
    for (RMApp application : context.getRMApps().values()) {
      if (application.isAppInCompletedStates()) {
        sink.accept(applicationRemoved(application.getApplicationId(), application.getFinalApplicationStatus()));
      }
    }
  }

  /** Polls the nodes from time to time. A listener would have to be registered with the dispatcher while it is running, which is not thread-safe. */
  @Override
  public void encodeNodeChanges(Consumer<byte[]> sink) {
    if (pollNow || Time.monotonicNow() - nodesPolledAt >= NODE_POLL_MS) {
      pollNodes(sink);
      encodeRecoveredContainers(sink);
      encodeHeadroom(sink);
    }
  }

  /**
   * The ordering policy is not told of the containers that a node had before the ResourceManager or its NodeManager was restarted. The sidecar ignores those that
   * it knows.
   */
  private void encodeRecoveredContainers(Consumer<byte[]> sink) {
    recovering.entrySet().removeIf(arrived -> {
      SchedulerNode node = scheduler().getSchedulerNode(arrived.getKey());
      List<RMContainer> containers = node == null ? Collections.emptyList() : node.getCopiedListOfRunningContainers();
      for (RMContainer container : containers) {
        SchedulerApplicationAttempt attempt = scheduler().getApplicationAttempt(container.getApplicationAttemptId());
        boolean isOurs = attempt != null && !attempt.isStopped() && isInGivewayQueue(attempt) && !isTemporary(container);
        if (isOurs && sentRecovered.add(container.getContainerId())) {
          sink.accept(containerAllocated(attempt, container, isMaster(attempt, container)));
        }
      }
      return Time.monotonicNow() > arrived.getValue();
    });
    if (recovering.isEmpty()) {
      sentRecovered.clear();
    }
  }

  private AbstractYarnScheduler<?, ?> scheduler() {
    return (AbstractYarnScheduler<?, ?>) context.getScheduler();
  }

  private void pollNodes(Consumer<byte[]> sink) {
    pollNow = false;
    nodesPolledAt = Time.monotonicNow();
    if (nodeSlots == null) {
      nodeSlots = new NodeSlots(scheduler());
    }
    nodeSlots.lookUpNextAsk(ranking.get());
    Set<String> usableNodes = new HashSet<>();
    for (RMNode node : context.getRMNodes().values()) {
      if (node.getState() != NodeState.RUNNING && node.getState() != NodeState.DECOMMISSIONING) {
        continue;
      }
      SchedulerNode scheduled = scheduler().getSchedulerNode(node.getNodeID());
      if (scheduled == null) {
        continue;
      }
      String name = node.getNodeID().toString();
      usableNodes.add(name);
      // NodeManagers report their attributes some time after they have registered.
      long pauseMb = parseMb(attribute(node, PAUSE_ATTRIBUTE));
      long speedPpm = parseSpeedPpm(attribute(node, SPEED_ATTRIBUTE));
      NodeSlots.Count count = nodeSlots.count(scheduled, pauseMb);
      List<Long> attributes = Arrays.asList((long) count.slots, (long) count.pausable, count.canResume ? 1L : 0L, speedPpm);
      List<Long> sent = sentNodes.put(name, attributes);
      if (sent == null) {
        recovering.put(node.getNodeID(), Time.monotonicNow() + RECOVERY_MS);
      }
      if (!attributes.equals(sent)) {
        Frame frame = Frame.of(Frame.NODE_ADDED).string(name).string(node.getRackName());
        sink.accept(frame.integer(4, count.slots).integer(4, count.pausable).integer(1, count.canResume ? 1 : 0).integer(4, speedPpm).content());
      }
    }
    sentNodes.keySet().removeIf(name -> {
      if (usableNodes.contains(name)) {
        return false;
      }
      sink.accept(Frame.of(Frame.NODE_REMOVED).string(name).content());
      nodeSlots.forget(NodeId.fromString(name));
      return true;
    });
  }

  /** Sends what queues would grant, where it has changed: other applications may have started or ended containers. */
  private void encodeHeadroom(Consumer<byte[]> sink) {
    for (SchedulerApplication<?> application : scheduler().getSchedulerApplications().values()) {
      SchedulerApplicationAttempt attempt = application.getCurrentAppAttempt();
      if (attempt == null || attempt.isStopped() || !isInGivewayQueue(attempt)) {
        continue;
      }
      Headroom sent = headroom.get(attempt.getApplicationId());
      if (sent != null && !sent.isSame(lookUpHeadroom(attempt, outstandingAsks(attempt)))) {
        sink.accept(applicationUpdated(attempt));
      }
    }
  }

  /** What an application's queue would grant it now; looked up by {@link #encodeHeadroom}, and here for an application that has just begun to ask. */
  private Headroom headroom(SchedulerApplicationAttempt attempt, int[] asks, boolean isNew) {
    Headroom known = isNew ? null : headroom.get(attempt.getApplicationId());
    return known != null ? known : lookUpHeadroom(attempt, asks);
  }

  private Headroom lookUpHeadroom(SchedulerApplicationAttempt attempt, int[] asks) {
    Resource size = Asks.firstSize(attempt);
    Headroom found = Headroom.UNLIMITED;
    if (size != null) {
      ResourceCalculator calculator = ((CapacityScheduler) scheduler()).getResourceCalculator();
      int containers = Asks.headroom(attempt, size, calculator);
      // Slots are counted in containers of one size: an application that asks for others would stop too many, or for nothing.
      NodeSlots counted = nodeSlots;
      boolean isCounted = counted == null || size.equals(counted.nextSize());
      boolean getsFreed = isCounted && Asks.queueGetsFreed(attempt, size, calculator, scheduler().getClusterResource());
      found = new Headroom(containers >= asks[MAP] + asks[REDUCE] ? NO_LIMIT : containers, getsFreed);
    }
    headroom.put(attempt.getApplicationId(), found);
    return found;
  }

  /** What an application's queue would grant it. */
  private static final class Headroom {
    static final Headroom UNLIMITED = new Headroom(NO_LIMIT, true);
    /** How many of its asks. */
    final int containers;
    /** Whether also what containers of its queue leave. */
    final boolean getsFreed;

    Headroom(int containers, boolean getsFreed) {
      this.containers = containers;
      this.getsFreed = getsFreed;
    }

    boolean isSame(Headroom other) {
      return containers == other.containers && getsFreed == other.getsFreed;
    }
  }

  /** The value of a node's attribute, or null if it has none of that name. */
  private String attribute(RMNode node, String name) {
    if (context.getNodeAttributesManager() == null) {
      return null;
    }
    for (NodeAttribute attribute : context.getNodeAttributesManager().getAttributesForNode(node.getHostName()).keySet()) {
      if (name.equals(attribute.getAttributeKey().getAttributeName())) {
        return attribute.getAttributeValue();
      }
    }
    return null;
  }

  /** Memory that paused containers may keep on a node; 0 if its NodeManager does not pause containers. */
  private static long parseMb(String value) {
    try {
      return value == null ? 0 : Math.max(0, Long.parseLong(value));
    } catch (NumberFormatException e) {
      return 0;
    }
  }

  /** A node's speed in parts per million; that of an ordinary node without a valid value. */
  static long parseSpeedPpm(String value) {
    try {
      double speed = value == null ? 1 : Double.parseDouble(value);
      return speed > 0 && speed <= SPEED_MAX ? Math.max(1, Math.round(speed * WHOLE_PPM)) : WHOLE_PPM;
    } catch (NumberFormatException e) {
      return WHOLE_PPM;
    }
  }

  byte[] applicationAdded(SchedulerApplicationAttempt attempt) {
    RMApp application = context.getRMApps().get(attempt.getApplicationId());
    int priority = attempt.getPriority() == null ? 0 : attempt.getPriority().getPriority();
    return Frame.of(Frame.APP_ADDED)
        .string(attempt.getApplicationId().toString())
        .string(application == null ? "" : application.getName())
        .string(attempt.getUser())
        .string(attempt.getQueueName())
        .integer(4, priority)
        .integer(1, mayPause(application) ? 1 : 0)
        .content();
  }

  void forget(ApplicationId applicationId) {
    headroom.remove(applicationId);
    begun.remove(applicationId);
  }

  /** @param status the final status, or null if unknown; then the application counts as killed */
  static byte[] applicationRemoved(ApplicationId applicationId, FinalApplicationStatus status) {
    int outcome = status == FinalApplicationStatus.SUCCEEDED ? 0 : status == FinalApplicationStatus.FAILED ? 2 : 1;
    return Frame.of(Frame.APP_REMOVED).string(applicationId.toString()).integer(1, outcome).content();
  }

  byte[] applicationUpdated(SchedulerApplicationAttempt attempt) {
    ApplicationId id = attempt.getApplicationId();
    int[] asks = outstandingAsks(attempt);
    Ranking current = ranking.get();
    boolean asksNow = asks[MAP] + asks[REDUCE] > 0;
    boolean isNew = asksNow && current != null && current.position(id.toString()) == Integer.MAX_VALUE;
    if (!asksNow) {
      begun.remove(id);
    } else if (isNew && begun.add(id)) {
      pollNow = true;
    }
    Headroom now = headroom(attempt, asks, isNew);
    Frame frame = Frame.of(Frame.APP_UPDATED).string(id.toString()).integer(4, progressPpm.getOrDefault(id, 0));
    frame.integer(4, asks[MAP]).integer(4, asks[REDUCE]).integer(4, recoveryAsks(attempt));
    return frame.integer(4, now.containers).integer(1, now.getsFreed ? 1 : 0).content();
  }

  /** MapReduce asks for a map that has to run again, because it failed or its output was lost with a node, at a priority of its own. */
  private int recoveryAsks(SchedulerApplicationAttempt attempt) {
    int asks = 0;
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      boolean failedMap = key.getContainerToUpdate() == null && key.getPriority() != null && key.getPriority().getPriority() == FAILED_MAP_PRIORITY;
      if (failedMap && mayPause(context.getRMApps().get(attempt.getApplicationId()))) {
        asks += Math.max(0, attempt.getOutstandingAsksCount(key));
      }
    }
    return asks;
  }

  /** Only MapReduce is known to endure a pause of its tasks. */
  static boolean mayPause(RMApp application) {
    return application != null && MAPREDUCE.equals(application.getApplicationType());
  }

  /** True for a container that exists only while another one is promoted or demoted. */
  static boolean isTemporary(RMContainer container) {
    SchedulerRequestKey key = container.getAllocatedSchedulerKey();
    return key != null && key.getContainerToUpdate() != null;
  }

  byte[] containerUpdated(ContainerId container, int update) {
    String applicationId = container.getApplicationAttemptId().getApplicationId().toString();
    return Frame.of(Frame.CONTAINER_UPDATED).string(applicationId).string(container.toString()).integer(1, update).content();
  }

  static byte[] containerProgress(ApplicationId applicationId, String container, int progressPpm) {
    return Frame.of(Frame.CONTAINER_PROGRESS).string(applicationId.toString()).string(container).integer(4, progressPpm).content();
  }

  /**
   * Whether a container is that of an application master: marked as such, or, a moment earlier, given to the application attempt as its master, or, before that, the
   * container of an application that waits for its master.
   */
  boolean isMaster(SchedulerApplicationAttempt owner, RMContainer container) {
    if (owner.isWaitingForAMContainer()) {
      return true;
    }
    ApplicationAttemptId id = container.getApplicationAttemptId();
    RMApp application = context.getRMApps().get(id.getApplicationId());
    RMAppAttempt attempt = application == null ? null : application.getRMAppAttempt(id);
    Container master = attempt == null ? null : attempt.getMasterContainer();
    return container.isAMContainer() || (master != null && master.getId().equals(container.getContainerId()));
  }

  byte[] containerAllocated(SchedulerApplicationAttempt attempt, RMContainer container, boolean isMaster) {
    Frame frame = Frame.of(Frame.CONTAINER_ALLOCATED).string(attempt.getApplicationId().toString()).string(container.getContainerId().toString());
    String node = container.getNodeId().toString();
    if (!sentNodes.containsKey(node)) {
      pollNow = true;
    }
    frame.string(node).integer(1, taskKind(attempt, container.getAllocatedSchedulerKey()));
    boolean demoted = container.getExecutionType() == ExecutionType.OPPORTUNISTIC;
    frame.integer(1, isMaster ? 1 : 0).integer(1, demoted ? 1 : 0);
    int[] asks = outstandingAsks(attempt);
    // A reservation is sent as an allocation, because the later allocation is not reported. Until then it is still asked for.
    if (container.getState() == RMContainerState.RESERVED) {
      int kind = taskKind(attempt, container.getReservedSchedulerKey());
      asks[kind] = Math.max(0, asks[kind] - 1);
    }
    return frame.integer(4, asks[MAP]).integer(4, asks[REDUCE]).content();
  }

  /**
   * A container that was killed by its application master counts as succeeded: MapReduce kills containers whose tasks are done and that have not exited yet. For a
   * task that it kills unfinished it asks for a new container, which counts as a new task.
   */
  byte[] containerReleased(SchedulerApplicationAttempt attempt, ContainerId container, int status, boolean applicationSucceeded) {
    boolean succeeded = status == ContainerExitStatus.SUCCESS || status == ContainerExitStatus.KILLED_BY_APPMASTER || applicationSucceeded;
    Frame frame = Frame.of(Frame.CONTAINER_RELEASED).string(attempt.getApplicationId().toString()).string(container.toString());
    return appendOutstandingAsks(frame.integer(1, succeeded ? 1 : 0), attempt).content();
  }

  /** Every message about an application has its current asks, so that the next message corrects one that was lost or reordered. */
  private Frame appendOutstandingAsks(Frame frame, SchedulerApplicationAttempt attempt) {
    int[] asks = outstandingAsks(attempt);
    return frame.integer(4, asks[MAP]).integer(4, asks[REDUCE]);
  }

  private int[] outstandingAsks(SchedulerApplicationAttempt attempt) {
    int[] asks = new int[2];
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      if (key.getContainerToUpdate() != null) {
        continue;
      }
      asks[taskKind(attempt, key)] += Math.max(0, attempt.getOutstandingAsksCount(key));
    }
    // The ask for the application master's own container is not always visible while the application waits for it. It still counts as waiting for a moment
    // after the container was allocated.
    if (asks[MAP] + asks[REDUCE] == 0 && attempt.isWaitingForAMContainer() && attempt.getLiveContainers().isEmpty()) {
      asks[MAP] = 1;
    }
    return asks;
  }

  /** Only MapReduce has reduces; containers of other applications count as maps. */
  private int taskKind(SchedulerApplicationAttempt attempt, SchedulerRequestKey key) {
    if (key == null || key.getPriority() == null || key.getPriority().getPriority() != REDUCE_PRIORITY) {
      return MAP;
    }
    RMApp application = context.getRMApps().get(attempt.getApplicationId());
    return application != null && MAPREDUCE.equals(application.getApplicationType()) ? REDUCE : MAP;
  }

  static boolean isInGivewayQueue(SchedulerApplicationAttempt attempt) {
    return attempt.getQueue() instanceof AbstractLeafQueue
        && ((AbstractLeafQueue) attempt.getQueue()).getOrderingPolicy() instanceof GivewayOrderingPolicy;
  }
}
