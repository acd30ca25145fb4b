package giveway.yarn;

import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.nodelabels.CommonNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/** The containers that an application asks for, and how many of them its queue may grant. */
final class Asks {
  private Asks() {}

  /** The running attempt of an application in one of Giveway's queues, or null. */
  static SchedulerApplicationAttempt applicationAttempt(AbstractYarnScheduler<?, ?> scheduler, String applicationId) {
    SchedulerApplication<?> application = scheduler.getSchedulerApplications().get(ApplicationId.fromString(applicationId));
    SchedulerApplicationAttempt attempt = application == null ? null : application.getCurrentAppAttempt();
    return attempt == null || attempt.isStopped() || !ClusterStateEncoder.isInGivewayQueue(attempt) ? null : attempt;
  }

  /** The first key, by priority, with outstanding asks; null if there are none. */
  static SchedulerRequestKey first(SchedulerApplicationAttempt attempt) {
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      if (key.getContainerToUpdate() == null && attempt.getOutstandingAsksCount(key) > 0) {
        return key;
      }
    }
    return null;
  }

  /**
   * How many containers of the size that an application asks for next the maxima of its queue and of the queues above allow, whatever is free in the cluster.
   * {@link Integer#MAX_VALUE} if it asks for none. Limits of users, and partitions other than the default one, are left out.
   */
  static int headroom(SchedulerApplicationAttempt attempt, ResourceCalculator calculator) {
    SchedulerRequestKey key = first(attempt);
    if (key == null) {
      return Integer.MAX_VALUE;
    }
    Resource size = attempt.getPendingAsk(key, ResourceRequest.ANY).getPerAllocationResource();
    String partition = CommonNodeLabelsManager.NO_LABEL;
    long fitting = Integer.MAX_VALUE;
    // The root queue is the cluster.
    for (CSQueue queue = (CSQueue) attempt.getQueue(); queue != null && queue.getParent() != null; queue = queue.getParent()) {
      Resource left = Resources.subtract(queue.getEffectiveMaxCapacity(partition), queue.getQueueResourceUsage().getUsed(partition));
      fitting = Math.min(fitting, Math.max(0, calculator.computeAvailableContainers(left, size)));
    }
    return (int) fitting;
  }
}
