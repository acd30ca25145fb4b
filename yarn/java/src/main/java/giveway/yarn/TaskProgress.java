package giveway.yarn;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.MalformedURLException;
import java.net.URL;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.hadoop.util.Time;
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
 * <p>One daemon thread, off the scheduling path. The tasks of an application master that never answers, or that cannot be reached from here, count as equally
 * far; if it stops answering, what it reported last still holds.
 */
final class TaskProgress {
  private static final int TIMEOUT_MS = 1_000;
  /** Enough for ten thousand tasks; those of larger jobs count as equally far. */
  private static final int ANSWER_BYTES_MAX = 4 << 20;
  /** Each running task is one request; those of large clusters are spread over several rounds. */
  private static final int REQUESTS_PER_ROUND_MAX = 200;
  private static final int FAILURES_PER_ROUND_MAX = 5;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final RMContext context;
  private final int intervalMs;
  private final BooleanSupplier isConnected;
  private final Consumer<byte[]> sink;
  private final Thread thread;
  private volatile boolean stopped;
  /** The application with which the last round ended; the next round begins after it. */
  private ApplicationId last;
  private long round;

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

  /** Reads one application after the other until the requests of this round are used up; the next round goes on from there. */
  private void runRound() {
    List<ApplicationId> applications = applications();
    int first = 0;
    while (last != null && first < applications.size() && applications.get(first).compareTo(last) <= 0) {
      first++;
    }
    Budget budget = new Budget();
    for (int i = 0; i < applications.size() && budget.hasLeft() && !stopped; i++) {
      last = applications.get((first + i) % applications.size());
      try {
        readTasks(last, budget);
      } catch (IOException e) {
        // It has just ended, is too busy, or requires a login.
        budget.failures++;
      }
    }
    round++;
  }

  /** What one round may cost. */
  private static final class Budget {
    int requests;
    int failures;

    boolean hasLeft() {
      return requests < REQUESTS_PER_ROUND_MAX && failures < FAILURES_PER_ROUND_MAX;
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

  /** Sends the progress of an application's running tasks. */
  private void readTasks(ApplicationId id, Budget budget) throws IOException {
    RMApp application = context.getRMApps().get(id);
    String address = application == null ? null : masterAddress(application.getCurrentAppAttempt());
    if (address == null) {
      return;
    }
    String tasks = address + "/ws/v1/mapreduce/jobs/" + id.toString().replace(ApplicationId.appIdStrPrefix, "job") + "/tasks";
    budget.requests++;
    List<String> running = runningTasks(get(tasks));
    // Each round begins with other tasks, so that in the course of several rounds all of a large job are read.
    Collections.rotate(running, (int) (-round * REQUESTS_PER_ROUND_MAX % Math.max(1, running.size())));
    for (String task : running) {
      if (stopped || !budget.hasLeft()) {
        return;
      }
      budget.requests++;
      sendProgress(get(tasks + "/" + task + "/attempts"), (container, ppm) -> sink.accept(ClusterStateEncoder.containerProgress(id, container, ppm)));
    }
  }

  /**
   * The address of an application master's web service, or null if there is none that may be used. The application chooses what it registers, so only a server
   * on the node of the application master is asked.
   */
  private static String masterAddress(RMAppAttempt attempt) {
    String registered = attempt == null ? null : attempt.getOriginalTrackingUrl();
    if (registered == null || attempt.getMasterContainer() == null) {
      return null;
    }
    try {
      URL url = new URL(registered.contains("://") ? registered : "http://" + registered);
      boolean isOnItsNode = attempt.getMasterContainer().getNodeId().getHost().equalsIgnoreCase(url.getHost());
      return isOnItsNode && "http".equals(url.getProtocol()) && url.getPort() > 0 ? "http://" + url.getHost() + ":" + url.getPort() : null;
    } catch (MalformedURLException e) {
      return null;
    }
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

  /** Answers that are too long or take too long are errors, and so are redirections. */
  private static JsonNode get(String url) throws IOException {
    long deadline = Time.monotonicNow() + TIMEOUT_MS;
    HttpURLConnection connection = (HttpURLConnection) new URL(url).openConnection();
    connection.setInstanceFollowRedirects(false);
    connection.setConnectTimeout(TIMEOUT_MS);
    connection.setReadTimeout(TIMEOUT_MS);
    connection.setRequestProperty("Accept", "application/json");
    try {
      if (connection.getResponseCode() != HttpURLConnection.HTTP_OK) {
        throw new IOException("status " + connection.getResponseCode());
      }
      ByteArrayOutputStream body = new ByteArrayOutputStream();
      byte[] chunk = new byte[1 << 16];
      InputStream in = connection.getInputStream();
      for (int read = in.read(chunk); read >= 0; read = in.read(chunk)) {
        body.write(chunk, 0, read);
        if (body.size() > ANSWER_BYTES_MAX || Time.monotonicNow() > deadline) {
          throw new IOException("the answer is too long or too slow");
        }
      }
      JsonNode answer = JSON.readTree(body.toByteArray());
      return answer == null ? JSON.createObjectNode() : answer;
    } finally {
      connection.disconnect();
    }
  }
}
