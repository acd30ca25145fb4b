package org.apache.hadoop.yarn.server.nodemanager;

import giveway.yarn.nodemanager.NodeAnnouncement;
import giveway.yarn.nodemanager.PausedContainers;
import giveway.yarn.nodemanager.PausingExecutor;
import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.Container;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.linux.privileged.PrivilegedOperation;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.linux.privileged.PrivilegedOperation.OperationType;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.linux.privileged.PrivilegedOperation.RunAsUserCommand;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.linux.privileged.PrivilegedOperationException;

/**
 * LinuxContainerExecutor that can pause containers. Set it as {@code yarn.nodemanager.container-executor.class}.
 *
 * <p>Containers belong to the users of their applications, so signals are sent by Hadoop's setuid program {@code container-executor}, which starts each container in a
 * session of its own and signals its process group. The class is in Hadoop's package because the method that names a container's account is not public.
 */
public class GivewayLinuxContainerExecutor extends LinuxContainerExecutor implements PausingExecutor {
  private static final String DEFAULT_RUNTIME = "default";

  private Context context;
  private PausedContainers paused;

  @Override
  public void init(Context nmContext) throws IOException {
    super.init(nmContext);
    context = nmContext;
    paused = new PausedContainers(getConf(), this::signal);
    NodeAnnouncement.announce(getConf(), unsupportedRuntime());
  }

  /** The processes of Docker and runc containers are not in the process group that would be signalled. */
  private String unsupportedRuntime() {
    String property = YarnConfiguration.LINUX_CONTAINER_RUNTIME_ALLOWED_RUNTIMES;
    boolean others = Arrays.stream(getConf().getTrimmedStrings(property)).anyMatch(runtime -> !runtime.equals(DEFAULT_RUNTIME));
    return others ? "set " + property + " to " + DEFAULT_RUNTIME : null;
  }

  @Override
  public void pauseContainer(Container container) {
    paused.pause(container.getContainerId());
  }

  @Override
  public void resumeContainer(Container container) {
    paused.resume(container.getContainerId());
  }

  @Override
  public PausedContainers pausedContainers() {
    return paused;
  }

  private void signal(ContainerId id, PausedContainers.Signal signal) throws IOException {
    Container container = context.getContainers().get(id);
    String pid = getProcessId(id);
    if (container == null || pid == null) {
      throw new IOException(id + " has no process");
    }
    PrivilegedOperation operation = new PrivilegedOperation(OperationType.SIGNAL_CONTAINER);
    String user = container.getUser();
    String command = Integer.toString(RunAsUserCommand.SIGNAL_CONTAINER.getValue());
    operation.appendArgs(getRunAsUser(user), user, command, pid, Integer.toString(signal.number()));
    try {
      getPrivilegedOperationExecutor().executePrivilegedOperation(operation, false);
    } catch (PrivilegedOperationException e) {
      throw new IOException(e);
    }
  }
}
