package giveway.yarn;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where the hooks meet the bridge. Hadoop makes the hooks, each by itself and by class name, so what they share is static: there is one
 * ResourceManager to a JVM.
 *
 * <p>Every method here is called under Hadoop's locks, on threads whose death is the ResourceManager's: it leaves a few bytes in a queue, and
 * whatever goes wrong ends here with one line in the log.
 */
final class Giveway {
  private static final Logger LOG = LoggerFactory.getLogger(Giveway.class);
  private static final AtomicBoolean TROUBLE_SAID = new AtomicBoolean();
  private static final AtomicBoolean UNUSED_SAID = new AtomicBoolean();
  private static final Map<ApplicationId, FinalApplicationStatus> ENDINGS = new ConcurrentHashMap<>();
  private static final Map<ApplicationId, Integer> PROGRESS = new ConcurrentHashMap<>();

  private static volatile Bridge bridge;
  private static volatile Cluster cluster;

  private Giveway() {}

  /** The ResourceManager became active: from now on there is something to tell. */
  static synchronized void begin(RMContext context) {
    if (bridge != null) {
      bridge.stop();
    }
    ENDINGS.clear();
    PROGRESS.clear();
    cluster = new Cluster(context, PROGRESS);
    bridge = new Bridge(Settings.of(context.getYarnConfiguration()), cluster, line -> LOG.warn("Giveway: {}", line));
    bridge.start();
  }

  static Ranking ranking() {
    Bridge now = bridge;
    if (now == null) {
      if (UNUSED_SAID.compareAndSet(false, true)) {
        LOG.warn("Giveway: the processor has not been started, so queues are FIFO; is {} in yarn.resourcemanager.application-master-service.processors?",
            GivewayProcessor.class.getName());
      }
      return null;
    }
    return now.ranking();
  }

  static void added(Object entity) {
    quietly(() -> {
      SchedulerApplicationAttempt app = (SchedulerApplicationAttempt) entity;
      tell(cluster.application(app));
      tell(cluster.report(app));
    });
  }

  static void removed(Object entity) {
    quietly(() -> {
      SchedulerApplicationAttempt app = (SchedulerApplicationAttempt) entity;
      ApplicationId id = app.getApplicationId();
      PROGRESS.remove(id);
      tell(Cluster.gone(id, ENDINGS.remove(id)));
    });
  }

  static void asked(Object entity) {
    quietly(() -> tell(cluster.report((SchedulerApplicationAttempt) entity)));
  }

  static void started(Object entity, RMContainer container) {
    quietly(() -> {
      SchedulerApplicationAttempt app = (SchedulerApplicationAttempt) entity;
      // The application master runs none of its job's tasks; what is asked for changes all the same.
      boolean master = container.isAMContainer() || app.isWaitingForAMContainer();
      tell(master ? cluster.report(app) : cluster.started(app, container));
    });
  }

  static void ended(Object entity, RMContainer container) {
    quietly(() -> {
      SchedulerApplicationAttempt app = (SchedulerApplicationAttempt) entity;
      boolean succeeded = ENDINGS.get(app.getApplicationId()) == FinalApplicationStatus.SUCCEEDED;
      tell(cluster.ended(app, container, succeeded));
    });
  }

  static void progressed(SchedulerApplicationAttempt app, float progress) {
    quietly(() -> {
      PROGRESS.put(app.getApplicationId(), (int) (Math.max(0, Math.min(1, progress)) * 1_000_000));
      tell(cluster.report(app));
    });
  }

  static void ending(ApplicationId application, FinalApplicationStatus status) {
    quietly(() -> {
      if (status != null) {
        ENDINGS.put(application, status);
      }
    });
  }

  private static void tell(byte[] content) {
    Bridge now = bridge;
    if (now != null) {
      now.tell(content);
    }
  }

  private static void quietly(Runnable what) {
    if (bridge == null) {
      return;
    }
    try {
      what.run();
    } catch (Throwable t) {
      trouble(t);
    }
  }

  static void trouble(Throwable t) {
    if (TROUBLE_SAID.compareAndSet(false, true)) {
      LOG.error("Giveway: something went wrong and was left out; queues go on. It is said once.", t);
    }
  }
}
