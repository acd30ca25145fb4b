package giveway.yarn;

import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.nodelabels.CommonNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractLeafQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/** The containers that an application asks for, and what its queue may grant of them. */
final class Asks {
  private static final String PARTITION = CommonNodeLabelsManager.NO_LABEL;

  private Asks() {}

  /** The running attempt of an application in one of Giveway's queues, or null. */
  static SchedulerApplicationAttempt applicationAttempt(AbstractYarnScheduler<?, ?> scheduler, String applicationId) {
    SchedulerApplication<?> application = scheduler.getSchedulerApplications().get(ApplicationId.fromString(applicationId));
    SchedulerApplicationAttempt attempt = application == null ? null : application.getCurrentAppAttempt();
    return attempt == null || attempt.isStopped() || !ClusterStateEncoder.isInGivewayQueue(attempt) ? null : attempt;
  }

  /** True for an application that its queue serves: others wait until more application masters may run, or have left. */
  static boolean isActive(SchedulerApplicationAttempt attempt) {
    return !attempt.isStopped()
        && ClusterStateEncoder.isInGivewayQueue(attempt)
        && ((AbstractLeafQueue) attempt.getQueue()).getOrderingPolicy().getSchedulableEntities().contains(attempt);
  }

  /** The size of the containers that an application asks for first, by priority; null if it asks for none. */
  static Resource firstSize(SchedulerApplicationAttempt attempt) {
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      if (key.getContainerToUpdate() == null && attempt.getOutstandingAsksCount(key) > 0) {
        Resource size = attempt.getPendingAsk(key, ResourceRequest.ANY).getPerAllocationResource();
        // It has none if the last container was granted meanwhile.
        if (size != null && size.getMemorySize() > 0) {
          return size;
        }
      }
    }
    return null;
  }

  /**
   * How many containers of a size the maxima of an application's queue and of the queues above allow, whatever is free in the cluster. Limits of users, and
   * partitions other than the default one, are left out.
   */
  static int headroom(SchedulerApplicationAttempt attempt, Resource size, ResourceCalculator calculator) {
    long fitting = Integer.MAX_VALUE;
    for (CSQueue queue = (CSQueue) attempt.getQueue(); queue != null; queue = queue.getParent()) {
      // A queue that may use the whole cluster is full before the cluster is where containers are reserved in it: reservations count as used.
      boolean isLimited = queue.getAbsoluteMaximumCapacity() < 1 || queue.getQueueResourceUsage().getReserved(PARTITION).getMemorySize() > 0;
      if (isLimited) {
        fitting = Math.min(fitting, room(queue, attempt.getCurrentReservation(), size, calculator));
      }
    }
    return (int) fitting;
  }

  /** @param reserved what counts as used and is for the application itself */
  private static long room(CSQueue queue, Resource reserved, Resource size, ResourceCalculator calculator) {
    Resource left = Resources.subtract(queue.getEffectiveMaxCapacity(PARTITION), queue.getQueueResourceUsage().getUsed(PARTITION));
    Resources.addTo(left, reserved);
    return Math.max(0, calculator.computeAvailableContainers(left, size));
  }

  /**
   * Whether what a container of a size leaves in an application's queue would be granted to that queue again. CapacityScheduler chooses, at each level, the queue
   * that has the least of its capacity in use, of those that ask for more and may have it.
   */
  static boolean queueGetsFreed(SchedulerApplicationAttempt attempt, Resource size, ResourceCalculator calculator, Resource cluster) {
    for (CSQueue queue = (CSQueue) attempt.getQueue(); queue.getParent() != null; queue = queue.getParent()) {
      Resource afterwards = Resources.subtract(queue.getQueueResourceUsage().getUsed(PARTITION), size);
      double own = share(queue, afterwards, calculator, cluster);
      for (CSQueue other : queue.getParent().getChildQueues()) {
        Resource pending = other.getQueueResourceUsage().getPending(PARTITION);
        boolean competes = other != queue && pending.getMemorySize() > 0 && room(other, Resources.none(), size, calculator) > 0;
        if (competes && share(other, other.getQueueResourceUsage().getUsed(PARTITION), calculator, cluster) <= own) {
          return false;
        }
      }
    }
    return true;
  }

  /** How much of its capacity a queue uses. */
  private static double share(CSQueue queue, Resource used, ResourceCalculator calculator, Resource cluster) {
    Resource capacity = queue.getEffectiveCapacity(PARTITION);
    return capacity.getMemorySize() > 0 ? Resources.divide(calculator, cluster, used, capacity) : Double.MAX_VALUE;
  }
}
