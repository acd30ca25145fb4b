package org.apache.hadoop.yarn.server.nodemanager.containermanager.launcher;

import giveway.yarn.nodemanager.GivewayContainerExecutor;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.event.Dispatcher;
import org.apache.hadoop.yarn.server.nodemanager.ContainerExecutor;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.LocalDirsHandlerService;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.ContainerManagerImpl;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.application.Application;

/**
 * ContainersLauncher without two of Hadoop's bugs. Set it as {@code yarn.nodemanager.containers-launcher.class}.
 *
 * <p>A ContainerLaunch records a pause in a flag and never clears it, so that a second pause of the same container waits for ever. And a container that is
 * paused when the NodeManager restarts is not among the running ones afterwards, so that it is never resumed. The class is in Hadoop's package because the
 * flag is protected.
 */
public class GivewayContainersLauncher extends ContainersLauncher {
  private Context nodeContext;
  private Dispatcher nodeDispatcher;
  private ContainerExecutor executor;
  private LocalDirsHandlerService dirs;
  private ContainerManagerImpl manager;

  @Override
  public void init(Context context, Dispatcher dispatcher, ContainerExecutor exec, LocalDirsHandlerService dirsHandler, ContainerManagerImpl containerManager) {
    super.init(context, dispatcher, exec, dirsHandler, containerManager);
    nodeContext = context;
    nodeDispatcher = dispatcher;
    executor = exec;
    dirs = dirsHandler;
    manager = containerManager;
  }

  @Override
  public void handle(ContainersLauncherEvent event) {
    ContainerId id = event.getContainer().getContainerId();
    switch (event.getType()) {
      case RECOVER_PAUSED_CONTAINER:
        recoverPaused(event, id);
        return;
      case PAUSE_CONTAINER:
        setPaused(id, false);
        break;
      case RESUME_CONTAINER:
        setPaused(id, true);
        break;
      default:
        break;
    }
    super.handle(event);
  }

  private void recoverPaused(ContainersLauncherEvent event, ContainerId id) {
    Application application = nodeContext.getApplications().get(id.getApplicationAttemptId().getApplicationId());
    ContainerLaunch launch =
        new RecoverPausedContainerLaunch(nodeContext, getConfig(), nodeDispatcher, executor, application, event.getContainer(), dirs, manager);
    running.put(id, launch);
    if (executor instanceof GivewayContainerExecutor) {
      ((GivewayContainerExecutor) executor).recoverPausedContainer(event.getContainer());
    }
    containerLauncher.submit(launch);
  }

  /** Sets the flag to what it has to be before a pause or a resume. */
  private void setPaused(ContainerId id, boolean paused) {
    ContainerLaunch launch = running.get(id);
    if (launch != null) {
      launch.shouldPauseContainer.set(paused);
    }
  }
}
