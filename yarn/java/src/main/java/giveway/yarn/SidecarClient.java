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
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Connection to the sidecar: one daemon thread that connects and sends messages, and one that receives rankings.
 *
 * <p>{@link #send} puts a message into a bounded queue and {@link #ranking} returns the last ranking received; neither blocks. If the sidecar is silent,
 * slow, restarted, or sends invalid frames, the ranking is dropped, so the queues are FIFO; the fault is logged and the client reconnects. Every
 * connection begins with a snapshot of the whole state, so messages lost in between do not matter. If the message queue overflows, it is cleared and a
 * new snapshot is sent.
 */
final class SidecarClient {
  /** The ResourceManager's state as messages. Called on the sending thread. */
  interface StateSource {
    /** False for a ResourceManager that stands by: it has no state to send, and the sidecar may serve the active one. */
    boolean isActive();

    /** Passes the whole state to the sink: nodes, applications, containers, outstanding asks. */
    void encodeSnapshot(Consumer<byte[]> sink);

    /** Passes the changes of nodes since the last call of either method to the sink. */
    void encodeNodeChanges(Consumer<byte[]> sink);
  }

  /** Carries out the sidecar's orders for single containers. Called on the receiving thread. */
  interface OrderHandler {
    /** An order of type {@link Frame#PAUSE}, {@link Frame#RESUME} or {@link Frame#KILL}. */
    void onOrder(char type, String containerId);

    /** Called at least twice a second while there is a connection, on the sending thread. */
    void onTick(long nodeExpiryMs);

    /** The connection ended: there will be no more orders, and what was paused must be resumed. */
    void onDisconnected();
  }

  private static final int MESSAGE_QUEUE_MAX = 100_000;
  private static final long HEARTBEAT_MS = 500;
  private static final long BATCH_DELAY_MS = 10;
  private static final int CONNECT_TIMEOUT_MS = 2_000;

  private final Settings settings;
  private final StateSource source;
  private final OrderHandler orders;
  private final Consumer<String> info;
  private final Consumer<String> warn;
  private final BlockingQueue<byte[]> messages = new ArrayBlockingQueue<>(MESSAGE_QUEUE_MAX);
  private final Thread thread;

  private volatile boolean stopped;
  private volatile boolean connected;
  private volatile boolean overflowed;
  private volatile Ranking ranking;
  private volatile NodeRefusals refusals = NodeRefusals.NONE;
  private volatile Socket socket;
  private volatile IOException receiveError;
  /** From the sidecar's WELCOME; 0 if the ResourceManager alone decides which nodes are lost. */
  private long nodeExpiryMs;
  /** Faults logged since the last successful connection. */
  private final Set<String> loggedFaults = new HashSet<>();

  SidecarClient(Settings settings, StateSource source, OrderHandler orders, Consumer<String> info, Consumer<String> warn) {
    this.settings = settings;
    this.source = source;
    this.orders = orders;
    this.info = info;
    this.warn = warn;
    thread = new Thread(this::run, "giveway-sidecar-client");
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

  /** True while messages reach the sidecar. */
  boolean isConnected() {
    return connected;
  }

  /** The last ranking, or null if there is no working connection: then the queues are FIFO. */
  Ranking ranking() {
    return ranking;
  }

  /** The nodes that are refused now; none while there is no connection. */
  NodeRefusals refusals() {
    return refusals;
  }

  /** Queues a message for the sidecar. Does not block. Without a connection the message is dropped, because the next connection sends a snapshot. */
  void send(byte[] content) {
    if (connected && !messages.offer(content)) {
      overflowed = true;
    }
  }

  private void run() {
    while (!stopped) {
      try {
        if (source.isActive()) {
          runConnection();
        }
      } catch (InterruptedException e) {
        // Only stop() interrupts.
        return;
      } catch (Throwable t) {
        logFault(t);
      } finally {
        connected = false;
        ranking = null;
        refusals = NodeRefusals.NONE;
        close();
        orders.onDisconnected();
      }
      try {
        Thread.sleep(settings.retryMs);
      } catch (InterruptedException e) {
        return;
      }
    }
  }

  private void runConnection() throws IOException, InterruptedException {
    byte[] token = new String(Files.readAllBytes(settings.tokenFile), StandardCharsets.UTF_8).trim().getBytes(StandardCharsets.UTF_8);
    Socket connection = new Socket();
    socket = connection;
    connection.connect(new InetSocketAddress(settings.host, settings.port), CONNECT_TIMEOUT_MS);
    connection.setTcpNoDelay(true);
    // A live sidecar answers every heartbeat, so it sends much more often than this.
    connection.setSoTimeout(settings.readTimeoutMs);
    DataInputStream in = new DataInputStream(new BufferedInputStream(connection.getInputStream()));
    OutputStream out = new BufferedOutputStream(connection.getOutputStream(), 1 << 16);
    InetSocketAddress sidecar = new InetSocketAddress(connection.getInetAddress(), connection.getPort());
    Frame.FieldReader welcome = Handshake.perform(in, out, token, sidecar, settings.refusesNodes);
    String policy = welcome.string();
    nodeExpiryMs = welcome.integer(4);
    messages.clear();
    overflowed = false;
    receiveError = null;
    connected = true;
    loggedFaults.clear();
    info.accept("connected to the sidecar at " + settings.host + ":" + settings.port + ", policy " + policy);
    Thread receiver = new Thread(() -> receive(in, connection), "giveway-ranking-receiver");
    receiver.setDaemon(true);
    receiver.start();
    try {
      sendMessages(out);
    } catch (IOException e) {
      // The receiver closes the socket when it fails. Its error is then the cause of this one.
      receiver.join(CONNECT_TIMEOUT_MS);
      throw receiveError != null ? receiveError : e;
    }
  }

  private void sendMessages(OutputStream out) throws IOException, InterruptedException {
    List<byte[]> batch = new ArrayList<>();
    List<byte[]> queued = new ArrayList<>();
    boolean snapshotSent = false;
    byte[] first = null;
    while (!stopped && source.isActive()) {
      if (overflowed) {
        messages.clear();
        overflowed = false;
        snapshotSent = false;
      }
      batch.clear();
      if (snapshotSent) {
        // Nodes are sent first, because the sidecar ignores containers on nodes that it does not know; but they are read last, so that none is missing.
        queued.clear();
        if (first != null) {
          queued.add(first);
        }
        messages.drainTo(queued);
        source.encodeNodeChanges(batch::add);
        batch.addAll(queued);
      } else {
        batch.add(Frame.of(Frame.SNAPSHOT_STARTED).content());
        source.encodeSnapshot(batch::add);
        batch.add(Frame.of(Frame.SNAPSHOT_ENDED).content());
        messages.drainTo(batch);
        snapshotSent = true;
      }
      batch.add(Frame.of(Frame.HEARTBEAT).content());
      for (byte[] content : batch) {
        Frame.write(out, content);
      }
      out.flush();
      orders.onTick(nodeExpiryMs);
      first = messages.poll(HEARTBEAT_MS, TimeUnit.MILLISECONDS);
      if (first != null) {
        // Messages come in bursts; one batch is cheaper than many.
        Thread.sleep(BATCH_DELAY_MS);
      }
    }
  }

  private void receive(DataInputStream in, Socket connection) {
    try {
      for (byte[] content = Frame.read(in); content != null; content = Frame.read(in)) {
        Frame.FieldReader fields = new Frame.FieldReader(content);
        switch (fields.type()) {
          case Frame.RANKING:
            int count = (int) fields.integer(4);
            List<String> applicationIds = new ArrayList<>();
            for (int i = 0; i < count; i++) {
              applicationIds.add(fields.string());
            }
            if (socket == connection && !stopped) {
              ranking = new Ranking(applicationIds);
            }
            break;
          case Frame.NODE_CLASSES:
            NodeRefusals withClasses = refusals.withClasses(fields);
            if (socket == connection && !stopped) {
              refusals = withClasses;
            }
            break;
          case Frame.REFUSALS:
            NodeRefusals withRefused = refusals.withRefused(fields);
            if (socket == connection && !stopped) {
              refusals = withRefused;
            }
            break;
          case Frame.PAUSE:
          case Frame.RESUME:
          case Frame.KILL:
            String containerId = fields.string();
            if (socket == connection && !stopped) {
              orders.onOrder(fields.type(), containerId);
            }
            break;
          case Frame.HEARTBEAT:
            break;
          case Frame.REJECTED:
            throw new IOException("rejected by the sidecar: " + fields.string());
          default:
            throw new IOException("invalid frame: unknown type `" + fields.type() + "`");
        }
      }
      throw new EOFException();
    } catch (IOException e) {
      receiveError = e;
    } catch (Throwable t) {
      receiveError = new IOException(t);
    } finally {
      if (socket == connection) {
        ranking = null;
        refusals = NodeRefusals.NONE;
      }
      try {
        connection.close();
      } catch (IOException ignored) {
        // Nothing is left to release.
      }
    }
  }

  private String reason(Throwable t) {
    if (t instanceof SocketTimeoutException) {
      return "no complete frame for " + settings.readTimeoutMs + " ms";
    }
    if (t instanceof EOFException) {
      return "the sidecar closed the connection";
    }
    if (t instanceof NoSuchFileException) {
      return "token file " + t.getMessage() + " does not exist; check giveway.token.file";
    }
    return t.getMessage() == null ? t.toString() : t.getMessage();
  }

  /**
   * Logs a fault once until the next successful connection. Closed, refused and timed-out connections count as one fault: a sidecar that stops causes them one
   * after the other.
   */
  private void logFault(Throwable t) {
    String reason = reason(t);
    boolean unreachable = t instanceof EOFException || t instanceof SocketException || t instanceof SocketTimeoutException;
    if (!stopped && loggedFaults.add(unreachable ? "unreachable" : reason)) {
      warn.accept("no ranking from the sidecar at " + settings.host + ":" + settings.port + ", its queues are FIFO: " + reason);
    }
  }

  private void close() {
    Socket open = socket;
    if (open != null) {
      try {
        open.close();
      } catch (IOException ignored) {
        // Nothing is left to release.
      }
    }
  }
}
