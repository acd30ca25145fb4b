package giveway.yarn;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The way to the sidecar and back: a daemon thread that writes news and one that reads orders.
 *
 * <p>Whoever has news leaves it in a bounded queue and goes on; whoever wants the order looks at the last one. Neither ever waits for the sidecar.
 * If the sidecar is silent, slow, restarted, or sends what makes no sense, the order is dropped, which means FIFO, the log says so once, and the
 * thread tries again. Each connection begins with everything there is to know, so nothing that was missed matters, and a full queue is nothing
 * worse than a reason to begin again.
 */
final class Bridge {
  /** Tells everything there is to know now, and what is new of the nodes, which nobody announces. */
  interface Source {
    /** Everything: nodes, applications, what they ask for, what they run. */
    void tellAll(Consumer<byte[]> to);

    /** What changed of the nodes since this was last asked. */
    void tellNodes(Consumer<byte[]> to);
  }

  private static final int NEWS_MAX = 100_000;
  private static final long BEAT_MS = 500;
  private static final long GATHER_MS = 10;
  private static final int CONNECT_MS = 2_000;

  private final Settings settings;
  private final Source source;
  private final Consumer<String> log;
  private final BlockingQueue<byte[]> news = new ArrayBlockingQueue<>(NEWS_MAX);
  private final Thread thread;

  private volatile boolean stopped;
  private volatile boolean connected;
  private volatile boolean overflowed;
  private volatile Ranking ranking;
  private volatile Socket socket;
  private volatile IOException readerFailed;
  private String lastSaid = "";

  Bridge(Settings settings, Source source, Consumer<String> log) {
    this.settings = settings;
    this.source = source;
    this.log = log;
    thread = new Thread(this::run, "giveway-bridge");
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  void stop() {
    stopped = true;
    ranking = null;
    thread.interrupt();
    close();
  }

  boolean isAlive() {
    return thread.isAlive();
  }

  /** The last order, or null where there is none that can be trusted: then the queue is FIFO. */
  Ranking ranking() {
    return ranking;
  }

  /** Leaves news for the sidecar. It never waits. */
  void tell(byte[] content) {
    if (connected && !news.offer(content)) {
      overflowed = true;
    }
  }

  private void run() {
    while (!stopped) {
      try {
        session();
      } catch (InterruptedException e) {
        // Only stop() interrupts.
        return;
      } catch (Throwable t) {
        say(t);
      } finally {
        connected = false;
        ranking = null;
        close();
      }
      try {
        Thread.sleep(settings.retryMs);
      } catch (InterruptedException e) {
        return;
      }
    }
  }

  private void session() throws IOException, InterruptedException {
    String token = new String(Files.readAllBytes(settings.tokenFile), java.nio.charset.StandardCharsets.UTF_8).trim();
    Socket connection = new Socket();
    socket = connection;
    connection.connect(new InetSocketAddress(settings.host, settings.port), CONNECT_MS);
    connection.setTcpNoDelay(true);
    // Whoever is silent for longer than this is not there: the sidecar beats much more often.
    connection.setSoTimeout(settings.silenceMs);
    DataInputStream in = new DataInputStream(new BufferedInputStream(connection.getInputStream()));
    OutputStream out = new BufferedOutputStream(connection.getOutputStream(), 1 << 16);
    Frame hello = Frame.of('H');
    for (char letter : "GIVEWAY".toCharArray()) {
      hello.number(1, letter);
    }
    Frame.write(out, hello.number(2, Frame.VERSION).text(token).content());
    out.flush();
    String policy = welcome(in);
    news.clear();
    overflowed = false;
    readerFailed = null;
    connected = true;
    Thread reader = new Thread(() -> read(in, connection), "giveway-orders");
    reader.setDaemon(true);
    reader.start();
    lastSaid = "";
    log.accept("the sidecar at " + settings.host + ":" + settings.port + " orders applications by " + policy);
    try {
      write(out);
    } catch (IOException e) {
      // What the reader met comes first: it closed the connection under the writer's feet.
      reader.join(CONNECT_MS);
      throw readerFailed != null ? readerFailed : e;
    }
  }

  private String welcome(DataInputStream in) throws IOException {
    byte[] content = Frame.read(in);
    if (content == null) {
      throw new EOFException();
    }
    Frame.Fields fields = new Frame.Fields(content);
    switch (fields.what()) {
      case 'W':
        long version = fields.number(2);
        if (version != Frame.VERSION) {
          throw new IOException("it speaks version " + version + " of the protocol, this plug-in " + Frame.VERSION + "; install the same release on both sides");
        }
        return fields.text();
      case 'R':
        throw new IOException("it refuses: " + fields.text());
      default:
        throw new IOException("it answered with a frame `" + fields.what() + "` that makes no sense");
    }
  }

  private void write(OutputStream out) throws IOException, InterruptedException {
    List<byte[]> batch = new ArrayList<>();
    boolean whole = false;
    byte[] first = null;
    while (!stopped) {
      if (overflowed) {
        news.clear();
        overflowed = false;
        whole = false;
      }
      batch.clear();
      if (whole) {
        // Nodes first: news of a container on a node that nobody has heard of would be of no use.
        source.tellNodes(batch::add);
        if (first != null) {
          batch.add(first);
        }
      } else {
        batch.add(Frame.of('[').content());
        source.tellAll(batch::add);
        batch.add(Frame.of(']').content());
        whole = true;
      }
      news.drainTo(batch);
      batch.add(Frame.of('b').content());
      for (byte[] content : batch) {
        Frame.write(out, content);
      }
      out.flush();
      first = news.poll(BEAT_MS, TimeUnit.MILLISECONDS);
      if (first != null) {
        // Where one piece of news comes, more come: they are cheaper together.
        Thread.sleep(GATHER_MS);
      }
    }
  }

  private void read(DataInputStream in, Socket connection) {
    try {
      for (byte[] content = Frame.read(in); content != null; content = Frame.read(in)) {
        Frame.Fields fields = new Frame.Fields(content);
        switch (fields.what()) {
          case 'O':
            int count = (int) fields.number(4);
            List<String> applications = new ArrayList<>();
            for (int i = 0; i < count; i++) {
              applications.add(fields.text());
            }
            if (socket == connection && !stopped) {
              ranking = new Ranking(applications);
            }
            break;
          case 'b':
            break;
          case 'R':
            throw new IOException("it refuses: " + fields.text());
          default:
            throw new IOException("it sent a frame `" + fields.what() + "` that makes no sense");
        }
      }
      throw new EOFException();
    } catch (IOException e) {
      readerFailed = e;
    } catch (Throwable t) {
      readerFailed = new IOException(t);
    } finally {
      if (socket == connection) {
        ranking = null;
      }
      try {
        connection.close();
      } catch (IOException ignored) {
        // It is gone either way.
      }
    }
  }

  private String reason(Throwable t) {
    if (t instanceof SocketTimeoutException) {
      return "it has said nothing for " + settings.silenceMs + " ms";
    }
    if (t instanceof EOFException) {
      return "it hung up";
    }
    if (t instanceof java.nio.file.NoSuchFileException) {
      return "there is no token file " + t.getMessage();
    }
    return t.getMessage() == null ? t.toString() : t.getMessage();
  }

  /**
   * Says once what is wrong; trying again in vain is not worth a line. First it hangs up, then it cannot be reached: that is one thing, that it is not there. What
   * one says who is there is another.
   */
  private void say(Throwable t) {
    String reason = reason(t);
    boolean absent = t instanceof EOFException || t instanceof SocketException || t instanceof SocketTimeoutException;
    String what = absent ? "absent" : reason;
    if (!stopped && !what.equals(lastSaid)) {
      lastSaid = what;
      log.accept("no order from the sidecar at " + settings.host + ":" + settings.port + ", so its queues are FIFO: " + reason);
    }
  }

  private void close() {
    Socket open = socket;
    if (open != null) {
      try {
        open.close();
      } catch (IOException ignored) {
        // It is gone either way.
      }
    }
  }
}
