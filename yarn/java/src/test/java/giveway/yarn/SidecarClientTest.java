package giveway.yarn;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * Tests of the client against faulty sidecars. For each fault: there is no ranking, the reason is logged, the client keeps running, and it uses the ranking of a
 * correct sidecar as soon as there is one. A plain main class, so that only Hadoop's jars are needed.
 */
public final class SidecarClientTest {
  private static final List<String> INFO = new CopyOnWriteArrayList<>();
  private static final List<String> WARNINGS = new CopyOnWriteArrayList<>();

  /** Records what a client passes on. */
  private static final class RecordingOrders implements SidecarClient.OrderHandler {
    final List<String> orders = new CopyOnWriteArrayList<>();
    final AtomicInteger disconnections = new AtomicInteger();

    @Override
    public void onOrder(char type, String containerId) {
      orders.add(type + containerId);
    }

    @Override
    public void onTick(long nodeExpiryMs) {
      // Tested with real daemons.
    }

    @Override
    public void onDisconnected() {
      disconnections.incrementAndGet();
    }
  }

  private SidecarClientTest() {}

  /** The sidecar's end of one connection. */
  private interface Peer {
    void serve(DataInputStream in, OutputStream out) throws Exception;
  }

  public static void main(String[] args) throws Exception {
    testFault("other protocol version", "protocol version mismatch: sidecar 9, plug-in 4", (in, out) -> {
      Frame.read(in);
      Frame.write(out, Frame.of(Frame.WELCOME).integer(2, 9).string("fifo").content());
      Thread.sleep(200);
    });
    testFault("rejection", "rejected by the sidecar: token mismatch", (in, out) -> {
      Frame.read(in);
      Frame.write(out, Frame.of(Frame.REJECTED).string("token mismatch").content());
    });
    testFault("2 GB frame instead of WELCOME", "invalid frame length 2147483648", (in, out) -> {
      Frame.read(in);
      out.write(new byte[] {(byte) 0x80, 0, 0, 0});
      Thread.sleep(200);
    });
    testFault("2 GB frame after WELCOME", "invalid frame length 2147483648", (in, out) -> {
      acceptHello(in, out);
      out.write(new byte[] {(byte) 0x80, 0, 0, 0});
      Thread.sleep(200);
    });
    testFault("partial frame, then close", "the sidecar closed the connection", (in, out) -> {
      acceptHello(in, out);
      out.write(new byte[] {0, 0, 0, 9, Frame.RANKING});
    });
    testFault("partial frame, then silence", "no complete frame for 400 ms", (in, out) -> {
      acceptHello(in, out);
      out.write(new byte[] {0, 0, 0, 9, Frame.RANKING});
      Thread.sleep(1_000);
    });
    testFault("no reply to HELLO", "no complete frame for 400 ms", (in, out) -> Thread.sleep(1_000));
    testFault("unknown frame type", "invalid frame: unknown type `z`", (in, out) -> {
      acceptHello(in, out);
      Frame.write(out, Frame.of('z').content());
      Thread.sleep(200);
    });
    testFault("ranking shorter than its count", "ends within a field", (in, out) -> {
      acceptHello(in, out);
      Frame.write(out, Frame.of(Frame.RANKING).integer(4, 5).string("a").content());
      Thread.sleep(200);
    });
    testFault("HTTP server on the port", "invalid frame length 1213486160", (in, out) -> {
      Frame.read(in);
      out.write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes("US-ASCII"));
      Thread.sleep(200);
    });
    testAlternatingFaults();
    testRankingSort();
    testQueueOverflow();
    testOrders();
    RefusalTest.run();
    TaskProgressTest.run();
    testRefusalsEndWithTheConnection();
    System.out.println("plug-in tests passed");
  }

  /** The first three connections meet the faulty sidecar, later ones a correct sidecar. */
  private static void testFault(String name, String reason, Peer faulty) throws Exception {
    AtomicInteger connections = new AtomicInteger();
    try (Fixture fixture = new Fixture(400, (in, out) -> {
      if (connections.getAndIncrement() < 3) {
        faulty.serve(in, out);
      } else {
        serveCorrectly(in, out);
      }
    })) {
      waitUntil(name + ": reconnects", () -> connections.get() >= 3);
      waitUntil(name + ": logs the reason", () -> warningsWith(reason) >= 1);
      waitUntil(name + ": uses the correct sidecar's ranking", () -> fixture.client.ranking() != null && fixture.client.ranking().size() == 2);
      // A fault after WELCOME is logged for each connection, one before it only once.
      expect(name + ": logs the reason once per connection", warningsWith(reason) <= Math.max(1, INFO.size() - 1), WARNINGS + " " + INFO);
      expect(name + ": logs the connection as information", INFO.get(INFO.size() - 1).contains("policy fifo"), INFO.toString());
      expect(name + ": keeps running", fixture.client.isAlive(), "");
    }
  }

  /** Two faults that alternate while there is no working connection are logged once each. */
  private static void testAlternatingFaults() throws Exception {
    AtomicInteger connections = new AtomicInteger();
    try (Fixture fixture = new Fixture(400, (in, out) -> {
      Frame.read(in);
      Frame.write(out, Frame.of(Frame.REJECTED).string("fault " + connections.getAndIncrement() % 2).content());
    })) {
      waitUntil("alternating faults: reconnects", () -> connections.get() >= 6);
      expect("alternating faults: the first once", warningsWith("fault 0") == 1, WARNINGS.toString());
      expect("alternating faults: the second once", warningsWith("fault 1") == 1, WARNINGS.toString());
      expect("alternating faults: never connected", INFO.isEmpty() && fixture.client.ranking() == null, INFO.toString());
    }
  }

  private static void testRankingSort() {
    Ranking ranking = new Ranking(Arrays.asList("b", "a"));
    expect("ranked first, then the rest in given order", ranking.sort(Arrays.asList("x", "a", "y", "b"), id -> id).equals(Arrays.asList("b", "a", "x", "y")), "");
    expect("empty ranking", new Ranking(Collections.emptyList()).sort(Arrays.asList("x", "a"), id -> id).equals(Arrays.asList("x", "a")), "");
  }

  /** Sending to a full queue does not block; the client sends a new snapshot instead. */
  private static void testQueueOverflow() throws Exception {
    AtomicInteger connections = new AtomicInteger();
    AtomicInteger snapshots = new AtomicInteger();
    CountDownLatch allSent = new CountDownLatch(1);
    try (Fixture fixture = new Fixture(60_000, (in, out) -> {
      connections.incrementAndGet();
      acceptHello(in, out);
      for (byte[] content = Frame.read(in); content != null; content = Frame.read(in)) {
        if (content[0] == Frame.SNAPSHOT_STARTED && snapshots.incrementAndGet() == 1) {
          allSent.await();
        }
      }
    })) {
      waitUntil("overflow: first snapshot", () -> snapshots.get() == 1);
      byte[] message = Frame.of(Frame.APP_UPDATED).string("an application id that is long enough to fill the socket buffers soon").content();
      long start = System.nanoTime();
      for (int i = 0; i < 300_000; i++) {
        fixture.client.send(message);
      }
      expect("overflow: send does not block", System.nanoTime() - start < 10_000_000_000L, "");
      allSent.countDown();
      waitUntil("overflow: second snapshot", () -> snapshots.get() >= 2);
      expect("overflow: same connection", connections.get() == 1, WARNINGS.toString());
    }
  }

  /** Orders are passed on, and the end of a connection is reported, so that everything that is paused can be resumed. */
  private static void testOrders() throws Exception {
    CountDownLatch close = new CountDownLatch(1);
    try (Fixture fixture = new Fixture(60_000, (in, out) -> {
      acceptHello(in, out);
      for (char type : new char[] {Frame.PAUSE, Frame.RESUME, Frame.KILL}) {
        Frame.write(out, Frame.of(type).string("c" + (int) type).content());
      }
      close.await();
    })) {
      List<String> expected = Arrays.asList("Pc80", "pc112", "Kc75");
      waitUntil("orders: received", () -> fixture.received.orders.equals(expected));
      expect("orders: connected", fixture.received.disconnections.get() == 0, WARNINGS.toString());
      close.countDown();
      waitUntil("orders: disconnection reported", () -> fixture.received.disconnections.get() >= 1);
    }
  }

  private static void acceptHello(DataInputStream in, OutputStream out) throws IOException {
    Frame.read(in);
    Frame.write(out, Frame.of(Frame.WELCOME).integer(2, Frame.VERSION).string("fifo").integer(4, 0).content());
  }

  /** Sends a ranking, then heartbeats until the client closes the connection. */
  private static void serveCorrectly(DataInputStream in, OutputStream out) throws Exception {
    acceptHello(in, out);
    Frame.write(out, Frame.of(Frame.RANKING).integer(4, 2).string("b").string("a").content());
    while (true) {
      Frame.write(out, Frame.of(Frame.HEARTBEAT).content());
      Thread.sleep(50);
    }
  }

  private static int warningsWith(String part) {
    return (int) WARNINGS.stream().filter(line -> line.contains(part)).count();
  }

  private static void waitUntil(String what, BooleanSupplier condition) throws InterruptedException {
    for (int i = 0; i < 1_000 && !condition.getAsBoolean(); i++) {
      Thread.sleep(20);
    }
    expect(what, condition.getAsBoolean(), WARNINGS.toString());
  }

  private static void expect(String what, boolean condition, String detail) {
    if (!condition) {
      throw new AssertionError(what + " " + detail);
    }
  }

  private static void testRefusalsEndWithTheConnection() throws Exception {
    CountDownLatch disconnect = new CountDownLatch(1);
    try (Fixture fixture = new Fixture(60_000, (in, out) -> {
      acceptHello(in, out);
      Frame.write(out, RefusalTest.classes());
      Frame.write(out, RefusalTest.refused(60_000));
      out.flush();
      disconnect.await();
    })) {
      waitUntil("refusals", () -> fixture.client.refusals().refuses(RefusalTest.APPLICATION, RefusalTest.SLOW));
      disconnect.countDown();
      waitUntil("no refusals without a sidecar", () -> !fixture.client.refusals().refuses(RefusalTest.APPLICATION, RefusalTest.SLOW));
    }
  }

  /** A server socket whose connections are served by a peer, and a client that connects to it. Clears the logs. */
  private static final class Fixture implements AutoCloseable {
    final ServerSocket server = new ServerSocket(0, 8, InetAddress.getByName("127.0.0.1"));
    final RecordingOrders received = new RecordingOrders();
    final SidecarClient client;

    Fixture(int readTimeoutMs, Peer peer) throws IOException {
      INFO.clear();
      WARNINGS.clear();
      Thread thread = new Thread(() -> {
        while (!server.isClosed()) {
          try (Socket socket = server.accept()) {
            peer.serve(new DataInputStream(socket.getInputStream()), socket.getOutputStream());
          } catch (Exception e) {
            // The client or close() closed the connection.
          }
        }
      });
      thread.setDaemon(true);
      thread.start();
      Path token = Files.createTempFile("token", "");
      Files.write(token, "a token for tests".getBytes("US-ASCII"));
      token.toFile().deleteOnExit();
      SidecarClient.StateSource emptyCluster = new SidecarClient.StateSource() {
        @Override
        public void encodeSnapshot(Consumer<byte[]> sink) {}

        @Override
        public void encodeNodeChanges(Consumer<byte[]> sink) {}
      };
      client = new SidecarClient(new Settings("127.0.0.1", server.getLocalPort(), token, readTimeoutMs, 50, true, 0), emptyCluster, received, INFO::add, WARNINGS::add);
      client.start();
    }

    @Override
    public void close() throws IOException {
      client.stop();
      server.close();
    }
  }
}
