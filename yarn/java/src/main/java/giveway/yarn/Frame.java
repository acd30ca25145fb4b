package giveway.yarn;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * One frame of the protocol described in docs/yarn.md: a 4-byte length, then the content, which is a type byte and the fields. Integers are big-endian; a
 * string is a 2-byte length followed by UTF-8.
 */
final class Frame {
  /** Protocol version. Plug-in and sidecar must have the same one. */
  static final int VERSION = 6;
  /** Limit on a frame's content. Longer frames are rejected before memory is allocated. */
  static final int BYTES_MAX = 4 << 20;
  /** The same for a peer that has not proved itself yet. */
  static final int UNPROVED_BYTES_MAX = 4 << 10;
  private static final int STRING_BYTES_MAX = 65535;

  // Frame types. The same constants are in wire.rs.
  static final char HELLO = 'H';
  static final char CHALLENGE = 'X';
  static final char PROOF = 'Y';
  static final char WELCOME = 'W';
  static final char REJECTED = 'R';
  static final char SNAPSHOT_STARTED = '[';
  static final char SNAPSHOT_ENDED = ']';
  static final char NODE_ADDED = 'N';
  static final char NODE_REMOVED = 'n';
  static final char APP_ADDED = 'A';
  static final char APP_REMOVED = 'a';
  static final char APP_UPDATED = 'Q';
  static final char CONTAINER_ALLOCATED = 'C';
  static final char CONTAINER_RELEASED = 'c';
  static final char CONTAINER_UPDATED = 'u';
  static final char CONTAINER_PROGRESS = 'g';
  static final char HEARTBEAT = 'b';
  static final char RANKING = 'O';
  static final char PAUSE = 'P';
  static final char RESUME = 'p';
  static final char KILL = 'K';
  static final char NODE_CLASSES = 'L';
  static final char REFUSALS = 'V';

  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(64);

  private Frame(char type) {
    integer(1, type);
  }

  static Frame of(char type) {
    return new Frame(type);
  }

  /** Appends the lowest {@code width} bytes of an integer, the highest of them first. */
  Frame integer(int width, long value) {
    for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) {
      bytes.write((int) (value >>> shift));
    }
    return this;
  }

  /** Appends a string, cut to 65,535 bytes. Null becomes the empty string. */
  Frame string(String string) {
    byte[] utf8 = (string == null ? "" : string).getBytes(StandardCharsets.UTF_8);
    int length = Math.min(utf8.length, STRING_BYTES_MAX);
    integer(2, length);
    bytes.write(utf8, 0, length);
    return this;
  }

  /** Appends bytes without a length. */
  Frame bytes(byte[] appended) {
    bytes.write(appended, 0, appended.length);
    return this;
  }

  /** Appends characters without a length. */
  Frame ascii(String characters) {
    return bytes(characters.getBytes(StandardCharsets.US_ASCII));
  }

  /** The content, to be passed to {@link #write}. */
  byte[] content() {
    return bytes.toByteArray();
  }

  /** Writes the length and the content. */
  static void write(OutputStream to, byte[] content) throws IOException {
    DataOutputStream out = new DataOutputStream(to);
    out.writeInt(content.length);
    out.write(content);
  }

  /** Reads one frame and returns its content, or null if the peer closed the connection between two frames. */
  static byte[] read(DataInputStream from) throws IOException {
    return read(from, BYTES_MAX);
  }

  /** The same with another limit on the content. */
  static byte[] read(DataInputStream from, int bytesMax) throws IOException {
    int first = from.read();
    if (first < 0) {
      return null;
    }
    long length = (long) first << 24 | from.readUnsignedByte() << 16 | from.readUnsignedShort();
    if (length < 1 || length > bytesMax) {
      throw new IOException("invalid frame length " + length + ": expected 1 to " + bytesMax + " bytes");
    }
    byte[] content = new byte[(int) length];
    from.readFully(content);
    return content;
  }

  /** Reads the fields of a frame's content in order. */
  static final class FieldReader {
    private final byte[] content;
    private int position = 1;

    FieldReader(byte[] content) {
      this.content = content;
    }

    char type() {
      return (char) content[0];
    }

    long integer(int width) throws IOException {
      require(width);
      long value = 0;
      for (int i = 0; i < width; i++) {
        value = value << 8 | content[position++] & 0xff;
      }
      return value;
    }

    String string() throws IOException {
      return new String(bytes((int) integer(2)), StandardCharsets.UTF_8);
    }

    byte[] bytes(int length) throws IOException {
      require(length);
      position += length;
      return Arrays.copyOfRange(content, position - length, position);
    }

    private void require(int length) throws IOException {
      if (content.length - position < length) {
        throw new IOException("invalid frame of type `" + type() + "`: the frame ends within a field");
      }
    }
  }
}
