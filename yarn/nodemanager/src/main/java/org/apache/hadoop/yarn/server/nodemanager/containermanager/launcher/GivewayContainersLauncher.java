package org.apache.hadoop.yarn.server.nodemanager.containermanager.launcher;

import giveway.yarn.nodemanager.PausingExecutor;
import giveway.yarn.nodemanager.RecoveredContainers;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.event.Dispatcher;
import org.apache.hadoop.yarn.server.nodemanager.ContainerExecutor;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.LocalDirsHandlerService;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.ContainerManagerImpl;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.application.Application;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.Container;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.ContainerResumeEvent;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.ContainerState;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.scheduler.ContainerSchedulerEventType;

/**
 * ContainersLauncher without four of Hadoop's bugs. Set it as {@code yarn.nodemanager.containers-launcher.class}.
 *
 * <p>A ContainerLaunch records a pause in a flag and never clears it, so that a second pause of the same container waits for ever. And a container that is
 * paused when the NodeManager restarts is not among the running ones afterwards, so that it is never resumed. Or it is
 * taken for running although it is paused. And running containers are counted twice after a restart, see {@link RecoveredContainers}. The class is in Hadoop's package because the flag is protected.
 */
public class GivewayContainersLauncher extends ContainersLauncher {
  private static final long STATE_POLL_MS = 20;

  private Context nodeContext;
  private Dispatcher nodeDispatcher;
  private ContainerExecutor executor;
  private LocalDirsHandlerService dirs;
  private ContainerManagerImpl manager;
  private RecoveredContainers recovered;

  @Override
  public void init(Context context, Dispatcher dispatcher, ContainerExecutor exec, LocalDirsHandlerService dirsHandler, ContainerManagerImpl containerManager) {
    super.init(context, dispatcher, exec, dirsHandler, containerManager);
    nodeContext = context;
    nodeDispatcher = dispatcher;
    executor = exec;
    dirs = dirsHandler;
    manager = containerManager;
    recovered = new RecoveredContainers(context);
    // The ContainerScheduler is registered later, so it receives events after this handler.
    dispatcher.register(ContainerSchedulerEventType.class, recovered);
  }

  @Override
  protected void serviceStart() throws Exception {
    recovered.load();
    super.serviceStart();
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

  /**
   * A container that was paused before the restart. If there is room for it when it is recovered, the ContainerScheduler starts it before it is paused in the NodeManager's
   * eyes. It counts as running from then on, and the event is the same as that of the recovery: so a second one means that the container has to be resumed.
   */
  private void recoverPaused(ContainersLauncherEvent event, ContainerId id) {
    if (running.containsKey(id)) {
      containerLauncher.submit(() -> resumeOncePaused(event.getContainer()));
      return;
    }
    Application application = nodeContext.getApplications().get(id.getApplicationAttemptId().getApplicationId());
    ContainerLaunch launch =
        new RecoverPausedContainerLaunch(nodeContext, getConfig(), nodeDispatcher, executor, application, event.getContainer(), dirs, manager);
    running.put(id, launch);
    if (executor instanceof PausingExecutor) {
      ((PausingExecutor) executor).pausedContainers().recover(id);
    }
    containerLauncher.submit(launch);
  }

  @SuppressWarnings("unchecked")
  private void resumeOncePaused(Container container) {
    try {
      while (container.getContainerState() == ContainerState.SCHEDULED || container.getContainerState() == ContainerState.LOCALIZING) {
        Thread.sleep(STATE_POLL_MS);
      }
      if (container.getContainerState() == ContainerState.PAUSED) {
        nodeDispatcher.getEventHandler().handle(new ContainerResumeEvent(container.getContainerId(), "There is room for it after the restart of the NodeManager"));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Sets the flag to what it has to be before a pause or a resume. */
  private void setPaused(ContainerId id, boolean paused) {
    ContainerLaunch launch = running.get(id);
    if (launch != null) {
      launch.shouldPauseContainer.set(paused);
    }
  }
}
