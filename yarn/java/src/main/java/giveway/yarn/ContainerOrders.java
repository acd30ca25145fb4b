package giveway.yarn;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.UpdateContainerError;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.api.records.UpdatedContainer;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.ContainerPreemptEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEventType;
import org.apache.hadoop.yarn.server.scheduler.OpportunisticContainerAllocator;
import org.apache.hadoop.yarn.server.scheduler.OpportunisticContainerContext;

/**
 * Carries out the sidecar's orders to pause, resume and kill containers.
 *
 * <p>A pause is a demotion to execution type OPPORTUNISTIC, and only the application master can request that. So the request is added to its next heartbeat.
 * For each container that was ever ordered to be paused, the wanted execution type is kept, and every heartbeat of its application master requests what is
 * still missing. While the sidecar is not connected the wanted type of every container is GUARANTEED.
 */
final class ContainerOrders implements SidecarClient.OrderHandler {
  // Values of the field `update` of CONTAINER_UPDATED.
  private static final int DEMOTED = 0;
  private static final int PROMOTED = 1;
  private static final int NOT_DEMOTED = 2;
  /** Time after the registration of an application master within which its containers' NodeManagers should be back. */
  private static final long RECOVERY_MS = 120_000;
  /** How often they are looked for: all containers of the application have to be visited. */
  private static final long RECOVERY_POLL_MS = 1_000;

  /** The wanted state of a container that was ordered to be paused at least once. */
  private static final class Wanted {
    volatile ExecutionType type = ExecutionType.GUARANTEED;
    /** The type that the sidecar was last sent. */
    volatile ExecutionType reported;
    /** A promotion was requested and is not granted yet. */
    volatile boolean promoting;

    Wanted(ExecutionType reported) {
      this.reported = reported;
    }
  }

  private final RMContext context;
  private final ClusterStateEncoder encoder;
  private final Consumer<byte[]> send;
  private final SilentNodes silentNodes;
  private final Map<ApplicationAttemptId, Map<ContainerId, Wanted>> attempts = new ConcurrentHashMap<>();
  /** Applications whose containers may have been demoted before the ResourceManager was restarted. */
  private final Map<ApplicationAttemptId, Recovery> recovering = new ConcurrentHashMap<>();

  /** When such containers are looked for next, and until when. */
  private static final class Recovery {
    final long until = Time.monotonicNow() + RECOVERY_MS;
    volatile long next;
  }

  ContainerOrders(RMContext context, ClusterStateEncoder encoder, Consumer<byte[]> send) {
    this.context = context;
    this.encoder = encoder;
    this.send = send;
    silentNodes = new SilentNodes(context);
  }

  @Override
  public void onOrder(char type, String containerId) {
    try {
      ContainerId id = ContainerId.fromString(containerId);
      RMContainer container = scheduler().getRMContainer(id);
      SchedulerApplicationAttempt application = scheduler().getApplicationAttempt(id.getApplicationAttemptId());
      if (container == null || application == null || container.isAMContainer() || !ClusterStateEncoder.isInGivewayQueue(application)) {
        if (type == Frame.PAUSE) {
          send.accept(encoder.containerUpdated(id, NOT_DEMOTED));
        }
        return;
      }
      if (type == Frame.KILL) {
        kill(container);
        return;
      }
      wanted(id).type = type == Frame.PAUSE ? ExecutionType.OPPORTUNISTIC : ExecutionType.GUARANTEED;
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
    }
  }

  @Override
  public void onTick(long nodeExpiryMs) {
    try {
      silentNodes.expire(nodeExpiryMs);
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
    }
  }

  @Override
  public void onDisconnected() {
    silentNodes.reset();
    attempts.values().forEach(containers -> containers.values().forEach(wanted -> wanted.type = ExecutionType.GUARANTEED));
  }

  private void kill(RMContainer container) {
    ApplicationAttemptId attempt = container.getContainerId().getApplicationAttemptId();
    // Without lazy preemption the container is killed at once, with exit status PREEMPTED; the application master does not count that as a failure.
    dispatch(new ContainerPreemptEvent(attempt, container, SchedulerEventType.MARK_CONTAINER_FOR_KILLABLE));
  }

  @SuppressWarnings("unchecked")
  private void dispatch(ContainerPreemptEvent event) {
    context.getDispatcher().getEventHandler().handle(event);
  }

  private Wanted wanted(ContainerId id) {
    return containers(id.getApplicationAttemptId()).computeIfAbsent(id, container -> new Wanted(ExecutionType.GUARANTEED));
  }

  private Map<ContainerId, Wanted> containers(ApplicationAttemptId attempt) {
    return attempts.computeIfAbsent(attempt, id -> new ConcurrentHashMap<>());
  }

  /** Prepares an application for demotions. */
  void applicationMasterRegistered(SchedulerApplicationAttempt attempt) {
    if (attempt.getOpportunisticContainerContext() != null) {
      // Opportunistic containers are allocated in this cluster, so an opportunistic container need not be one that was demoted.
      return;
    }
    OpportunisticContainerContext opportunistic = new OpportunisticContainerContext();
    opportunistic.setContainerIdGenerator(new OpportunisticContainerAllocator.ContainerIdGenerator() {
      @Override
      public long generateContainerId() {
        return attempt.getNewContainerId();
      }
    });
    attempt.setOpportunisticContainerContext(opportunistic);
    recovering.put(attempt.getApplicationAttemptId(), new Recovery());
  }

  /**
   * Finds containers that were demoted before the ResourceManager was restarted. It learns of them when their NodeManagers register again, which may be after the
   * application master.
   */
  private void findDemoted(ApplicationAttemptId attempt) {
    Recovery recovery = recovering.get(attempt);
    long now = Time.monotonicNow();
    if (recovery == null || now < recovery.next) {
      return;
    }
    recovery.next = now + RECOVERY_POLL_MS;
    if (now > recovery.until) {
      recovering.remove(attempt);
    }
    SchedulerApplicationAttempt application = scheduler().getApplicationAttempt(attempt);
    if (application == null) {
      return;
    }
    for (RMContainer container : application.getLiveContainers()) {
      if (container.getExecutionType() == ExecutionType.OPPORTUNISTIC) {
        containers(attempt).computeIfAbsent(container.getContainerId(), id -> new Wanted(ExecutionType.OPPORTUNISTIC));
      }
    }
  }

  /** Adds the requests that are missing to an application master's request. */
  void addUpdates(ApplicationAttemptId attempt, AllocateRequest request) {
    findDemoted(attempt);
    Map<ContainerId, Wanted> containers = attempts.get(attempt);
    if (containers == null || containers.isEmpty()) {
      return;
    }
    Set<ContainerId> own = new HashSet<>();
    List<UpdateContainerRequest> updates = new ArrayList<>();
    if (request.getUpdateRequests() != null) {
      updates.addAll(request.getUpdateRequests());
      updates.forEach(update -> own.add(update.getContainerId()));
    }
    int before = updates.size();
    containers.forEach((id, wanted) -> {
      RMContainer container = scheduler().getRMContainer(id);
      if (container == null || own.contains(id) || container.getExecutionType() == wanted.type || wanted.promoting) {
        return;
      }
      boolean promote = wanted.type == ExecutionType.GUARANTEED;
      wanted.promoting = promote;
      ContainerUpdateType type = promote ? ContainerUpdateType.PROMOTE_EXECUTION_TYPE : ContainerUpdateType.DEMOTE_EXECUTION_TYPE;
      updates.add(UpdateContainerRequest.newInstance(container.getContainer().getVersion(), id, type, null, wanted.type));
    });
    if (updates.size() > before) {
      request.setUpdateRequests(updates);
    }
  }

  /** Removes the results of {@link #addUpdates} from the response, and reports them to the sidecar. */
  void removeUpdates(ApplicationAttemptId attempt, AllocateResponse response) {
    Map<ContainerId, Wanted> containers = attempts.get(attempt);
    if (containers == null) {
      return;
    }
    List<UpdatedContainer> updated = new ArrayList<>(response.getUpdatedContainers());
    if (updated.removeIf(update -> containers.containsKey(update.getContainer().getId()))) {
      response.setUpdatedContainers(updated);
    }
    List<UpdateContainerError> errors = new ArrayList<>(response.getUpdateErrors());
    if (errors.removeIf(error -> failed(containers, error))) {
      response.setUpdateErrors(errors);
    }
    report(containers);
  }

  /** Returns true if the error is about one of our requests. */
  private boolean failed(Map<ContainerId, Wanted> containers, UpdateContainerError error) {
    ContainerId id = error.getUpdateContainerRequest().getContainerId();
    Wanted wanted = containers.get(id);
    if (wanted == null) {
      return false;
    }
    // A failed promotion is requested again with the next heartbeat.
    wanted.promoting = false;
    if (error.getUpdateContainerRequest().getContainerUpdateType() == ContainerUpdateType.DEMOTE_EXECUTION_TYPE) {
      wanted.type = ExecutionType.GUARANTEED;
      send.accept(encoder.containerUpdated(id, NOT_DEMOTED));
    }
    return true;
  }

  void reportDemotions(ApplicationAttemptId attempt) {
    Map<ContainerId, Wanted> containers = attempts.get(attempt);
    if (containers != null) {
      report(containers);
    }
  }

  private void report(Map<ContainerId, Wanted> containers) {
    containers.forEach((id, wanted) -> {
      RMContainer container = scheduler().getRMContainer(id);
      if (container == null) {
        return;
      }
      ExecutionType type = container.getExecutionType();
      synchronized (wanted) {
        if (type != wanted.reported) {
          wanted.reported = type;
          wanted.promoting = false;
          send.accept(encoder.containerUpdated(id, type == ExecutionType.OPPORTUNISTIC ? DEMOTED : PROMOTED));
        }
      }
    });
  }

  /** The container ended. Returns true if it was ordered to be paused at least once. */
  boolean completed(ContainerId id) {
    Map<ContainerId, Wanted> containers = attempts.get(id.getApplicationAttemptId());
    return containers != null && containers.remove(id) != null;
  }

  void applicationRemoved(ApplicationId id) {
    attempts.keySet().removeIf(attempt -> attempt.getApplicationId().equals(id));
    recovering.keySet().removeIf(attempt -> attempt.getApplicationId().equals(id));
  }

  private AbstractYarnScheduler<?, ?> scheduler() {
    return (AbstractYarnScheduler<?, ?>) context.getScheduler();
  }
}
