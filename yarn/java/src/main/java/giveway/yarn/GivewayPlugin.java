package giveway.yarn;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * State shared by the ordering policies and the application master service processor. Hadoop instantiates those separately, by class name, so the shared state
 * is static: there is one ResourceManager per JVM.
 *
 * <p>The methods are called under Hadoop's locks, on threads whose uncaught exceptions stop the ResourceManager. They only queue a message, and catch and
 * log every {@link Throwable}.
 */
final class GivewayPlugin {
  private static final Logger LOG = LoggerFactory.getLogger(GivewayPlugin.class);
  private static final int LOGGED_FAULTS_MAX = 100;
  private static final Set<String> LOGGED_FAULTS = ConcurrentHashMap.newKeySet();
  private static final AtomicBoolean MISSING_PROCESSOR_LOGGED = new AtomicBoolean();
  /** Final status of applications whose application master has unregistered and that have not left their queue yet. */
  private static final Map<ApplicationId, FinalApplicationStatus> FINAL_STATUS = new ConcurrentHashMap<>();
  private static final Map<ApplicationId, Integer> PROGRESS_PPM = new ConcurrentHashMap<>();

  private static volatile SidecarClient client;
  private static volatile ClusterStateEncoder encoder;
  private static volatile ContainerOrders orders;
  private static volatile TaskProgress taskProgress;

  private GivewayPlugin() {}

  /** Begins anew with the services of an active ResourceManager, which are made when it is started and each time it stands by. It connects once it is active. */
  static synchronized void start(RMContext context) {
    Settings settings = Settings.of(context.getYarnConfiguration());
    if (client != null) {
      client.stop();
    }
    if (taskProgress != null) {
      taskProgress.stop();
    }
    FINAL_STATUS.clear();
    PROGRESS_PPM.clear();
    encoder = new ClusterStateEncoder(context, PROGRESS_PPM, () -> client == null ? null : client.ranking());
    orders = new ContainerOrders(context, encoder, GivewayPlugin::send);
    client = new SidecarClient(settings, encoder, orders, line -> LOG.info("Giveway: {}", line), line -> LOG.warn("Giveway: {}", line));
    taskProgress = new TaskProgress(context, settings.taskProgressMs, client::isConnected, GivewayPlugin::send);
    client.start();
    taskProgress.start();
  }

  /** The current ranking, or null if there is none: then the queue is FIFO. */
  static Ranking ranking() {
    SidecarClient current = client;
    if (current == null) {
      if (MISSING_PROCESSOR_LOGGED.compareAndSet(false, true)) {
        LOG.warn("Giveway: not connected to the sidecar, queues are FIFO: the processor was not started; add {} to "
            + "yarn.resourcemanager.application-master-service.processors", GivewayProcessor.class.getName());
      }
      return null;
    }
    return current.ranking();
  }

  /** The nodes that are refused to applications now; none without a sidecar. */
  static NodeRefusals refusals() {
    SidecarClient current = client;
    return current == null ? NodeRefusals.NONE : current.refusals();
  }

  static void applicationAdded(Object entity) {
    catchAll(() -> {
      SchedulerApplicationAttempt attempt = (SchedulerApplicationAttempt) entity;
      send(encoder.applicationAdded(attempt));
      send(encoder.applicationUpdated(attempt));
    });
  }

  static void applicationRemoved(Object entity) {
    catchAll(() -> {
      ApplicationId id = ((SchedulerApplicationAttempt) entity).getApplicationId();
      PROGRESS_PPM.remove(id);
      orders.applicationRemoved(id);
      encoder.forget(id);
      send(ClusterStateEncoder.applicationRemoved(id, FINAL_STATUS.remove(id)));
    });
  }

  static void demandUpdated(Object entity) {
    catchAll(() -> send(encoder.applicationUpdated((SchedulerApplicationAttempt) entity)));
  }

  static void containerAllocated(Object entity, RMContainer container) {
    catchAll(() -> {
      SchedulerApplicationAttempt attempt = (SchedulerApplicationAttempt) entity;
      if (ClusterStateEncoder.isTemporary(container)) {
        return;
      }
      send(encoder.containerAllocated(attempt, container, encoder.isMaster(attempt, container)));
    });
  }

  static void containerReleased(Object entity, RMContainer container) {
    catchAll(() -> {
      SchedulerApplicationAttempt attempt = (SchedulerApplicationAttempt) entity;
      // A demotion releases a temporary container, and this is the first moment at which the freed resources can be seen.
      orders.reportDemotions(attempt.getApplicationAttemptId());
      released(attempt, container.getContainerId(), container.getContainerExitStatus());
    });
  }

  private static void released(SchedulerApplicationAttempt attempt, ContainerId container, int exitStatus) {
    boolean succeeded = FINAL_STATUS.get(attempt.getApplicationId()) == FinalApplicationStatus.SUCCEEDED;
    send(encoder.containerReleased(attempt, container, exitStatus, succeeded));
  }

  static void applicationMasterRegistered(SchedulerApplicationAttempt attempt) {
    catchAll(() -> orders.applicationMasterRegistered(attempt));
  }

  /** Adds the pending promotions and demotions of an application to its application master's request. */
  static void beforeAllocate(ApplicationAttemptId attempt, AllocateRequest request) {
    catchAll(() -> orders.addUpdates(attempt, request));
  }

  /** Removes what {@link #beforeAllocate} caused from the response, and reports the ends of containers that were demoted. */
  static void afterAllocate(SchedulerApplicationAttempt attempt, AllocateResponse response) {
    catchAll(() -> {
      orders.removeUpdates(attempt.getApplicationAttemptId(), response);
      // The ordering policy is not told of the end of a container that is demoted at that moment.
      for (ContainerStatus status : response.getCompletedContainersStatuses()) {
        if (orders.completed(status.getContainerId())) {
          released(attempt, status.getContainerId(), status.getExitStatus());
        }
      }
    });
  }

  /** @param progress fraction, 0 to 1; values outside are clamped */
  static void progressReported(SchedulerApplicationAttempt attempt, float progress) {
    catchAll(() -> {
      PROGRESS_PPM.put(attempt.getApplicationId(), (int) (Math.max(0, Math.min(1, progress)) * 1_000_000));
      send(encoder.applicationUpdated(attempt));
    });
  }

  static void applicationMasterFinished(SchedulerApplicationAttempt attempt, FinalApplicationStatus status) {
    catchAll(() -> {
      ApplicationId applicationId = attempt.getApplicationId();
      if (status != null) {
        FINAL_STATUS.put(applicationId, status);
      }
    });
  }

  private static void send(byte[] content) {
    SidecarClient current = client;
    if (current != null) {
      current.send(content);
    }
  }

  private static void catchAll(Runnable hook) {
    if (client == null) {
      return;
    }
    try {
      hook.run();
    } catch (Throwable t) {
      logFault(t);
    }
  }

  /** Logs a fault once for each exception class and place where it is thrown. */
  static void logFault(Throwable t) {
    StackTraceElement[] trace = t.getStackTrace();
    String fault = t.getClass().getName() + (trace.length == 0 ? "" : " " + trace[0]);
    if (LOGGED_FAULTS.size() < LOGGED_FAULTS_MAX && LOGGED_FAULTS.add(fault)) {
      LOG.error("Giveway: internal error, ignored; scheduling continues. Further errors of this kind are not logged.", t);
    }
  }
}
