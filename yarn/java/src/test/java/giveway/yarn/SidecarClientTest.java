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
 * A bridge and sidecars that misbehave: in each case there is no order, the log has one line that says why, the bridge lives on, and a sidecar that behaves
 * is followed at once. A plain main, so that nothing beyond Hadoop's classes is needed.
 */
public final class BridgeCheck {
  private static final List<String> LOG = new CopyOnWriteArrayList<>();

  private BridgeCheck() {}

  private interface Peer {
    void serve(DataInputStream in, OutputStream out) throws Exception;
  }

  public static void main(String[] args) throws Exception {
    check("another version", "speaks version 9 of the protocol", (in, out) -> {
      Frame.read(in);
      Frame.write(out, Frame.of('W').number(2, 9).text("fifo").content());
      Thread.sleep(200);
    });
    check("a refusal", "it refuses: the token is wrong", (in, out) -> {
      Frame.read(in);
      Frame.write(out, Frame.of('R').text("the token is wrong").content());
    });
    check("a frame of 2 GB instead of a welcome", "a frame of 2147483648 bytes is none", (in, out) -> {
      Frame.read(in);
      out.write(new byte[] {(byte) 0x80, 0, 0, 0});
      Thread.sleep(200);
    });
    check("a frame of 2 GB after the welcome", "a frame of 2147483648 bytes is none", (in, out) -> {
      welcome(in, out);
      out.write(new byte[] {(byte) 0x80, 0, 0, 0});
      Thread.sleep(200);
    });
    check("half a frame, then the end", "it hung up", (in, out) -> {
      welcome(in, out);
      out.write(new byte[] {0, 0, 0, 9, 'O'});
    });
    check("half a frame, then silence", "it has said nothing for 400 ms", (in, out) -> {
      welcome(in, out);
      out.write(new byte[] {0, 0, 0, 9, 'O'});
      Thread.sleep(1_000);
    });
    check("silence from the beginning", "it has said nothing for 400 ms", (in, out) -> Thread.sleep(1_000));
    check("a frame nobody knows", "a frame `z` that makes no sense", (in, out) -> {
      welcome(in, out);
      Frame.write(out, Frame.of('z').content());
      Thread.sleep(200);
    });
    check("an order that ends within itself", "ends within a field", (in, out) -> {
      welcome(in, out);
      Frame.write(out, Frame.of('O').number(4, 5).text("a").content());
      Thread.sleep(200);
    });
    check("something else on the port", "a frame of 1213486160 bytes is none", (in, out) -> {
      Frame.read(in);
      out.write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes("US-ASCII"));
      Thread.sleep(200);
    });
    sorts();
    overflows();
    System.out.println("the plug-in's checks hold");
  }

  /** The bad sidecar comes first, a few times over; then a good one. */
  private static void check(String name, String line, Peer bad) throws Exception {
    LOG.clear();
    AtomicInteger visits = new AtomicInteger();
    try (Stand stand = new Stand(400, (in, out) -> {
      if (visits.getAndIncrement() < 3) {
        bad.serve(in, out);
      } else {
        behave(in, out);
      }
    })) {
      until(name + ": it tries again", () -> visits.get() >= 3);
      until(name + ": the log says why", () -> said(line) >= 1);
      until(name + ": it follows the good one", () -> stand.bridge.ranking() != null && stand.bridge.ranking().size() == 2);
      expect(name + ": the log says it once in a row", said(line) <= 3 && !repeated(), LOG.toString());
      expect(name + ": the bridge lives", stand.bridge.isAlive(), "");
    }
  }

  private static void sorts() {
    Ranking ranking = new Ranking(Arrays.asList("b", "a"));
    expect("known first, the others as they came", ranking.sort(Arrays.asList("x", "a", "y", "b"), id -> id).equals(Arrays.asList("b", "a", "x", "y")), "");
    expect("nobody is known", new Ranking(Collections.emptyList()).sort(Arrays.asList("x", "a"), id -> id).equals(Arrays.asList("x", "a")), "");
  }

  /** News beyond the queue is not waited for: the bridge tells everything again instead. */
  private static void overflows() throws Exception {
    LOG.clear();
    AtomicInteger visits = new AtomicInteger();
    AtomicInteger syncs = new AtomicInteger();
    CountDownLatch told = new CountDownLatch(1);
    try (Stand stand = new Stand(60_000, (in, out) -> {
      visits.incrementAndGet();
      welcome(in, out);
      for (byte[] content = Frame.read(in); content != null; content = Frame.read(in)) {
        if (content[0] == '[' && syncs.incrementAndGet() == 1) {
          told.await();
        }
      }
    })) {
      until("the first sync", () -> syncs.get() == 1);
      byte[] news = Frame.of('Q').text("an application with a name that fills the sockets' own buffers soon enough").content();
      long from = System.nanoTime();
      for (int i = 0; i < 300_000; i++) {
        stand.bridge.tell(news);
      }
      expect("telling never waits", System.nanoTime() - from < 10_000_000_000L, "");
      told.countDown();
      until("everything is told again", () -> syncs.get() >= 2);
      expect("over the same connection", visits.get() == 1, LOG.toString());
    }
  }

  private static void welcome(DataInputStream in, OutputStream out) throws IOException {
    Frame.read(in);
    Frame.write(out, Frame.of('W').number(2, Frame.VERSION).text("fifo").content());
  }

  /** Sends an order, then beats until the bridge hangs up. */
  private static void behave(DataInputStream in, OutputStream out) throws Exception {
    welcome(in, out);
    Frame.write(out, Frame.of('O').number(4, 2).text("b").text("a").content());
    while (true) {
      Frame.write(out, Frame.of('b').content());
      Thread.sleep(50);
    }
  }

  private static int said(String part) {
    return (int) LOG.stream().filter(line -> line.contains(part)).count();
  }

  private static boolean repeated() {
    for (int i = 1; i < LOG.size(); i++) {
      if (LOG.get(i).equals(LOG.get(i - 1))) {
        return true;
      }
    }
    return false;
  }

  private static void until(String what, BooleanSupplier holds) throws InterruptedException {
    for (int i = 0; i < 1_000 && !holds.getAsBoolean(); i++) {
      Thread.sleep(20);
    }
    expect(what, holds.getAsBoolean(), LOG.toString());
  }

  private static void expect(String what, boolean holds, String detail) {
    if (!holds) {
      throw new AssertionError(what + " " + detail);
    }
  }

  /** A server socket with a peer behind it, and a bridge that goes there. */
  private static final class Stand implements AutoCloseable {
    final ServerSocket server = new ServerSocket(0, 8, InetAddress.getByName("127.0.0.1"));
    final Bridge bridge;

    Stand(int silenceMs, Peer peer) throws IOException {
      Thread thread = new Thread(() -> {
        while (!server.isClosed()) {
          try (Socket socket = server.accept()) {
            peer.serve(new DataInputStream(socket.getInputStream()), socket.getOutputStream());
          } catch (Exception e) {
            // The bridge hung up, or the stand is taken down.
          }
        }
      });
      thread.setDaemon(true);
      thread.start();
      Path token = Files.createTempFile("token", "");
      Files.write(token, "a token for checks".getBytes("US-ASCII"));
      token.toFile().deleteOnExit();
      Bridge.Source nothing = new Bridge.Source() {
        @Override
        public void tellAll(Consumer<byte[]> to) {}

        @Override
        public void tellNodes(Consumer<byte[]> to) {}
      };
      bridge = new Bridge(new Settings("127.0.0.1", server.getLocalPort(), token, silenceMs, 50), nothing, LOG::add);
      bridge.start();
    }

    @Override
    public void close() throws IOException {
      bridge.stop();
      server.close();
    }
  }
}
