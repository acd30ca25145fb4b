package giveway.yarn;

import java.io.IOException;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** Tests of the table of refused nodes, and of the wait after which a refused node may be used. Run by {@link SidecarClientTest}. */
final class RefusalTest {
  static final ApplicationId APPLICATION = ApplicationId.newInstance(1, 2);
  static final NodeId FAST = NodeId.newInstance("fast", 1);
  static final NodeId SLOW = NodeId.newInstance("slow", 1);
  private static final NodeId UNKNOWN = NodeId.newInstance("unknown", 1);

  private RefusalTest() {}

  /** The content of a frame: the fast node is of class 0, the slow one of class 1. */
  static byte[] classes() {
    return Frame.of(Frame.NODE_CLASSES).integer(4, 2).string(FAST.toString()).integer(2, 0).string(SLOW.toString()).integer(2, 1).content();
  }

  /** The content of a frame: the application is refused class 1. */
  static byte[] refused(long maxWaitMs) {
    Frame frame = Frame.of(Frame.REFUSALS).integer(4, maxWaitMs).integer(4, 1);
    return frame.string(APPLICATION.toString()).integer(2, 1).integer(2, 1).content();
  }

  static void run() throws IOException {
    NodeRefusals refusals = refusals(10_000);
    check("the refused class only", refusals.refuses(APPLICATION, SLOW) && !refusals.refuses(APPLICATION, FAST));
    check("no unknown node", !refusals.refuses(APPLICATION, UNKNOWN));
    check("no other application", !refusals.refuses(ApplicationId.newInstance(1, 3), SLOW));
    check("nothing without a table", !NodeRefusals.NONE.refuses(APPLICATION, SLOW));
    testWait(refusals);
    check("for ever", !acceptsAfter(refusals(0xffff_ffffL), Long.MAX_VALUE / 2));
    testInvalid();
    check("the application master is exempt", isExempt(0));
    check("lost maps are exempt", isExempt(5));
    check("maps and reduces are not", !isExempt(10) && !isExempt(20));
    check("speed", ClusterStateEncoder.parseSpeedPpm("1.5") == 1_500_000 && ClusterStateEncoder.parseSpeedPpm(null) == 1_000_000);
    for (String invalid : new String[] {"", "fast", "-1", "0", "NaN", "Infinity", "1e300"}) {
      check("invalid speed " + invalid, ClusterStateEncoder.parseSpeedPpm(invalid) == 1_000_000);
    }
  }

  private static void testWait(NodeRefusals refusals) {
    RefusalWait wait = new RefusalWait();
    check("refused", !wait.accepts(refusals, APPLICATION, SLOW, 1_000));
    check("not refused elsewhere", wait.accepts(refusals, APPLICATION, FAST, 1_000));
    check("refused until the wait is over", !wait.accepts(refusals, APPLICATION, SLOW, 10_999));
    check("accepted after the wait", wait.accepts(refusals, APPLICATION, SLOW, 11_000));
    wait.allocated(refusals, APPLICATION, SLOW);
    check("accepted until it gets a container elsewhere", wait.accepts(refusals, APPLICATION, SLOW, 12_000));
    wait.allocated(refusals, APPLICATION, FAST);
    check("refused again", !wait.accepts(refusals, APPLICATION, SLOW, 13_000));
    check("without a sidecar nothing is refused", wait.accepts(NodeRefusals.NONE, APPLICATION, SLOW, 13_001));
  }

  private static boolean acceptsAfter(NodeRefusals refusals, long ms) {
    RefusalWait wait = new RefusalWait();
    wait.accepts(refusals, APPLICATION, SLOW, 0);
    return wait.accepts(refusals, APPLICATION, SLOW, ms);
  }

  private static void testInvalid() throws IOException {
    Frame unknown = Frame.of(Frame.REFUSALS).integer(4, 1).integer(4, 2).string("no application").integer(2, 1).integer(2, 1);
    byte[] content = unknown.string(APPLICATION.toString()).integer(2, 1).integer(2, 1).content();
    NodeRefusals refusals = refusals(10_000).withRefused(new Frame.FieldReader(content));
    check("an id that is none is skipped", refusals.refuses(APPLICATION, SLOW));
    try {
      NodeRefusals.NONE.withRefused(new Frame.FieldReader(Frame.of(Frame.REFUSALS).integer(4, 1).integer(4, 2).content()));
      throw new AssertionError("a frame that ends too early was accepted");
    } catch (IOException expected) {
      // The client closes the connection.
    }
  }

  private static NodeRefusals refusals(long maxWaitMs) throws IOException {
    return NodeRefusals.NONE.withClasses(new Frame.FieldReader(classes())).withRefused(new Frame.FieldReader(refused(maxWaitMs)));
  }

  private static boolean isExempt(int priority) {
    return GivewayAppPlacementAllocator.isExempt(SchedulerRequestKey.create(ResourceRequest.newInstance(
        Priority.newInstance(priority), "*", Resource.newInstance(1, 1), 1)));
  }

  private static void check(String what, boolean holds) {
    if (!holds) {
      throw new AssertionError("refusals: " + what);
    }
  }
}
