package giveway.yarn;

import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;

/**
 * How long requests of one priority of an application have been refused nodes. If they get no container on other nodes within the sidecar's limit, they may use any
 * node until they get one on a node that is not refused. Called by several scheduling threads at once; a lost update only shifts the wait.
 */
final class RefusalWait {
  private static final long NOT_REFUSED = -1;
  private volatile long refusedSinceMs = NOT_REFUSED;

  /** True if the node may be used now. */
  boolean accepts(NodeRefusals refusals, ApplicationId application, NodeId node, long nowMs) {
    if (!refusals.refuses(application, node)) {
      return true;
    }
    long since = refusedSinceMs;
    if (since == NOT_REFUSED) {
      refusedSinceMs = nowMs;
      return false;
    }
    return nowMs - since >= refusals.maxWaitMs();
  }

  /** A container was allocated on this node. */
  void allocated(NodeRefusals refusals, ApplicationId application, NodeId node) {
    if (!refusals.refuses(application, node)) {
      refusedSinceMs = NOT_REFUSED;
    }
  }
}
