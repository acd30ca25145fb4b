package giveway.yarn;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;

/**
 * Reads the progress of each running task from the web services of MapReduce application masters. In its heartbeats an application master reports one value for
 * the whole job, which does not tell how far a single reduce is.
 *
 * <p>One daemon thread, off the scheduling path. An application master that does not answer, or that cannot be reached from here, only means that its tasks
 * count as equally far.
 */
final class TaskProgress {
  private static final int TIMEOUT_MS = 1_000;
  /** Each running task is one request; those of large clusters are spread over several rounds. */
  static final int REQUESTS_PER_ROUND_MAX = 200;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final RMContext context;
  private final int intervalMs;
  private final BooleanSupplier isConnected;
  private final Consumer<byte[]> sink;
  private final Thread thread;
  private volatile boolean stopped;
  /** The application with which the last round ended; the next round begins after it. */
  private ApplicationId last;

  /** @param intervalMs pause between two rounds; 0 for none at all */
  TaskProgress(RMContext context, int intervalMs, BooleanSupplier isConnected, Consumer<byte[]> sink) {
    this.context = context;
    this.intervalMs = intervalMs;
    this.isConnected = isConnected;
    this.sink = sink;
    thread = new Thread(this::run, "giveway-task-progress");
    thread.setDaemon(true);
  }

  void start() {
    if (intervalMs > 0) {
      thread.start();
    }
  }

  void stop() {
    stopped = true;
    thread.interrupt();
  }

  private void run() {
    while (!stopped) {
      try {
        Thread.sleep(intervalMs);
        if (isConnected.getAsBoolean()) {
          runRound();
        }
      } catch (InterruptedException e) {
        return;
      } catch (Throwable t) {
        GivewayPlugin.logFault(t);
      }
    }
  }

  private void runRound() {
    List<ApplicationId> applications = applications();
    int first = 0;
    while (last != null && first < applications.size() && applications.get(first).compareTo(last) <= 0) {
      first++;
    }
    int requests = 0;
    for (int i = 0; i < applications.size() && requests < REQUESTS_PER_ROUND_MAX && !stopped; i++) {
      ApplicationId id = applications.get((first + i) % applications.size());
      last = id;
      try {
        requests += readTasks(id);
      } catch (IOException e) {
        // It has just ended, is too busy, or requires a login.
        requests++;
      }
    }
  }

  /** The running MapReduce applications in Giveway's queues. */
  private List<ApplicationId> applications() {
    List<ApplicationId> ids = new ArrayList<>();
    AbstractYarnScheduler<?, ?> scheduler = (AbstractYarnScheduler<?, ?>) context.getScheduler();
    for (SchedulerApplication<?> application : scheduler.getSchedulerApplications().values()) {
      SchedulerApplicationAttempt attempt = application.getCurrentAppAttempt();
      // With one container there is only the application master.
      if (attempt != null && !attempt.isStopped() && attempt.getLiveContainers().size() > 1 && ClusterStateEncoder.isInGivewayQueue(attempt)
          && ClusterStateEncoder.mayPause(context.getRMApps().get(attempt.getApplicationId()))) {
        ids.add(attempt.getApplicationId());
      }
    }
    ids.sort(Comparator.naturalOrder());
    return ids;
  }

  /** Sends the progress of an application's running tasks. Returns the number of requests that it took. */
  private int readTasks(ApplicationId id) throws IOException {
    RMApp application = context.getRMApps().get(id);
    RMAppAttempt attempt = application == null ? null : application.getCurrentAppAttempt();
    String address = attempt == null ? null : attempt.getOriginalTrackingUrl();
    if (address == null || address.isEmpty() || "N/A".equals(address)) {
      return 0;
    }
    String job = id.toString().replace(ApplicationId.appIdStrPrefix, "job");
    String tasks = (address.contains("://") ? address : "http://" + address) + "/ws/v1/mapreduce/jobs/" + job + "/tasks";
    int requests = 1;
    for (String task : runningTasks(get(tasks))) {
      if (stopped || requests >= REQUESTS_PER_ROUND_MAX) {
        break;
      }
      requests++;
      sendProgress(get(tasks + "/" + task + "/attempts"), (container, ppm) -> sink.accept(ClusterStateEncoder.containerProgress(id, container, ppm)));
    }
    return requests;
  }

  /** The ids of running tasks in the answer to a request for all tasks of a job. */
  static List<String> runningTasks(JsonNode answer) {
    List<String> ids = new ArrayList<>();
    for (JsonNode task : elements(answer.path("tasks").path("task"))) {
      if ("RUNNING".equals(task.path("state").asText())) {
        ids.add(task.path("id").asText());
      }
    }
    return ids;
  }

  /** Receives the progress of a container's task in parts per million. */
  interface ProgressSink {
    void accept(String container, int progressPpm);
  }

  /** Passes on what is running in the answer to a request for all attempts of a task. */
  static void sendProgress(JsonNode answer, ProgressSink to) {
    for (JsonNode attempt : elements(answer.path("taskAttempts").path("taskAttempt"))) {
      String container = attempt.path("assignedContainerId").asText("");
      if ("RUNNING".equals(attempt.path("state").asText()) && !container.isEmpty()) {
        double percent = Math.max(0, Math.min(100, attempt.path("progress").asDouble()));
        to.accept(container, (int) (percent * 10_000));
      }
    }
  }

  /** A list of one element may be written without brackets. */
  private static Iterable<JsonNode> elements(JsonNode list) {
    return list.isObject() ? Collections.singletonList(list) : list;
  }

  private static JsonNode get(String url) throws IOException {
    HttpURLConnection connection = (HttpURLConnection) new URL(url).openConnection();
    connection.setConnectTimeout(TIMEOUT_MS);
    connection.setReadTimeout(TIMEOUT_MS);
    connection.setRequestProperty("Accept", "application/json");
    try (InputStream in = connection.getInputStream()) {
      JsonNode answer = JSON.readTree(in);
      return answer == null ? JSON.createObjectNode() : answer;
    } finally {
      connection.disconnect();
    }
  }
}
