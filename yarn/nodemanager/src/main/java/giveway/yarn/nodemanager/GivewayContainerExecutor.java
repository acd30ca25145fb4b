package giveway.yarn.nodemanager;

import java.io.IOException;
import org.apache.hadoop.util.Shell.ShellCommandExecutor;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.Container;

/**
 * DefaultContainerExecutor that can pause containers. Set it as {@code yarn.nodemanager.container-executor.class}.
 *
 * <p>DefaultContainerExecutor starts each container with {@code setsid}, so a container is a process group whose id is that of its first process.
 */
public class GivewayContainerExecutor extends DefaultContainerExecutor implements PausingExecutor {
  private PausedContainers paused;

  @Override
  public void init(Context context) throws IOException {
    super.init(context);
    paused = new PausedContainers(getConf(), this::signal);
    NodeAnnouncement.announce(getConf(), null);
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

  private void signal(ContainerId container, PausedContainers.Signal signal) throws IOException {
    String pid = getProcessId(container);
    if (pid == null) {
      throw new IOException(container + " has no process");
    }
    new ShellCommandExecutor(new String[] {"kill", "-" + signal, "--", "-" + pid}).execute();
  }
}
