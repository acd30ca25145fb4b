package giveway.yarn.nodemanager;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The paused containers of a NodeManager. A pause is a SIGSTOP of the container's process group.
 *
 * <p>A task that reports nothing for {@code mapreduce.task.timeout} fails. So a paused container runs for a moment from time to time, long enough to report:
 * {@code giveway.breathe.interval.ms}, which must be shorter than the timeout, and {@code giveway.breathe.ms}.
 */
public final class PausedContainers {
  /** A signal, with its number on Linux. */
  public enum Signal {
    STOP(19),
    CONT(18);

    private final int number;

    Signal(int number) {
      this.number = number;
    }

    public int number() {
      return number;
    }
  }

  /** Sends a signal to the process group of a container. */
  public interface Sender {
    void send(ContainerId container, Signal signal) throws IOException;
  }

  private static final Logger LOG = LoggerFactory.getLogger(PausedContainers.class);

  private final Sender sender;
  private final long breatheIntervalMs;
  private final long breatheMs;
  private final Map<ContainerId, ScheduledFuture<?>> breathing = new ConcurrentHashMap<>();
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(task -> {
    Thread thread = new Thread(task, "giveway-paused-containers");
    thread.setDaemon(true);
    return thread;
  });

  public PausedContainers(Configuration conf, Sender sender) {
    this.sender = sender;
    breatheIntervalMs = conf.getLong("giveway.breathe.interval.ms", 60_000);
    breatheMs = conf.getLong("giveway.breathe.ms", 500);
  }

  /** Throws if the signal cannot be sent: the NodeManager then kills the container instead. */
  public void pause(ContainerId container) {
    synchronized (this) {
      send(container, Signal.STOP);
      recover(container);
    }
    LOG.info("Giveway: paused {}", container);
  }

  /** The container is paused already: it was before the NodeManager restarted. */
  public synchronized void recover(ContainerId container) {
    stopBreathing(container);
    if (breatheIntervalMs > 0 && breatheMs > 0) {
      breathing.put(container, timer.scheduleWithFixedDelay(() -> breathe(container), breatheIntervalMs, breatheIntervalMs, TimeUnit.MILLISECONDS));
    }
  }

  public void resume(ContainerId container) {
    synchronized (this) {
      stopBreathing(container);
      send(container, Signal.CONT);
    }
    LOG.info("Giveway: resumed {}", container);
  }

  private synchronized void stopBreathing(ContainerId container) {
    ScheduledFuture<?> task = breathing.remove(container);
    if (task != null) {
      task.cancel(false);
    }
  }

  private void breathe(ContainerId container) {
    try {
      synchronized (this) {
        if (!breathing.containsKey(container)) {
          return;
        }
        send(container, Signal.CONT);
      }
      Thread.sleep(breatheMs);
      synchronized (this) {
        // It may have been resumed meanwhile: then it must not be stopped again.
        if (breathing.containsKey(container)) {
          send(container, Signal.STOP);
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (RuntimeException e) {
      // The container has ended.
      stopBreathing(container);
    }
  }

  private void send(ContainerId container, Signal signal) {
    try {
      sender.send(container, signal);
    } catch (IOException e) {
      throw new IllegalStateException("cannot send SIG" + signal + " to " + container, e);
    }
  }
}
