package giveway.yarn.nodemanager;

/** An executor that can pause containers. */
public interface PausingExecutor {
  PausedContainers pausedContainers();
}
