package giveway.yarn;

import java.lang.management.ManagementFactory;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.apache.hadoop.yarn.server.api.protocolrecords.NodeHeartbeatRequest;
import org.apache.hadoop.yarn.server.api.protocolrecords.NodeHeartbeatResponse;
import org.apache.hadoop.yarn.server.api.protocolrecords.RegisterNodeManagerRequest;
import org.apache.hadoop.yarn.server.api.protocolrecords.RegisterNodeManagerResponse;
import org.apache.hadoop.yarn.server.api.records.MasterKey;
import org.apache.hadoop.yarn.server.api.records.NodeHealthStatus;
import org.apache.hadoop.yarn.server.api.records.NodeStatus;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;
import org.apache.hadoop.yarn.server.resourcemanager.amlauncher.AMLauncherEvent;
import org.apache.hadoop.yarn.server.resourcemanager.amlauncher.AMLauncherEventType;
import org.apache.hadoop.yarn.server.resourcemanager.amlauncher.ApplicationMasterLauncher;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptEvent;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptEventType;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptImpl;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;

/**
 * Loads a real ResourceManager, in this process and without RPC, with simulated NodeManagers and application masters that work as fast as they can: one round is a heartbeat
 * of every application master and of every node. A container ends with the heartbeat of its node after its allocation. Prints the rate of
 * allocations, the processor time of each, and the latency of the application masters' heartbeats.
 *
 * <p>Arguments: QUEUE NODES APPLICATIONS ALLOCATIONS.
 */
public final class SchedulerLoad {
  private static final int CONTAINER_MB = 1024;
  private static final int CONTAINERS_PER_NODE = 8;
  private static final int ASKS = 200;
  private static final int MAP_PRIORITY = 20;

  private final Map<ApplicationAttemptId, Token<AMRMTokenIdentifier>> launched = new ConcurrentHashMap<>();
  private final List<Node> nodes = new ArrayList<>();
  private final List<Master> masters = new ArrayList<>();
  private final Map<NodeId, Node> nodesById = new ConcurrentHashMap<>();
  private final ResourceManager manager = new LoadedManager();

  /** A ResourceManager that launches no application masters. */
  private final class LoadedManager extends ResourceManager {
    @Override
    protected ApplicationMasterLauncher createAMLauncher() {
      return new ApplicationMasterLauncher(getRMContext()) {
        @Override
        protected void serviceStart() {}

        @Override
        protected void serviceStop() {}

        @Override
        @SuppressWarnings("unchecked")
        public synchronized void handle(AMLauncherEvent event) {
          if (event.getType() != AMLauncherEventType.LAUNCH) {
            return;
          }
          RMAppAttempt attempt = event.getAppAttempt();
          ApplicationAttemptId id = attempt.getAppAttemptId();
          Token<AMRMTokenIdentifier> token = context.getAMRMTokenSecretManager().createAndGetAMRMToken(id);
          ((RMAppAttemptImpl) attempt).setAMRMToken(token);
          context.getDispatcher().getEventHandler().handle(new RMAppAttemptEvent(id, RMAppAttemptEventType.LAUNCHED));
          launched.put(id, token);
        }
      };
    }

    @Override
    protected void startWepApp() {}
  }

  /** Durations in ns. */
  private static final class Latencies {
    private long[] all = new long[1 << 16];
    private int count;

    void add(long ns) {
      if (count == all.length) {
        all = Arrays.copyOf(all, 2 * count);
      }
      all[count++] = ns;
    }

    String percentiles() {
      Arrays.sort(all, 0, count);
      return String.format("median %.1f us, 99 %% %.1f us", at(0.5), at(0.99));
    }

    private double at(double part) {
      return count == 0 ? 0 : all[(int) (part * (count - 1))] / 1e3;
    }
  }

  private final class Node {
    private final NodeId id;
    private final MasterKey tokenKey;
    private final MasterKey nodeTokenKey;
    private final List<ContainerStatus> ended = new ArrayList<>();
    private int responseId;

    Node(int number) throws Exception {
      // An address, because names would be looked up.
      id = NodeId.newInstance("127.1." + number / 250 + "." + (number % 250 + 1), 1);
      Resource resource = Resource.newInstance(CONTAINERS_PER_NODE * CONTAINER_MB, 4 * CONTAINERS_PER_NODE);
      RegisterNodeManagerRequest request = RegisterNodeManagerRequest.newInstance(id, 2, resource, "3", Collections.emptyList(), Collections.emptyList());
      RegisterNodeManagerResponse response = manager.getResourceTrackerService().registerNodeManager(request);
      tokenKey = response.getContainerTokenMasterKey();
      nodeTokenKey = response.getNMTokenMasterKey();
    }

    void heartbeat() throws Exception {
      NodeHealthStatus health = NodeHealthStatus.newInstance(true, "", 0);
      NodeStatus status = NodeStatus.newInstance(id, responseId, new ArrayList<>(ended), Collections.emptyList(), health, null, null, null);
      ended.clear();
      NodeHeartbeatResponse response =
          manager.getResourceTrackerService().nodeHeartbeat(NodeHeartbeatRequest.newInstance(status, tokenKey, nodeTokenKey, Collections.emptySet()));
      responseId = response.getResponseId();
    }

    /** Waits until the scheduler has handled a heartbeat that was sent at this time or later. */
    void await(long since) throws InterruptedException {
      SchedulerNode node = ((AbstractYarnScheduler<?, ?>) manager.getRMContext().getScheduler()).getSchedulerNode(id);
      while (node == null || node.getLastHeartbeatMonotonicTime() < since) {
        Thread.sleep(1);
        node = ((AbstractYarnScheduler<?, ?>) manager.getRMContext().getScheduler()).getSchedulerNode(id);
      }
    }
  }

  private final class Master {
    private final UserGroupInformation user;
    private int responseId;
    private int pending;

    Master(ApplicationAttemptId id, Token<AMRMTokenIdentifier> token) throws Exception {
      user = UserGroupInformation.createRemoteUser(id.toString());
      user.addTokenIdentifier(token.decodeIdentifier());
      user.doAs((PrivilegedExceptionAction<Object>)
          () -> manager.getApplicationMasterService().registerApplicationMaster(RegisterApplicationMasterRequest.newInstance("host", 1, "")));
    }

    /** Keeps asking for the same number of containers. Returns the number of new ones. */
    int heartbeat() throws Exception {
      Resource resource = Resource.newInstance(CONTAINER_MB, 1);
      List<ResourceRequest> asks = pending == ASKS
          ? Collections.emptyList()
          : Collections.singletonList(ResourceRequest.newInstance(Priority.newInstance(MAP_PRIORITY), ResourceRequest.ANY, resource, ASKS));
      pending = ASKS;
      AllocateRequest request = AllocateRequest.newInstance(responseId, 0.5f, asks, Collections.emptyList(), null);
      AllocateResponse response =
          user.doAs((PrivilegedExceptionAction<AllocateResponse>) () -> manager.getApplicationMasterService().allocate(request));
      responseId = response.getResponseId();
      for (Container container : response.getAllocatedContainers()) {
        end(container.getId(), container.getNodeId());
      }
      pending -= response.getAllocatedContainers().size();
      return response.getAllocatedContainers().size();
    }
  }

  private void end(ContainerId container, NodeId node) {
    nodesById.get(node).ended.add(ContainerStatus.newInstance(container, ContainerState.COMPLETE, "", 0));
  }

  private void submit(String queue) throws Exception {
    ApplicationId id = manager.getClientRMService().getNewApplication(GetNewApplicationRequest.newInstance()).getApplicationId();
    ContainerLaunchContext launch = ContainerLaunchContext.newInstance(
        Collections.emptyMap(), Collections.emptyMap(), Collections.emptyList(), Collections.emptyMap(), null, Collections.emptyMap());
    ApplicationSubmissionContext application = ApplicationSubmissionContext.newInstance(
        id, "load", queue, Priority.newInstance(0), launch, false, false, 1, Resource.newInstance(CONTAINER_MB, 1), "MAPREDUCE", false);
    manager.getClientRMService().submitApplication(SubmitApplicationRequest.newInstance(application));
  }

  /** One heartbeat of every node, until the scheduler has handled all of them. */
  private void heartbeatNodes() throws Exception {
    long start = Time.monotonicNow();
    for (Node node : nodes) {
      node.heartbeat();
    }
    for (Node node : nodes) {
      node.await(start);
    }
  }

  private void run(String queue, int nodeCount, int applications, long allocations) throws Exception {
    manager.init(new YarnConfiguration());
    manager.start();
    for (int number = 0; number < nodeCount; number++) {
      Node node = new Node(number);
      nodes.add(node);
      nodesById.put(node.id, node);
    }
    for (int number = 0; number < applications; number++) {
      submit(queue);
    }
    while (launched.size() < applications) {
      heartbeatNodes();
    }
    for (Map.Entry<ApplicationAttemptId, Token<AMRMTokenIdentifier>> entry : launched.entrySet()) {
      masters.add(new Master(entry.getKey(), entry.getValue()));
    }
    measure(allocations / 2);
    System.out.println(measure(allocations));
    Runtime.getRuntime().halt(0);
  }

  private String measure(long allocations) throws Exception {
    com.sun.management.OperatingSystemMXBean system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    Latencies calls = new Latencies();
    long done = 0;
    long start = System.nanoTime();
    long startCpu = system.getProcessCpuTime();
    while (done < allocations) {
      for (Master master : masters) {
        long since = System.nanoTime();
        done += master.heartbeat();
        calls.add(System.nanoTime() - since);
      }
      heartbeatNodes();
    }
    double seconds = (System.nanoTime() - start) / 1e9;
    double cpuUs = (system.getProcessCpuTime() - startCpu) / 1e3 / done;
    return String.format("%.0f allocations/s, %.1f us of processor time each; allocate call: %s", done / seconds, cpuUs, calls.percentiles());
  }

  public static void main(String[] args) throws Exception {
    new SchedulerLoad().run(args[0], Integer.parseInt(args[1]), Integer.parseInt(args[2]), Long.parseLong(args[3]));
  }
}
