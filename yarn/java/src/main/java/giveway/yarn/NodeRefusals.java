package giveway.yarn;

import java.io.IOException;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;

/** Which nodes are refused to which applications, as received from the sidecar. Immutable. An id that Hadoop cannot parse refuses nothing. */
final class NodeRefusals {
  /** Nothing is refused. */
  static final NodeRefusals NONE = new NodeRefusals(Collections.emptyMap(), Collections.emptyMap(), 0);
  private static final long FOREVER = 0xffff_ffffL;

  private final Map<NodeId, Integer> classes;
  /** The refused classes of nodes of each application that is refused any. */
  private final Map<ApplicationId, BitSet> refused;
  private final long maxWaitMs;

  private NodeRefusals(Map<NodeId, Integer> classes, Map<ApplicationId, BitSet> refused, long maxWaitMs) {
    this.classes = classes;
    this.refused = refused;
    this.maxWaitMs = maxWaitMs;
  }

  /** Time after which an application that gets no container elsewhere may use any node. */
  long maxWaitMs() {
    return maxWaitMs == FOREVER ? Long.MAX_VALUE : maxWaitMs;
  }

  boolean refuses(ApplicationId application, NodeId node) {
    BitSet classesOfApplication = refused.get(application);
    if (classesOfApplication == null) {
      return false;
    }
    Integer nodeClass = classes.get(node);
    return nodeClass != null && classesOfApplication.get(nodeClass);
  }

  /** The same refusals with the classes of a frame of type {@link Frame#NODE_CLASSES}. */
  NodeRefusals withClasses(Frame.FieldReader fields) throws IOException {
    int count = (int) fields.integer(4);
    Map<NodeId, Integer> read = new HashMap<>();
    for (int i = 0; i < count; i++) {
      String node = fields.string();
      int nodeClass = (int) fields.integer(2);
      try {
        read.put(NodeId.fromString(node), nodeClass);
      } catch (IllegalArgumentException e) {
        GivewayPlugin.logFault(e);
      }
    }
    return new NodeRefusals(read, refused, maxWaitMs);
  }

  /** The same classes with the refusals of a frame of type {@link Frame#REFUSALS}. */
  NodeRefusals withRefused(Frame.FieldReader fields) throws IOException {
    long wait = fields.integer(4);
    int count = (int) fields.integer(4);
    Map<ApplicationId, BitSet> read = new HashMap<>();
    for (int i = 0; i < count; i++) {
      String application = fields.string();
      BitSet classesOfApplication = new BitSet();
      for (long left = fields.integer(2); left > 0; left--) {
        classesOfApplication.set((int) fields.integer(2));
      }
      try {
        read.put(ApplicationId.fromString(application), classesOfApplication);
      } catch (IllegalArgumentException e) {
        GivewayPlugin.logFault(e);
      }
    }
    return new NodeRefusals(classes, read, wait);
  }
}
