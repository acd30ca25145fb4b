package giveway.yarn;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Tests of reading the answers of application masters. Run by {@link SidecarClientTest}. */
final class TaskProgressTest {
  private static final ObjectMapper JSON = new ObjectMapper();

  private TaskProgressTest() {}

  static void run() throws IOException {
    check("running tasks", runningTasks("{\"tasks\":{\"task\":[{\"id\":\"task_1\",\"state\":\"RUNNING\"},{\"id\":\"task_2\",\"state\":\"SUCCEEDED\"}]}}"), "[task_1]");
    check("one task without brackets", runningTasks("{\"tasks\":{\"task\":{\"id\":\"task_1\",\"state\":\"RUNNING\"}}}"), "[task_1]");
    for (String other : new String[] {"{}", "[]", "null", "7", "{\"tasks\":null}", "{\"tasks\":{\"task\":\"x\"}}"}) {
      check("no tasks in " + other, runningTasks(other), "[]");
      check("no attempts in " + other, progress(other), "[]");
    }
    check("progress", progress(attempts("RUNNING", "66.7", "container_1")), "[container_1 667000]");
    check("progress is clamped", progress(attempts("RUNNING", "1e9", "container_1")), "[container_1 1000000]");
    check("only running attempts", progress(attempts("SUCCEEDED", "100", "container_1")), "[]");
    check("only attempts with a container", progress(attempts("RUNNING", "0", "")), "[]");
  }

  private static String attempts(String state, String progress, String container) {
    return "{\"taskAttempts\":{\"taskAttempt\":[{\"state\":\"" + state + "\",\"progress\":" + progress + ",\"assignedContainerId\":\"" + container + "\"}]}}";
  }

  private static String runningTasks(String answer) throws IOException {
    return TaskProgress.runningTasks(JSON.readTree(answer)).toString();
  }

  private static String progress(String answer) throws IOException {
    List<String> sent = new ArrayList<>();
    TaskProgress.sendProgress(JSON.readTree(answer), (container, ppm) -> sent.add(container + " " + ppm));
    return sent.toString();
  }

  private static void check(String what, String found, String expected) {
    if (!expected.equals(found)) {
      throw new AssertionError(what + ": expected " + expected + ", got " + found);
    }
  }
}
