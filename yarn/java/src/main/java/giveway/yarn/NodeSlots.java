package giveway.yarn;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * How many containers each node has room for: those that it holds, and those of the size that is asked for next which fit into what is free. Only the
 * ResourceManager can tell, by its own resource calculator, because containers have several sizes and several resources. Used by the sending thread only.
 */
final class NodeSlots {
  /** A node whose free resources have not changed is looked at again after this time: its containers may belong to other queues now. */
  private static final long REFRESH_MS = 5_000;

  /** What the sidecar is told of a node. */
  static final class Count {
    /** Containers that it holds for queues with Giveway's ordering policy, and those that still fit. */
    final int slots;
    /** Containers that may be paused at once. */
    final int pausable;
    /** Whether one that is paused would fit now. */
    final boolean canResume;

    Count(int slots, int pausable, boolean canResume) {
      this.slots = slots;
      this.pausable = pausable;
      this.canResume = canResume;
    }
  }

  /** The containers that an application waits for next. */
  private static final class Ask {
    final Resource size;
    final int position;

    Ask(Resource size, int position) {
      this.size = size;
      this.position = position;
    }
  }

  /** A count and what it was computed from. */
  private static final class Known {
    Resource free;
    Resource size;
    int containers;
    boolean isReserved;
    long pauseMb;
    long until;
    Count count;
  }

  private final AbstractYarnScheduler<?, ?> scheduler;
  private final ResourceCalculator calculator;
  private final Map<NodeId, Known> nodes = new HashMap<>();
  private volatile Ask next;
  private Ranking ranking = Ranking.EMPTY;

  NodeSlots(AbstractYarnScheduler<?, ?> scheduler) {
    this.scheduler = scheduler;
    calculator = ((CapacityScheduler) scheduler).getResourceCalculator();
    next = new Ask(scheduler.getMinimumResourceCapability(), Integer.MAX_VALUE);
  }

  /** Looks up what is asked for next; the last size stays while nothing is. To be called before {@link #count}. */
  void lookUpNextAsk(Ranking current) {
    ranking = current == null ? Ranking.EMPTY : current;
    next = firstInRanking();
    // Applications that have just begun to ask are not ranked yet. Their containers may fit where larger ones do not, and then nothing has to be paused for them.
    for (SchedulerApplication<?> application : scheduler.getSchedulerApplications().values()) {
      SchedulerApplicationAttempt attempt = application.getCurrentAppAttempt();
      if (attempt == null || ranking.position(attempt.getApplicationId().toString()) != Integer.MAX_VALUE || !Asks.isActive(attempt)) {
        continue;
      }
      Resource size = Asks.firstSize(attempt);
      boolean isSmaller = size != null && (next.position == Integer.MAX_VALUE || Resources.fitsIn(size, next.size));
      if (isSmaller && Asks.headroom(attempt, size, calculator) > 0) {
        next = new Ask(size, 0);
      }
    }
  }

  private Ask firstInRanking() {
    Ask first = null;
    for (String id : ranking.applicationIds()) {
      SchedulerApplicationAttempt attempt = Asks.applicationAttempt(scheduler, id);
      Resource size = attempt == null ? null : Asks.firstSize(attempt);
      if (size == null) {
        continue;
      }
      Ask ask = new Ask(size, ranking.position(id));
      first = first == null ? ask : first;
      // An application whose queue is at its maximum cannot use what is free.
      if (Asks.headroom(attempt, size, calculator) > 0) {
        return ask;
      }
    }
    return first != null ? first : new Ask(next.size, Integer.MAX_VALUE);
  }

  void forget(NodeId node) {
    nodes.remove(node);
  }

  /** The size of the containers that slots are counted in. Used by other threads, too. */
  Resource nextSize() {
    return next.size;
  }

  /** @param pauseMb memory that paused containers may keep */
  Count count(SchedulerNode node, long pauseMb) {
    Known known = nodes.computeIfAbsent(node.getNodeID(), id -> new Known());
    RMContainer reserved = node.getReservedContainer();
    Resource free;
    List<RMContainer> containers;
    synchronized (node) {
      free = Resource.newInstance(node.getUnallocatedResource());
      containers = node.getNumContainers() == known.containers && free.equals(known.free) ? null : node.getCopiedListOfRunningContainers();
    }
    long now = Time.monotonicNow();
    boolean same = containers == null && pauseMb == known.pauseMb && Objects.equals(next.size, known.size) && (reserved != null) == known.isReserved;
    if (!same || now >= known.until) {
      containers = containers == null ? node.getCopiedListOfRunningContainers() : containers;
      known.count = countAnew(containers, free, reserved, pauseMb);
      known.free = free;
      known.size = next.size;
      known.containers = containers.size();
      known.isReserved = reserved != null;
      known.pauseMb = pauseMb;
      known.until = now + REFRESH_MS;
    }
    return known.count;
  }

  private Count countAnew(List<RMContainer> containers, Resource free, RMContainer reserved, long pauseMb) {
    int held = 0;
    boolean canResume = false;
    int paused = 0;
    long pausedMb = 0;
    long largestMb = Math.max(1, scheduler.getMinimumResourceCapability().getMemorySize());
    Resource size = next.size;
    int position = next.position;
    for (RMContainer container : containers) {
      SchedulerApplicationAttempt attempt = scheduler.getApplicationAttempt(container.getApplicationAttemptId());
      if (attempt == null || !ClusterStateEncoder.isInGivewayQueue(attempt)) {
        continue;
      }
      Resource allocated = container.getAllocatedResource();
      if (container.getExecutionType() != ExecutionType.OPPORTUNISTIC) {
        held++;
        largestMb = Math.max(largestMb, allocated.getMemorySize());
        continue;
      }
      paused++;
      pausedMb += allocated.getMemorySize();
      canResume |= reserved == null && calculator.computeAvailableContainers(free, allocated) > 0;
      int ofPaused = ranking.position(attempt.getApplicationId().toString());
      // If it ranks first, what is free is for its resumption.
      if (ofPaused < position || position == Integer.MAX_VALUE) {
        size = allocated;
        position = ofPaused;
      }
    }
    // What is free on a node with a reservation is granted to nobody else. The reservation was sent as an allocation.
    long fitting = reserved == null ? Math.max(0, calculator.computeAvailableContainers(free, size)) : 0;
    if (reserved != null) {
      SchedulerApplicationAttempt attempt = scheduler.getApplicationAttempt(reserved.getApplicationAttemptId());
      held += attempt != null && ClusterStateEncoder.isInGivewayQueue(attempt) ? 1 : 0;
    }
    long pausable = paused + Math.max(0, pauseMb - pausedMb) / largestMb;
    return new Count((int) Math.min(held + fitting, Short.MAX_VALUE), (int) Math.min(pausable, Integer.MAX_VALUE), canResume);
  }
}
