package giveway.yarn;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
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
  private static final String TOKEN = "a token for tests";
  /** Of the sidecar of the current test. */
  private static volatile InetSocketAddress fixtureAddress;
  private static final List<String> INFO = new CopyOnWriteArrayList<>();
  private static final List<String> WARNINGS = new CopyOnWriteArrayList<>();

  /** Records what a client passes on. */
  private static final class RecordingOrders implements SidecarClient.OrderHandler {
    final List<String> orders = new CopyOnWriteArrayList<>();
    final AtomicInteger ticks = new AtomicInteger();
    final AtomicInteger disconnections = new AtomicInteger();

    @Override
    public void onOrder(char type, String containerId) {
      orders.add(type + containerId);
    }

    @Override
    public void onTick(long nodeExpiryMs) {
      ticks.incrementAndGet();
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
    testProofs();
    testFault("other protocol version", "protocol version mismatch: sidecar 9, plug-in " + Frame.VERSION, (in, out) -> {
      prove(in, out, TOKEN);
      Frame.write(out, Frame.of(Frame.WELCOME).integer(2, 9).string("fifo").content());
      Thread.sleep(200);
    });
    testFault("a sidecar that does not prove itself", "the peer did not prove that it is the sidecar", (in, out) -> {
      Frame.read(in);
      Frame.write(out, Frame.of(Frame.WELCOME).integer(2, Frame.VERSION).string("fake").integer(4, 1).content());
      Frame.write(out, Frame.of(Frame.KILL).string("c1").content());
      Thread.sleep(200);
    });
    testFault("rejection with line breaks", "rejected by the sidecar: no?INFO all is well", (in, out) -> {
      Frame.read(in);
      Frame.write(out, Frame.of(Frame.REJECTED).string("no\nINFO all is well").content());
    });
    testFault("long frame before the proof", "invalid frame length 4097: expected 1 to 4096 bytes", (in, out) -> {
      Frame.read(in);
      out.write(new byte[] {0, 0, 16, 1});
      Thread.sleep(200);
    });
    testFakeSidecar();
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
    testStandby();
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

  /** handshake.rs has the same bytes. */
  private static void testProofs() throws Exception {
    byte[] pluginNonce = filled(1);
    byte[] sidecarNonce = filled(2);
    byte[] token = "secret".getBytes("US-ASCII");
    InetSocketAddress four = new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 7040);
    InetSocketAddress six = new InetSocketAddress(InetAddress.getByName("::1"), 7040);
    String sidecar = hex(Handshake.proof(token, Handshake.Role.SIDECAR, pluginNonce, sidecarNonce, four));
    expect("proof of a sidecar", sidecar.equals("27e570bedcf4b1c09e0f12e52022b76daeb0d7bfba4ae8070a5f0aac1a4d5d3b"), sidecar);
    String plugin = hex(Handshake.proof(token, Handshake.Role.PLUGIN, pluginNonce, sidecarNonce, six));
    expect("proof of a plug-in", plugin.equals("d4500c402e7bf141835ff51962346e0ff8f694e6c77524713f75487544109147"), plugin);
  }

  /** A process that has taken the sidecar's port without its token receives neither token nor proof, and its orders are ignored. */
  private static void testFakeSidecar() throws Exception {
    List<byte[]> frames = new CopyOnWriteArrayList<>();
    AtomicInteger connections = new AtomicInteger();
    try (Fixture fixture = new Fixture(400, (in, out) -> {
      connections.incrementAndGet();
      byte[] hello = Frame.read(in);
      frames.add(hello);
      byte[] nonce = Arrays.copyOfRange(hello, hello.length - Handshake.NONCE_BYTES, hello.length);
      // The best it can do: the proof with a guessed token, or the plug-in's own nonce sent back.
      byte[] proof = Handshake.proof("a guessed token".getBytes("US-ASCII"), Handshake.Role.SIDECAR, nonce, nonce, fixtureAddress);
      Frame.write(out, Frame.of(Frame.CHALLENGE).bytes(nonce).bytes(proof).content());
      Frame.write(out, Frame.of(Frame.WELCOME).integer(2, Frame.VERSION).string("fake").integer(4, 1).content());
      Frame.write(out, Frame.of(Frame.RANKING).integer(4, 1).string("a").content());
      Frame.write(out, Frame.of(Frame.KILL).string("c1").content());
      for (byte[] content = Frame.read(in); content != null; content = Frame.read(in)) {
        frames.add(content);
      }
    })) {
      waitUntil("fake sidecar: several connections", () -> connections.get() >= 3);
      expect("fake sidecar: the reason is logged once", warningsWith("token mismatch") == 1, WARNINGS.toString());
      expect("fake sidecar: no ranking, no orders", fixture.client.ranking() == null && fixture.received.orders.isEmpty(), fixture.received.orders.toString());
      expect("fake sidecar: no ticks", fixture.received.ticks.get() == 0, "");
      expect("fake sidecar: only HELLO is sent", frames.stream().allMatch(content -> content[0] == Frame.HELLO), "");
      expect("fake sidecar: no token", frames.stream().noneMatch(content -> new String(content, StandardCharsets.ISO_8859_1).contains(TOKEN)), "");
      expect("fake sidecar: never connected", INFO.isEmpty(), INFO.toString());
    }
  }

  private static byte[] filled(int value) {
    byte[] bytes = new byte[Handshake.NONCE_BYTES];
    Arrays.fill(bytes, (byte) value);
    return bytes;
  }

  private static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte b : bytes) {
      text.append(String.format("%02x", b));
    }
    return text.toString();
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

  /** The sidecar's part of the handshake before WELCOME. */
  private static void prove(DataInputStream in, OutputStream out, String token) throws IOException {
    byte[] hello = Frame.read(in);
    byte[] pluginNonce = Arrays.copyOfRange(hello, hello.length - Handshake.NONCE_BYTES, hello.length);
    byte[] nonce = filled(3);
    byte[] key = token.getBytes(StandardCharsets.US_ASCII);
    byte[] proof = Handshake.proof(key, Handshake.Role.SIDECAR, pluginNonce, nonce, fixtureAddress);
    Frame.write(out, Frame.of(Frame.CHALLENGE).bytes(nonce).bytes(proof).content());
    byte[] expected = Frame.of(Frame.PROOF).bytes(Handshake.proof(key, Handshake.Role.PLUGIN, pluginNonce, nonce, fixtureAddress)).integer(1, 1).content();
    if (!Arrays.equals(Frame.read(in), expected)) {
      throw new IOException("the plug-in has not proved itself");
    }
  }

  private static void acceptHello(DataInputStream in, OutputStream out) throws IOException {
    prove(in, out, TOKEN);
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

  /** A ResourceManager that stands by leaves the sidecar to the active one. */
  private static void testStandby() throws Exception {
    AtomicInteger connections = new AtomicInteger();
    try (Fixture fixture = new Fixture(60_000, (in, out) -> {
      connections.incrementAndGet();
      serveCorrectly(in, out);
    })) {
      waitUntil("active: a ranking", () -> fixture.client.ranking() != null);
      fixture.active = false;
      waitUntil("standby: no connection", () -> fixture.client.ranking() == null && !fixture.client.isConnected());
      int before = connections.get();
      Thread.sleep(300);
      expect("standby: connects no more", connections.get() == before && !fixture.client.isConnected(), "");
      fixture.active = true;
      waitUntil("active again: a ranking", () -> fixture.client.ranking() != null);
      expect("standby: that is no fault", WARNINGS.isEmpty(), WARNINGS.toString());
    }
  }

  /** A server socket whose connections are served by a peer, and a client that connects to it. Clears the logs. */
  private static final class Fixture implements AutoCloseable {
    final ServerSocket server = new ServerSocket(0, 8, InetAddress.getByName("127.0.0.1"));
    final RecordingOrders received = new RecordingOrders();
    final SidecarClient client;
    volatile boolean active = true;

    Fixture(int readTimeoutMs, Peer peer) throws IOException {
      INFO.clear();
      WARNINGS.clear();
      fixtureAddress = new InetSocketAddress(server.getInetAddress(), server.getLocalPort());
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
      Files.write(token, TOKEN.getBytes("US-ASCII"));
      token.toFile().deleteOnExit();
      SidecarClient.StateSource emptyCluster = new SidecarClient.StateSource() {
        @Override
        public boolean isActive() {
          return active;
        }

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
