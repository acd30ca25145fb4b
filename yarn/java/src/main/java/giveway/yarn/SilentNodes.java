package giveway.yarn;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeEvent;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Expires NodeManagers that have sent no heartbeat for some seconds, where Hadoop waits for ten minutes.
 *
 * <p>A NodeManager that was only slow registers again and its containers are killed: that costs work, but no output is wrong. To keep that cost low, nothing is
 * expired when more than a tenth of the nodes are silent at once, or after this thread was held up itself: then the ResourceManager is at fault. And at most a
 * tenth of the nodes, or one, is expired within a minute.
 */
final class SilentNodes {
  private static final Logger LOG = LoggerFactory.getLogger(SilentNodes.class);
  private static final long MINUTE_MS = 60_000;
  private static final long TICK_MS_MAX = 2_000;

  private final RMContext context;
  private final Deque<Long> expiries = new ArrayDeque<>();
  private long lastTick = -1;
  /** Heartbeats before this time may have been delayed by the ResourceManager. */
  private long trustedSince = -1;
  private boolean manySilentLogged;

  SilentNodes(RMContext context) {
    this.context = context;
  }

  void reset() {
    lastTick = -1;
  }

  /** @param expiryMs time without a heartbeat after which a node is expired; 0 to expire none */
  void expire(long expiryMs) {
    long now = Time.monotonicNow();
    if (lastTick < 0 || now - lastTick > TICK_MS_MAX) {
      trustedSince = now;
    }
    lastTick = now;
    if (expiryMs <= 0) {
      return;
    }
    List<RMNode> silent = new ArrayList<>();
    int running = 0;
    for (RMNode node : context.getRMNodes().values()) {
      SchedulerNode known = ((AbstractYarnScheduler<?, ?>) context.getScheduler()).getSchedulerNode(node.getNodeID());
      if (known == null || node.getState() != NodeState.RUNNING) {
        continue;
      }
      running++;
      if (now - Math.max(known.getLastHeartbeatMonotonicTime(), trustedSince) > expiryMs) {
        silent.add(node);
      }
    }
    int limit = Math.max(1, running / 10);
    if (silent.size() > limit) {
      if (!manySilentLogged) {
        manySilentLogged = true;
        LOG.warn("Giveway: {} of {} nodes are silent at once; none is expired early", silent.size(), running);
      }
      return;
    }
    manySilentLogged = false;
    while (!expiries.isEmpty() && now - expiries.peekFirst() > MINUTE_MS) {
      expiries.removeFirst();
    }
    for (RMNode node : silent) {
      if (expiries.size() >= limit) {
        return;
      }
      expiries.addLast(now);
      LOG.info("Giveway: expiring node {}, which was silent for more than {} ms", node.getNodeID(), expiryMs);
      send(new RMNodeEvent(node.getNodeID(), RMNodeEventType.EXPIRE));
    }
  }

  @SuppressWarnings("unchecked")
  private void send(RMNodeEvent event) {
    context.getDispatcher().getEventHandler().handle(event);
  }
}
